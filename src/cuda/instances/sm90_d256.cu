#include "cuda/sm90/instance.hpp"

namespace tessera::cuda::sm90 {
template Functions functions<Element::f16, 256, 256>();
template Functions functions<Element::bf16, 256, 256>();
}  // namespace tessera::cuda::sm90
