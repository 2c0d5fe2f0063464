// Takes the place of src/backends.cpp in cpu_bf16_test: the kernel of target_avx512_bf16.cpp, and the
// same with AVX2 vectors and the dot product of bf16 pairs done step by step as Intel's manual describes it.
// Packing, blocking and the choice of what is exact are the very same code, so they can be judged on a
// machine without the instruction.
#ifndef HWY_DISABLED_TARGETS  // Highway includes this file once more
#define HWY_COMPILE_ALL_ATTAINABLE 1
#define HWY_BROKEN_EMU128 1
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_SCALAR))
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulated_bf16.cpp"
#include "hwy/foreach_target.h"
#if HWY_TARGET == HWY_AVX2
#include "cpu/pairs-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::N_AVX2 {

struct EmulatedInstruction : ExactPairs {
  static HWY_INLINE Vec flushed(Vec x) {
    const auto subnormal = hn::Lt(hn::Abs(x), hn::Set(F(), 0x1p-126f));
    return hn::IfThenElse(subnormal, hn::CopySign(hn::Zero(F()), x), x);
  }
  static HWY_INLINE Vec add(PairVec a, PairVec b, Vec sum) {
    sum = flushed(hn::MulAdd(flushed(upper_half(a)), flushed(upper_half(b)), flushed(sum)));
    return flushed(hn::MulAdd(flushed(lower_half(a)), flushed(lower_half(b)), sum));
  }
};

void attend_emulated(const Call& call, std::int64_t index, std::byte* scratch) {
  attend_typed<BF16, PairTiles<EmulatedInstruction>>(call, index, scratch);
}

}  // namespace tessera::cpu::N_AVX2
HWY_AFTER_NAMESPACE();
#else
#include "cpu/backend.hpp"
#include "cpu/targets.hpp"
#include "tests/support/other_rows.hpp"

namespace tessera {
namespace cpu::N_AVX2 {
void attend_emulated(const Call& call, std::int64_t index, std::byte* scratch);
}
namespace core {
namespace {

void attend_item(const cpu::Call& call, std::int64_t index, std::byte* scratch) {
  static const auto attend_others = cpu::avx2_target().attend_item;
  const auto attend = cpu::takes_pairs(*call.problem) ? cpu::N_AVX2::attend_emulated : attend_others;
  attend(call, index, scratch);
}

const cpu::Target& target() {
  static const cpu::Target emulated = [] {
    cpu::Target made = cpu::avx2_target();
    made.attend_item = attend_item;
    return made;
  }();
  return emulated;
}

}  // namespace

const std::vector<const Backend*>& backends() {
  static const testing_rows::OtherRows backend(cpu::backend(), [] {
    Kernel row = cpu::kernel_of(target());
    row.name = "cpu_emulated_bf16";
    row.summary = "AVX512-BF16 emulated with AVX2";
    std::vector<Kernel> rows = {row};
    for (const Kernel& kernel : cpu::backend().kernels())
      if (kernel.name == "cpu_avx512_bf16") rows.push_back(kernel);
    return rows;
  }());
  static const std::vector<const Backend*> all = {&backend};
  return all;
}

}  // namespace core
}  // namespace tessera
#endif
