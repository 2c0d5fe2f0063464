// mma.sync and wgmma: every shape that kernels use, numbers of every flavour.
#include "emulator/conformance/case.hpp"
#include "emulator/conformance/values.hpp"

namespace emulator::conformance {
namespace {
std::string number(std::size_t i) { return std::to_string(i); }
}  // namespace

std::string registers(unsigned first, unsigned count) {
  std::string out;
  for (unsigned i = 0; i < count; ++i) out += (i > 0 ? ", " : "") + ("%r" + number(first + i));
  return "{" + out + "}";
}
std::string load_words(unsigned first, unsigned count, const std::string& base, unsigned offset) {
  std::string out;
  for (unsigned i = 0; i < count; ++i)
    out += "ld.global.u32 %r" + number(first + i) + ", [" + base + "+" + number(offset + 4 * i) + "];\n";
  return out;
}
std::string store_words(unsigned first, unsigned count) {
  std::string out;
  for (unsigned i = 0; i < count; ++i)
    out += "st.global.u32 [%rd2+" + number(4 * i) + "], %r" + number(first + i) + ";\n";
  return out;
}

unsigned words_of_product(unsigned results) { return kImageBytes / 4 + 4 + 128 * (4 + results); }
std::string start_product(unsigned results) {
  return "mul.wide.u32 %rd4, %r3, " + number(4 * words_of_product(results)) +
         ";\nadd.s64 %rd4, %rd1, %rd4;\nmul.lo.s32 %r7, %r2, 16;\nadd.s32 %r8, %r7, %r4;\n"
         "cvt.u64.u32 %rd5, %r7;\nadd.s64 %rd5, %rd5, %rd4;\nmov.u32 %r6, 0;\ncopy:\n"
         "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd5];\n"
         "st.shared.v4.u32 [%r8], {%r10, %r11, %r12, %r13};\nadd.s64 %rd5, %rd5, 2048;\n"
         "add.s32 %r8, %r8, 2048;\nadd.s32 %r6, %r6, 2048;\nsetp.lt.s32 %p1, %r6, " +
         number(kImageBytes) +
         ";\n@%p1 bra copy;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
         "ld.global.u32 %r9, [%rd4+" +
         number(kImageBytes) + "];\nsetp.ne.s32 %p2, %r9, 0;\nmul.wide.u32 %rd5, %r2, " +
         number(4 * (4 + results)) + ";\nadd.s64 %rd4, %rd4, %rd5;\n" +
         load_words(20, 4, "%rd4", kImageBytes + 16) + load_words(30, results, "%rd4", kImageBytes + 32);
}

namespace {

std::uint32_t pair(Random& random, bool bfloat, unsigned flavour) {
  const std::uint32_t low = element(random, bfloat, flavour);
  return low | std::uint32_t{element(random, bfloat, flavour)} << 16;
}
unsigned flavour_of(std::size_t tile) { return static_cast<unsigned>(tile % 7); }

// A lane's words: A (4), B (2), C (4). A tile for every warp.
Case mma_case(bool bfloat, bool half_results) {
  constexpr unsigned kTiles = 420, kWords = 10;
  const std::string type = bfloat ? "bf16" : "f16", result = half_results ? "f16" : "f32";
  const unsigned results = half_results ? 2 : 4;
  Case out;
  out.name = "mma.sync.aligned.m16n8k16.row.col." + result + "." + type + "." + type + "." + result;
  out.ptx = module_text(load_words(10, kWords, "%rd1", 0) + out.name + " " + registers(30, results) + ", " +
                            registers(10, 4) + ", " + registers(14, 2) + ", " + registers(16, results) +
                            ";\n" + store_words(30, results),
                        4 * kWords, 16);
  out.threads = 32;
  out.blocks = kTiles;
  out.items = std::size_t{32} * kTiles;
  out.item_words = 4;
  out.result_bits = 32 * results;
  out.kept = std::size_t{32} * 24;
  out.chunk = 32;
  Random random(half_results ? 11 : bfloat ? 12 : 13);
  for (std::size_t i = 0; i < out.items; ++i) {
    const unsigned flavour = flavour_of(i / 32);
    for (unsigned k = 0; k < 6; ++k) out.input.push_back(pair(random, bfloat, flavour));
    for (unsigned k = 0; k < 4; ++k)
      out.input.push_back(half_results ? pair(random, false, flavour) : accumulator(random, flavour));
  }
  return out;
}

struct Product {
  unsigned columns;
  bool bfloat, from_registers, transposed, strips;
};

std::string descriptor(const std::string& name, const Product& p, unsigned start, bool is_b) {
  // 128-byte rows, swizzled: 8 rows on are 1024 bytes on, 64 columns on (transposed B) all rows of 16.
  // Strips: rows of 16 bytes, 8 of them together; along the sum 128 bytes on, across 256.
  std::uint64_t high = std::uint64_t{1} << 62 | std::uint64_t{1024 / 16} << 32;
  if (is_b && p.transposed) high |= std::uint64_t{2048 / 16} << 16;
  if (p.strips) high = std::uint64_t{256 / 16} << 32 | std::uint64_t{128 / 16} << 16;
  return "add.s32 %r6, %r4, " + number(start) + ";\nshr.u32 %r6, %r6, 4;\ncvt.u64.u32 %rd9, %r6;\nor.b64 " +
         name + ", %rd9, " + number(high) + ";\n";
}

Case wgmma_case(const Product& p) {
  const unsigned results = p.columns / 2;
  const std::string type = p.bfloat ? "bf16" : "f16";
  const std::string form =
      "wgmma.mma_async.sync.aligned.m64n" + number(p.columns) + "k16.f32." + type + "." + type;
  Case out;
  out.name = form + (p.from_registers ? " registers" : " shared") + (p.transposed ? " transposed" : "") +
             (p.strips ? " strips" : "");
  std::string body = start_product(results) + descriptor("%rd6", p, p.strips ? 0 : 32, false) +
                     descriptor("%rd7", p, kImageB + (p.transposed || p.strips ? 0 : 64), true);
  body += "wgmma.fence.sync.aligned;\n" + form + " " + registers(30, results) + ", " +
          (p.from_registers ? registers(20, 4) : "%rd6") + ", %rd7, %p2, 1, 1, " +
          (p.from_registers ? "" : "0, ") + (p.transposed ? "1" : "0") +
          ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" +
          store_words(30, results);
  out.ptx = module_text(body, 0, 4 * results);
  out.blocks = 7;
  out.shared_bytes = kImageBytes;
  out.items = std::size_t{128} * out.blocks;
  out.item_words = results;
  out.result_bits = 32 * results;
  out.kept = p.columns == 16 ? 128 * 3 : 0;
  out.chunk = 4;
  Random random(p.columns * 8 + (p.bfloat ? 1 : 0) + (p.from_registers ? 2 : 0) + (p.transposed ? 4 : 0));
  for (unsigned block = 0; block < out.blocks; ++block) {
    const unsigned flavour = flavour_of(block);
    for (unsigned i = 0; i < kImageBytes / 4; ++i) out.input.push_back(pair(random, p.bfloat, flavour));
    for (unsigned i = 0; i < 4; ++i) out.input.push_back(block == 1 ? 0 : 1);
    for (unsigned thread = 0; thread < 128; ++thread) {
      for (unsigned i = 0; i < 4; ++i) out.input.push_back(pair(random, p.bfloat, flavour));
      for (unsigned i = 0; i < results; ++i) out.input.push_back(accumulator(random, flavour));
    }
  }
  return out;
}

}  // namespace

void add_matrix_cases(std::vector<Case>& out) {
  out.push_back(mma_case(false, false));
  out.push_back(mma_case(true, false));
  out.push_back(mma_case(false, true));
  for (const bool bfloat : {false, true}) {
    for (const unsigned columns : {16u, 32u, 48u, 64u, 80u, 96u, 128u, 192u, 256u}) {
      out.push_back(wgmma_case({columns, bfloat, false, false, false}));
      out.push_back(wgmma_case({columns, bfloat, true, false, false}));
      out.push_back(wgmma_case({columns, bfloat, true, true, false}));
    }
    out.push_back(wgmma_case({64, bfloat, false, true, false}));
    out.push_back(wgmma_case({64, bfloat, false, false, true}));
    out.push_back(wgmma_case({64, bfloat, true, true, true}));
  }
}

}  // namespace emulator::conformance
