// mma.sync and wgmma of 8-bit floats: every pair of types, shapes that kernels may use, all layouts.
#include <cstring>

#include "emulator/conformance/case.hpp"
#include "emulator/conformance/float8_tiles.hpp"

namespace emulator::conformance {
namespace {

std::string number(std::size_t i) { return std::to_string(i); }
std::string types_of(Kinds8 kinds) {
  return std::string(kinds.a_is_e5m2 ? "e5m2" : "e4m3") + (kinds.b_is_e5m2 ? ".e5m2" : ".e4m3");
}

// Lane l has rows l / 4 and l / 4 + 8; its registers of A or B have four numbers side by side.
std::uint32_t fragment_of_a(const Tile8& tile, unsigned first_row, unsigned lane, unsigned r) {
  return tile.word_of_a(first_row + lane / 4 + r % 2 * 8, r / 2 * 16 + lane % 4 * 4);
}
std::uint32_t fragment_of_c(const Tile8& tile, unsigned first_row, unsigned lane, unsigned r) {
  const unsigned row = first_row + lane / 4 + r / 2 % 2 * 8, column = r / 4 * 8 + lane % 4 * 2 + r % 2;
  return tile.c[row * tile.columns + column];
}

// A lane's words: A (4), B (2), C (4). A tile for every warp.
Case mma_case(Kinds8 kinds) {
  constexpr unsigned kTiles = 60 * kFlavours8, kWords = 10;
  Case out;
  out.name = "mma.sync.aligned.m16n8k32.row.col.f32." + types_of(kinds) + ".f32";
  out.ptx = module_text(load_words(10, kWords, "%rd1", 0) + out.name + " " + registers(30, 4) + ", " +
                            registers(10, 4) + ", " + registers(14, 2) + ", " + registers(16, 4) + ";\n" +
                            store_words(30, 4),
                        4 * kWords, 16, "8.4");
  out.threads = 32;
  out.blocks = kTiles;
  out.items = std::size_t{32} * kTiles;
  out.item_words = 4;
  out.result_bits = 128;
  out.kept = std::size_t{32} * kFlavours8;
  out.chunk = 32;
  Random random(101 + (kinds.a_is_e5m2 ? 1 : 0) + (kinds.b_is_e5m2 ? 2 : 0));
  for (unsigned i = 0; i < kTiles; ++i) {
    const Tile8 tile = make_tile(random, kinds, 16, 8, i % kFlavours8);
    for (unsigned lane = 0; lane < 32; ++lane) {
      for (unsigned r = 0; r < 4; ++r) out.input.push_back(fragment_of_a(tile, 0, lane, r));
      for (unsigned r = 0; r < 2; ++r) out.input.push_back(tile.word_of_b(lane / 4, r * 16 + lane % 4 * 4));
      for (unsigned r = 0; r < 4; ++r) out.input.push_back(fragment_of_c(tile, 0, lane, r));
    }
  }
  return out;
}

// Rows of 128, 64 or 32 bytes, swizzled; 0: strips of 16 bytes, 8 rows of them together, along the sum 128
// bytes on, across 256.
struct Product {
  unsigned columns;
  Kinds8 kinds;
  bool from_registers;
  unsigned pitch;
  unsigned times = 1;  // the same product, added again and again
};
// Where the first element is: in the middle of rows that are long enough.
unsigned start_of(const Product& p, bool is_b) {
  return is_b ? kImageB + (p.pitch == 128 ? 64 : p.pitch == 64 ? 32 : 0) : p.pitch == 128 ? 32 : 0;
}
unsigned place_of(const Product& p, bool is_b, unsigned row, unsigned k) {
  const unsigned start = start_of(p, is_b);
  if (p.pitch == 0) return start + row / 8 * 256 + k / 16 * 128 + row % 8 * 16 + k % 16;
  const unsigned plain = start + row * p.pitch + k;
  return plain ^ (plain >> 3 & (p.pitch / 16 - 1) << 4);
}
std::string descriptor(const std::string& name, const Product& p, bool is_b) {
  std::uint64_t high = std::uint64_t{256 / 16} << 32 | std::uint64_t{128 / 16} << 16;
  if (p.pitch != 0)
    high = std::uint64_t{p.pitch == 128  ? 1u
                         : p.pitch == 64 ? 2u
                                         : 3u}
               << 62 |
           std::uint64_t{p.pitch / 2} << 32;
  return "add.s32 %r6, %r4, " + number(start_of(p, is_b)) +
         ";\nshr.u32 %r6, %r6, 4;\ncvt.u64.u32 %rd9, %r6;\nor.b64 " + name + ", %rd9, " + number(high) +
         ";\n";
}

std::vector<std::uint32_t> image_of(Random& random, const Product& p, const Tile8& tile) {
  std::vector<std::uint32_t> words(kImageBytes / 4);
  for (auto& word : words) word = static_cast<std::uint32_t>(random.next());
  auto* bytes = reinterpret_cast<std::uint8_t*>(words.data());
  for (unsigned k = 0; k < 32; ++k) {
    for (unsigned i = 0; i < tile.rows; ++i) bytes[place_of(p, false, i, k)] = tile.a[i * 32 + k];
    for (unsigned i = 0; i < tile.columns; ++i) bytes[place_of(p, true, i, k)] = tile.b[i * 32 + k];
  }
  return words;
}

Case wgmma_case(const Product& p) {
  const unsigned results = p.columns / 2;
  const std::string form =
      "wgmma.mma_async.sync.aligned.m64n" + number(p.columns) + "k32.f32." + types_of(p.kinds);
  Case out;
  out.name = form + (p.from_registers ? " registers" : " shared") +
             (p.pitch == 128 ? ""
              : p.pitch == 0 ? " strips"
                             : " rows of " + number(p.pitch)) +
             (p.times == 1 ? "" : ", " + number(p.times) + " times");
  std::string body = start_product(results) + descriptor("%rd6", p, false) + descriptor("%rd7", p, true) +
                     "wgmma.fence.sync.aligned;\n";
  for (unsigned i = 0; i < p.times; ++i)
    body += form + " " + registers(30, results) + ", " + (p.from_registers ? registers(20, 4) : "%rd6") +
            ", %rd7, " + (i == 0 ? "%p2" : "1") + ", 1, 1;\n";
  body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" + store_words(30, results);
  out.ptx = module_text(body, 0, 4 * results);
  out.blocks = kFlavours8 + 1;
  out.shared_bytes = kImageBytes;
  out.items = std::size_t{128} * out.blocks;
  out.item_words = results;
  out.result_bits = 32 * results;
  out.kept = p.columns == 8 ? 128 * 2 : 0;
  out.chunk = 8;
  Random random(p.columns * 8 + (p.kinds.a_is_e5m2 ? 1 : 0) + (p.kinds.b_is_e5m2 ? 2 : 0) +
                (p.from_registers ? 4 : 0) + p.pitch * 10000 + p.times);
  for (unsigned block = 0; block < out.blocks; ++block) {
    const Tile8 tile = make_tile(random, p.kinds, 64, p.columns, block % kFlavours8);
    const auto image = image_of(random, p, tile);
    out.input.insert(out.input.end(), image.begin(), image.end());
    for (unsigned i = 0; i < 4; ++i) out.input.push_back(block == kFlavours8 ? 0 : 1);
    for (unsigned thread = 0; thread < 128; ++thread) {
      const unsigned row = thread / 32 * 16, lane = thread % 32;
      for (unsigned r = 0; r < 4; ++r) out.input.push_back(fragment_of_a(tile, row, lane, r));
      for (unsigned r = 0; r < results; ++r) out.input.push_back(fragment_of_c(tile, row, lane, r));
    }
  }
  return out;
}

}  // namespace

void add_float8_cases(std::vector<Case>& out) {
  for (const Kinds8 kinds :
       {Kinds8{false, false}, Kinds8{false, true}, Kinds8{true, false}, Kinds8{true, true}}) {
    out.push_back(mma_case(kinds));
    for (const unsigned columns : {8u, 16u, 32u, 48u, 64u, 80u, 96u, 128u, 160u, 192u, 224u, 256u})
      for (const bool from_registers : {false, true})
        out.push_back(wgmma_case({columns, kinds, from_registers, 128}));
    for (const unsigned pitch : {64u, 32u, 0u})
      for (const bool from_registers : {false, true})
        out.push_back(wgmma_case({64, kinds, from_registers, pitch}));
    out.push_back(wgmma_case({64, kinds, false, 128, 4}));
  }
}

}  // namespace emulator::conformance
