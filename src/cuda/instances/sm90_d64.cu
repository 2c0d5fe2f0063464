#include "cuda/sm90/instance.hpp"

namespace tessera::cuda::sm90 {
template Functions functions<Element::f16, 64, 64>();
template Functions functions<Element::bf16, 64, 64>();
}  // namespace tessera::cuda::sm90
