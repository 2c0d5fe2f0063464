#include "cuda/serving/instance.hpp"

namespace tessera::cuda::serving {
template Functions functions<Element::f16, 192, 128>();
template Functions functions<Element::bf16, 192, 128>();
}  // namespace tessera::cuda::serving
