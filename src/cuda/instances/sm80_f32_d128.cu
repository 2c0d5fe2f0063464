#include "cuda/sm80_f32/instance.hpp"

namespace tessera::cuda::sm80_f32 {
template Functions functions<128>();
}  // namespace tessera::cuda::sm80_f32
