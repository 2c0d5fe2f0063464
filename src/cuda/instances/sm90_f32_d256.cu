#include "cuda/sm90_f32/instance.hpp"

namespace tessera::cuda::sm90_f32 {
template Functions functions<256, 256>();
}  // namespace tessera::cuda::sm90_f32
