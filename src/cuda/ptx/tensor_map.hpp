// What cuTensorMapEncodeTiled fills in, for whoever passes it on; opaque here. Lives in kernel parameters.
#pragma once

namespace tessera::cuda {

struct alignas(64) TensorMap {
  unsigned long long words[16];
};

}  // namespace tessera::cuda
