// The kernels in plain code, one float at a time: for any CPU.
#define HWY_BROKEN_EMU128 1  // or Highway takes four floats at a time with some compilers
#define HWY_DISABLED_TARGETS (~HWY_SCALAR)
#include "cpu/attend-inl.hpp"
#include "cpu/targets.hpp"

namespace tessera::cpu {

Target scalar_target() {
  return {.name = "cpu_scalar",
          .summary = "tiled online softmax, one float at a time: any CPU",
          .blocking = {N_SCALAR::kLanes, N_SCALAR::kMaxWidth},
          .missing = [] { return std::string(); },
          .scratch_bytes = N_SCALAR::scratch_bytes,
          .attend_item = N_SCALAR::attend_item};
}

}  // namespace tessera::cpu
