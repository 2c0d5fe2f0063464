#include "cuda/sm90_fp8/instance.hpp"

namespace tessera::cuda::sm90_fp8 {
template Functions functions<sm90::Codes::e4m3, 128, 128>();
template Functions functions<sm90::Codes::e5m2, 128, 128>();
}  // namespace tessera::cuda::sm90_fp8
