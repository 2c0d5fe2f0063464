// Compiles the kernels once per instruction set (Highway re-includes this file for each) and lists the
// results. The choice at run time is ours, not Highway's: only its headers are needed that way, and every
// target can be asked for by name.
#include "cpu/simd.hpp"

#ifndef TESSERA_CPU_SIMD_SETTINGS
#define TESSERA_CPU_SIMD_SETTINGS
// The machine's vector targets and plain scalar code, nothing in between and nothing without a fixed
// vector length.
#define HWY_COMPILE_ALL_ATTAINABLE 1
#define HWY_BROKEN_EMU128 1           // so that the fallback is one float at a time with every compiler
#if defined(TESSERA_CPU_SCALAR_ONLY)  // thread sanitizer: races live in the pool, not in vector code
#define HWY_DISABLED_TARGETS (~HWY_SCALAR)
#elif defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#elif defined(TESSERA_CPU_WITHOUT_AVX512)  // address sanitizer: minutes of compiling for the same source
#define HWY_DISABLED_TARGETS (~(HWY_SCALAR | HWY_AVX2))
#else
#define HWY_DISABLED_TARGETS (~(HWY_SCALAR | HWY_AVX2 | HWY_AVX3))
#endif
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd.cpp"
#include "hwy/foreach_target.h"
// Only after foreach_target.h has chosen a target.
#include "cpu/attend-inl.hpp"

#if HWY_ONCE

#if HWY_TARGETS & HWY_AVX2
#include <cpuid.h>
#endif

namespace tessera::cpu {
namespace {

std::string nothing_missing() { return {}; }

#if HWY_TARGETS & HWY_AVX2
// Everything that Highway lets the compiler use for the target, and that the operating system saves the
// registers it needs (which __builtin_cpu_supports looks at for avx and avx512f). Asked once: in a virtual
// machine every cpuid instruction is a trip to the host.
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
bool has_avx2() {
  static const bool has = detect_avx2();
  return has;
}
#if HWY_TARGETS & HWY_AVX3
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd");
}
std::string missing_avx512() { return has_avx512() ? "" : "this CPU has no AVX-512 (F, VL, DQ, BW, CD)"; }
#endif
std::string missing_avx2() { return has_avx2() ? "" : "this CPU has no AVX2 with FMA and F16C"; }
#endif

#define TESSERA_TARGET(name, summary, ns, missing) \
  Target { name, summary, Blocking{ns::kLanes, ns::kMaxWidth}, missing, ns::scratch_bytes, ns::attend_item }

const Target kTargets[] = {
#if HWY_TARGETS & HWY_AVX3
    TESSERA_TARGET("cpu_avx512", "tiled online softmax, AVX-512", N_AVX3, missing_avx512),
#endif
#if HWY_TARGETS & HWY_AVX2
    TESSERA_TARGET("cpu_avx2", "tiled online softmax, AVX2 with FMA and F16C", N_AVX2, missing_avx2),
#endif
#if HWY_TARGETS & HWY_NEON
    TESSERA_TARGET("cpu_neon", "tiled online softmax, NEON", HWY_NAMESPACE, nothing_missing),
#endif
    TESSERA_TARGET("cpu_scalar", "tiled online softmax, one float at a time: any CPU", N_SCALAR,
                   nothing_missing),
};
static_assert(std::size(kTargets) <= kMaxTargets);

}  // namespace

std::span<const Target> targets() { return kTargets; }

}  // namespace tessera::cpu
#endif
