// The kernels for AVX-512 (Highway's AVX3).
#ifndef HWY_DISABLED_TARGETS  // Highway includes this file once more
#define HWY_COMPILE_ALL_ATTAINABLE 1
#define HWY_BROKEN_EMU128 1
// Highway insists on one target that every machine has; that pass compiles nothing here.
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_SCALAR))
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/target_avx512.cpp"
#include "hwy/foreach_target.h"
#if HWY_TARGET == HWY_AVX3
#include "cpu/attend-inl.hpp"
#else
#include "cpu/targets.hpp"

namespace tessera::cpu {
namespace {

// avx512f also says whether the operating system saves the registers.
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd");
}

std::string missing() { return has_avx512() ? "" : "this CPU has no AVX-512 (F, VL, DQ, BW, CD)"; }

}  // namespace

Target avx512_target() {
  return {.name = "cpu_avx512",
          .summary = "tiled online softmax, AVX-512",
          .blocking = {N_AVX3::kLanes, N_AVX3::kMaxWidth},
          .missing = missing,
          .scratch_bytes = N_AVX3::scratch_bytes,
          .attend_item = N_AVX3::attend_item,
          .speed = 12};
}

}  // namespace tessera::cpu
#endif
