#include "cuda/sm80/instance.hpp"

namespace tessera::cuda::sm80 {
template Functions functions<Element::f16, 192, 192>();
template Functions functions<Element::bf16, 192, 192>();
}  // namespace tessera::cuda::sm80
