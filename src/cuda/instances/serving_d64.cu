#include "cuda/serving/instance.hpp"

namespace tessera::cuda::serving {
template Functions functions<Element::f16, 64, 64>();
template Functions functions<Element::bf16, 64, 64>();
}  // namespace tessera::cuda::serving
