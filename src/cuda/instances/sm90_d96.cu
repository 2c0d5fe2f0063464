#include "cuda/sm90/instance.hpp"

namespace tessera::cuda::sm90 {
template Functions functions<Element::f16, 96, 96>();
template Functions functions<Element::bf16, 96, 96>();
}  // namespace tessera::cuda::sm90
