#include "cuda/sm89/instance.hpp"

namespace tessera::cuda::sm89 {
template Functions functions<Element::e4m3, 64>();
template Functions functions<Element::e5m2, 64>();
}  // namespace tessera::cuda::sm89
