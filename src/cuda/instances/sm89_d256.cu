#include "cuda/sm89/instance.hpp"

namespace tessera::cuda::sm89 {
template Functions functions<Element::e4m3, 256>();
template Functions functions<Element::e5m2, 256>();
}  // namespace tessera::cuda::sm89
