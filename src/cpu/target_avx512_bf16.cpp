// AVX-512 with the dot product of bf16 pairs, for bf16's matrix products. Everything else, f16 and f32 whole,
// is cpu_avx512's code.
#ifndef HWY_DISABLED_TARGETS  // Highway includes this file once more
#define HWY_COMPILE_ALL_ATTAINABLE 1
#define HWY_BROKEN_EMU128 1
// Highway insists on one target that every machine has; that pass compiles nothing here.
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_SCALAR))
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/target_avx512_bf16.cpp"
#include "hwy/foreach_target.h"
#if HWY_TARGET == HWY_AVX3
#include "cpu/pairs-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::N_AVX3 {

// As assembly, because Highway has no such target: the intrinsics may be used only in functions compiled for
// AVX512-BF16, and the kernels are templates that cpu_avx512 shares.
struct DotInstruction : PairTerms {
  static HWY_INLINE Vec add(PairVec a, PairVec b, Vec sum) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }

  static HWY_INLINE PairVec round(Vec lower, Vec upper) {
    PairVec one_after_the_other;
    __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(one_after_the_other.raw) : "v"(upper.raw), "v"(lower.raw));
    alignas(64) static constexpr std::uint16_t kTurns[] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                           21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return PairVec{_mm512_permutexvar_epi16(_mm512_load_si512(kTurns), one_after_the_other.raw)};
  }
};

void attend_bf16(const Call& call, std::int64_t index, std::byte* scratch) {
  attend_typed<BF16, PairTiles<DotInstruction>>(call, index, scratch);
}

}  // namespace tessera::cpu::N_AVX3
HWY_AFTER_NAMESPACE();
#else
#include <cpuid.h>

#include "cpu/targets.hpp"

namespace tessera::cpu {
namespace N_AVX3 {
void attend_bf16(const Call& call, std::int64_t index, std::byte* scratch);
}
namespace {

bool has_dot_instruction() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 5 & 1) != 0;
}

std::string find_missing() {
  std::string why = avx512_target().missing();
  if (why.empty() && !has_dot_instruction()) why = "this CPU has no AVX512-BF16";
  return why;
}

// Two products at a time are a gain where the instruction is issued as often as a multiply-add of floats, as
// by AMD's CPUs. On Intel's it is slower than multiply-adds of floats: see docs/cpu.md.
bool is_intel() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0 && ebx == signature_INTEL_ebx &&
         edx == signature_INTEL_edx && ecx == signature_INTEL_ecx;
}

// Asked once: in a virtual machine every cpuid instruction is a trip to the host.
std::string missing() {
  static const std::string why = find_missing();
  return why;
}

void attend_item(const Call& call, std::int64_t index, std::byte* scratch) {
  static const auto attend_others = avx512_target().attend_item;
  const auto attend = takes_pairs(*call.problem) ? N_AVX3::attend_bf16 : attend_others;
  attend(call, index, scratch);
}

}  // namespace

Target avx512_bf16_target() {
  Target target = avx512_target();
  target.name = "cpu_avx512_bf16";
  target.summary = "tiled online softmax, AVX-512 with bf16 dot products";
  target.missing = missing;
  target.attend_item = attend_item;
  target.speed = is_intel() ? 10 : 16;
  if (is_intel()) target.slow = "Intel's CPUs do two bf16 products slower than two multiply-adds of floats";
  return target;
}

}  // namespace tessera::cpu
#endif
