// Lanes with each other: shuffles, votes, reductions.
#include "emulator/conformance/case.hpp"
#include "emulator/conformance/values.hpp"

namespace emulator::conformance {
namespace {

// Operands of a lane: a value, a lane or distance, random bits. Two words of results.
Case warp_case(const std::string& name, const std::string& instructions) {
  Case out;
  out.name = name;
  out.ptx = module_text(
      "ld.global.u32 %r10, [%rd1];\nld.global.u32 %r11, [%rd1+4];\nld.global.u32 %r12, [%rd1+8];\n"
      "and.b32 %r13, %r12, 1;\nsetp.ne.s32 %p10, %r13, 0;\nmov.u32 %r8, 0;\nmov.u32 %r9, 0;\n" +
          instructions + "\nst.global.v2.u32 [%rd2], {%r8, %r9};\n",
      16, 8);
  out.blocks = 4;
  out.items = std::size_t{out.blocks} * out.threads;
  out.input_words = 4;
  out.kept = out.items;
  Random random(0x5eed + name.size());
  for (std::size_t i = 0; i < out.items; ++i) {
    out.input.push_back(static_cast<std::uint32_t>(random.next()));
    out.input.push_back(random.below(34));
    // Of some warps, or blocks, all lanes vote alike.
    const std::size_t group = i / (name[0] == 'b' ? out.threads : 32);
    const std::uint32_t vote = group % 4 == 0 ? 0 : group % 4 == 1 ? 1 : random.below(2);
    out.input.push_back((static_cast<std::uint32_t>(random.next()) & ~1u) | vote);
    out.input.push_back(0);
  }
  return out;
}

}  // namespace

void add_warp_cases(std::vector<Case>& out) {
  for (const std::string mode : {"up", "down", "bfly", "idx"}) {
    // Whole warps, and segments of 16 and 8 lanes; up clamps at the bottom, the others at the top.
    for (const int segment : {32, 16, 8}) {
      const int clamp = (32 - segment) << 8 | (mode == "up" ? 0 : 31);
      out.push_back(warp_case("shfl.sync." + mode + ".b32 " + std::to_string(segment),
                              "shfl.sync." + mode + ".b32 %r8|%p1, %r10, %r11, " + std::to_string(clamp) +
                                  ", -1;\nselp.u32 %r9, 1, 0, %p1;"));
    }
  }
  out.push_back(warp_case("vote.sync.ballot.b32", "vote.sync.ballot.b32 %r8, %p10, -1;"));
  for (const std::string mode : {"all", "any", "uni"})
    out.push_back(warp_case("vote.sync." + mode + ".pred", "vote.sync." + mode +
                                                               ".pred %p1, %p10, -1;\n"
                                                               "selp.u32 %r8, 1, 0, %p1;"));
  for (const std::string mode : {"or", "and"})
    out.push_back(warp_case("bar.red." + mode + ".pred",
                            "bar.red." + mode + ".pred %p1, 0, %p10;\nselp.u32 %r8, 1, 0, %p1;"));
  for (const std::string form :
       {"and.b32", "or.b32", "xor.b32", "add.s32", "add.u32", "min.s32", "max.s32", "min.u32", "max.u32"})
    out.push_back(warp_case("redux.sync." + form, "redux.sync." + form + " %r8, %r10, -1;"));
  for (const std::string form : {"add.s32", "add.u32", "and.b32", "or.b32", "xor.b32", "exch.b32", "min.s32",
                                 "max.s32", "min.u32", "max.u32"}) {
    out.push_back(warp_case("atom.global.relaxed.gpu." + form,
                            "st.global.u32 [%rd2], %r10;\natom.global.relaxed.gpu." + form +
                                " %r8, [%rd2], %r12;\nld.global.u32 %r9, [%rd2];"));
    out.push_back(warp_case("atom.shared." + form,
                            "mul.lo.s32 %r6, %r2, 4;\nadd.s32 %r6, %r6, %r4;\nst.shared.u32 [%r6], %r10;\n"
                            "atom.shared." +
                                form + " %r8, [%r6], %r12;\nld.shared.u32 %r9, [%r6];"));
    out.back().shared_bytes = 512;
  }
  // Of 64 bits, in order with other memory: what was there, and what is.
  const auto wide = [](const std::string& instruction) {
    return "mov.b64 %rd10, {%r10, %r11};\nst.global.u64 [%rd2], %rd10;\nmov.b64 %rd11, {%r12, %r12};\n" +
           instruction +
           "\nld.global.u64 %rd13, [%rd2];\nadd.s64 %rd13, %rd13, %rd12;\nmov.b64 {%r8, %r9}, %rd13;";
  };
  out.push_back(warp_case("atom.acq_rel.gpu.global.add.u64",
                          wide("atom.acq_rel.gpu.global.add.u64 %rd12, [%rd2], %rd11;")));
  out.push_back(warp_case("atom.acq_rel.gpu.global.cas.b64",
                          wide("selp.b64 %rd14, %rd10, %rd11, %p10;\n"
                               "atom.acq_rel.gpu.global.cas.b64 %rd12, [%rd2], %rd14, %rd11;")));
  // The policy itself is nobody's business: only that the instruction is there.
  out.push_back(warp_case("createpolicy.fractional.L2::evict_first.b64",
                          "createpolicy.fractional.L2::evict_first.b64 %rd10;\nmov.u32 %r8, %r10;"));
  out.push_back(warp_case("lanes and masks",
                          "mov.u32 %r8, %laneid;\nmov.u32 %r10, %lanemask_lt;\nmov.u32 %r11, %lanemask_ge;\n"
                          "mov.u32 %r12, %lanemask_gt;\nmov.u32 %r13, %lanemask_eq;\nmov.u32 %r14, "
                          "%lanemask_le;\nmad.lo.u32 %r9, %r10, 3, %r11;\nmad.lo.u32 %r9, %r12, %r9, %r13;\n"
                          "mad.lo.u32 %r9, %r9, 5, %r14;"));
}

}  // namespace emulator::conformance
