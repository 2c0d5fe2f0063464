#include "cuda/sm80/instance.hpp"

namespace tessera::cuda::sm80 {
template Functions functions<Element::f16, 128, 128>();
template Functions functions<Element::bf16, 128, 128>();
}  // namespace tessera::cuda::sm80
