#include "cuda/sm80/instance.hpp"

namespace tessera::cuda::sm80 {
template Functions functions<Element::f16, 512, 256>();
template Functions functions<Element::bf16, 512, 256>();
}  // namespace tessera::cuda::sm80
