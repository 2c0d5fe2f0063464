// The kernels for NEON, which every 64-bit Arm has: nothing to choose at run time.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)  // no fixed vector length
#include "cpu/attend-inl.hpp"
#include "cpu/targets.hpp"

namespace tessera::cpu {

Target neon_target() {
  return {.name = "cpu_neon",
          .summary = "tiled online softmax, NEON",
          .blocking = {HWY_NAMESPACE::kLanes, HWY_NAMESPACE::kMaxWidth},
          .missing = [] { return std::string(); },
          .scratch_bytes = HWY_NAMESPACE::scratch_bytes,
          .attend_item = HWY_NAMESPACE::attend_item,
          .speed = 4};
}

}  // namespace tessera::cpu
