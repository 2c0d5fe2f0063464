#include "cuda/sm80/instance.hpp"

namespace tessera::cuda::sm80 {
template Functions functions<Element::f16, 64, 64>();
template Functions functions<Element::bf16, 64, 64>();
}  // namespace tessera::cuda::sm80
