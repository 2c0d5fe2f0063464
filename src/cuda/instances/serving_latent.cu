#include "cuda/serving/instance.hpp"

namespace tessera::cuda::serving {
template Functions functions<Element::f16, 576, 512>();
template Functions functions<Element::bf16, 576, 512>();
}  // namespace tessera::cuda::serving
