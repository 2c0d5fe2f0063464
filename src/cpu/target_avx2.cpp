// The kernels for AVX2 with FMA and F16C.
#ifndef HWY_DISABLED_TARGETS  // Highway includes this file once more
#define HWY_COMPILE_ALL_ATTAINABLE 1
#define HWY_BROKEN_EMU128 1
// Highway insists on one target that every machine has; that pass compiles nothing here.
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_SCALAR))
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/target_avx2.cpp"
#include "hwy/foreach_target.h"
#if HWY_TARGET == HWY_AVX2
#include "cpu/attend-inl.hpp"
#else
#include <cpuid.h>

#include "cpu/targets.hpp"

namespace tessera::cpu {
namespace {

// Everything that Highway lets the compiler use for the target, and that the operating system saves the
// registers it needs (which __builtin_cpu_supports looks at for avx).
bool detect_avx2() {
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  const bool f16c = (ecx >> 29 & 1) != 0;  // not every compiler's builtin knows it
  return f16c && __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("aes") &&
         __builtin_cpu_supports("pclmul");
}

std::string missing() { return has_avx2() ? "" : "this CPU has no AVX2 with FMA and F16C"; }

}  // namespace

// Asked once: in a virtual machine every cpuid instruction is a trip to the host.
bool has_avx2() {
  static const bool has = detect_avx2();
  return has;
}

Target avx2_target() {
  return {.name = "cpu_avx2",
          .summary = "tiled online softmax, AVX2 with FMA and F16C",
          .blocking = {N_AVX2::kLanes, N_AVX2::kMaxWidth},
          .missing = missing,
          .scratch_bytes = N_AVX2::scratch_bytes,
          .attend_item = N_AVX2::attend_item,
          .speed = 8};
}

}  // namespace tessera::cpu
#endif
