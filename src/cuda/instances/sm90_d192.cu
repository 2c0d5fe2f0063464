#include "cuda/sm90/instance.hpp"

namespace tessera::cuda::sm90 {
template Functions functions<Element::f16, 192, 192>();
template Functions functions<Element::bf16, 192, 192>();
}  // namespace tessera::cuda::sm90
