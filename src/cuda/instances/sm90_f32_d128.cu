#include "cuda/sm90_f32/instance.hpp"

namespace tessera::cuda::sm90_f32 {
template Functions functions<128, 128>();
}  // namespace tessera::cuda::sm90_f32
