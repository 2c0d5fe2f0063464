#include "cuda/sm89/instance.hpp"

namespace tessera::cuda::sm89 {
template Functions functions<Element::e4m3, 128>();
template Functions functions<Element::e5m2, 128>();
}  // namespace tessera::cuda::sm89
