#include "cuda/sm80/instance.hpp"

namespace tessera::cuda::sm80 {
template Functions functions<Element::f16, 32, 32>();
template Functions functions<Element::bf16, 32, 32>();
}  // namespace tessera::cuda::sm80
