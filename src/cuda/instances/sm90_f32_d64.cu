#include "cuda/sm90_f32/instance.hpp"

namespace tessera::cuda::sm90_f32 {
template Functions functions<64, 64>();
}  // namespace tessera::cuda::sm90_f32
