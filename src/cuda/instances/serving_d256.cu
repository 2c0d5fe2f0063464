#include "cuda/serving/instance.hpp"

namespace tessera::cuda::serving {
template Functions functions<Element::f16, 256, 256>();
template Functions functions<Element::bf16, 256, 256>();
}  // namespace tessera::cuda::serving
