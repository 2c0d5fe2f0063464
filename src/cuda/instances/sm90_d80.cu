#include "cuda/sm90/instance.hpp"

namespace tessera::cuda::sm90 {
template Functions functions<Element::f16, 80, 80>();
template Functions functions<Element::bf16, 80, 80>();
}  // namespace tessera::cuda::sm90
