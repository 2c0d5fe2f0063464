#include "cuda/sm90_fp8/instance.hpp"

namespace tessera::cuda::sm90_fp8 {
template Functions functions<sm90::Codes::e4m3, 64, 64>();
template Functions functions<sm90::Codes::e5m2, 64, 64>();
}  // namespace tessera::cuda::sm90_fp8
