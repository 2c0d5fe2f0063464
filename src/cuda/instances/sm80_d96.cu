#include "cuda/sm80/instance.hpp"

namespace tessera::cuda::sm80 {
template Functions functions<Element::f16, 96, 96>();
template Functions functions<Element::bf16, 96, 96>();
}  // namespace tessera::cuda::sm80
