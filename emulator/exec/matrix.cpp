// ldmatrix, mma.sync and wgmma. Which lane holds which element is as the PTX manual draws it: of a 16 x 8
// tile of results, lane l holds rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next.
#include <bit>
#include <cstring>

#include "emulator/exec/handlers.hpp"
#include "emulator/exec/lanes/table.hpp"

namespace emulator {
namespace {

void need_whole_warp(const Warp& w, const char* what) {
  if (w.mask != kAllLanes)
    fault(~w.mask, 0, std::string("divergent ") + what + ": lanes of the warp are elsewhere");
}

// Pairs of a register of A or B: four lanes have those of a row side by side.
void collect_pairs(const std::uint32_t* from, std::uint16_t* rows) {
  for (unsigned row = 0; row < 8; ++row) std::memcpy(rows + row * 16, from + 4 * row, 16);
}
// A as four registers a lane: rows and depths in pairs.
template <class Row>
void collect_a(Row&& row, std::uint16_t* a) {
  for (unsigned r = 0; r < 4; ++r) collect_pairs(row(r), a + (r & 1) * 8 * 16 + (r >> 1) * 8);
}

// Results of a tile of 8 columns: two registers a lane make rows 0 to 7, two more rows 8 to 15.
void put_results(const float* first, const float* second, float* tile) {
  for (unsigned lane = 0; lane < kLanes; ++lane)
    tile[2 * lane] = first[lane], tile[2 * lane + 1] = second[lane];
}
void take_results(const float* tile, float* first, float* second) {
  for (unsigned lane = 0; lane < kLanes; ++lane)
    first[lane] = tile[2 * lane], second[lane] = tile[2 * lane + 1];
}

float of_half(std::uint32_t h) {
  const std::uint32_t magnitude = h & 0x7fffu;
  const float finite = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const std::uint32_t bits =
      magnitude >= 0x7c00u ? 0x7f800000u | (magnitude & 0x3ffu) << 13 : std::bit_cast<std::uint32_t>(finite);
  return std::bit_cast<float>(bits | (h & 0x8000u) << 16);
}
// To nearest even, as the tensor cores do: what is too small is +0, whatever its sign.
std::uint32_t to_half(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), sign = bits >> 16 & 0x8000u,
                      magnitude = bits & 0x7fffffffu;
  const float positive = std::bit_cast<float>(magnitude);
  if (positive != positive) return 0x7fffu;
  if (positive >= 65520.0f) return sign | 0x7c00u;
  if (positive <= 0x1p-25f) return 0;
  if (positive < 0x1p-14f)
    return sign | (std::bit_cast<std::uint32_t>(positive + 0.5f) - std::bit_cast<std::uint32_t>(0.5f));
  return sign | (((magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13) - (112u << 10));
}

bool chunk_written(const std::uint8_t* states) {
  std::uint64_t low, high;
  std::memcpy(&low, states, 8);
  std::memcpy(&high, states + 8, 8);
  return low == 0x0101010101010101u && low == high;
}

// 16 bytes of shared memory that a product reads. Rows that nobody looks at may lack data: what was never
// written is NaN, which shows wherever it is looked at.
void chunk_at(Warp& w, const Product& p, std::uint32_t address, std::uint16_t* out) {
  SharedMemory& shared = w.block->shared;
  if (address < kSharedBase || address + 16 > shared.end)
    late_fault(w.index, p.op->instruction, kAllLanes, address,
               "out of bounds: a product reads shared address " + std::to_string(address) +
                   "; shared memory ends at " + std::to_string(shared.end));
  std::memcpy(out, shared.at(address), 16);
  const std::uint8_t* states = shared.state(address);
  if (chunk_written(states)) [[likely]]
    return;
  for (unsigned i = 0; i < 16; ++i) {
    if (states[i] == static_cast<std::uint8_t>(ByteState::in_flight))
      late_fault(w.index, p.op->instruction, kAllLanes, address,
                 "read too early: a product reads shared memory that a copy in flight writes");
    if (states[i] != static_cast<std::uint8_t>(ByteState::unwritten)) continue;
    if ((p.op->y & kEightBits) != 0)
      reinterpret_cast<std::uint8_t*>(out)[i] = 0x7f;
    else
      out[i / 2] = 0x7fff;
  }
}

// A matrix in shared memory as a descriptor has it: `rows` along the product's rows or columns, 16 deep.
// Collected as [rows][16]. Of 8-bit elements there are 32 in the same bytes; they are never transposed.
void collect(Warp& w, const Product& p, std::uint64_t descriptor, bool transposed, unsigned first,
             unsigned rows, std::uint16_t* out) {
  const auto start = static_cast<std::uint32_t>(descriptor & 0x3fff) << 4;
  const auto leading = static_cast<std::uint32_t>(descriptor >> 16 & 0x3fff) << 4;
  const auto stride = static_cast<std::uint32_t>(descriptor >> 32 & 0x3fff) << 4;
  const auto layout = static_cast<unsigned>(descriptor >> 62);
  if ((descriptor >> 49 & 7) != 0)
    late_fault(w.index, p.op->instruction, kAllLanes, start,
               "a matrix descriptor with a base offset is not known");
  const std::uint32_t pitch = layout == 0 ? 16 : 256u >> layout;  // 128, 64, 32 bytes of a row
  const std::uint32_t bits = layout == 0 ? 0 : (pitch / 16 - 1) << 4;
  const auto swizzle = [&](std::uint32_t address) { return address ^ (address >> 3 & bits); };
  if (!transposed) {
    for (unsigned r = first; r < first + rows; ++r) {
      for (unsigned half = 0; half < 2; ++half) {
        std::uint32_t address = start + r / 8 * stride + r % 8 * pitch;
        address += layout == 0 ? half * leading : half * 16;
        chunk_at(w, p, swizzle(address), out + (r - first) * 16 + half * 8);
      }
    }
    return;
  }
  const unsigned wide = pitch / 2;  // elements side by side
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned r = first; r < first + rows; r += 8) {
      std::uint32_t address = start + k % 8 * pitch + r % wide * 2;
      address += layout == 0 ? k / 8 * leading + r / 8 * stride : k / 8 * stride + r / wide * leading;
      std::uint16_t eight[8];
      chunk_at(w, p, swizzle(address), eight);
      for (unsigned i = 0; i < 8; ++i) out[(r - first + i) * 16 + k] = eight[i];
    }
  }
}

Kinds8 kinds_of(const Op& op) { return {(op.y & kE5m2A) != 0, (op.y & kE5m2B) != 0}; }
const std::uint8_t* bytes_of(const std::uint16_t* elements) {
  return reinterpret_cast<const std::uint8_t*>(elements);
}

std::uint64_t agreed(const Warp& w, std::int32_t from) {
  const std::uint64_t* all = w.at<std::uint64_t>(from);
  for (unsigned i = 1; i < kLanes; ++i)
    if (all[i] != all[0]) fault(1u << i, 0, "lanes of a warp disagree on a matrix descriptor");
  return all[0];
}

}  // namespace

void finish_first_product(Warp& w) {
  const Product p = w.products.front();
  w.products.pop_front();
  const Op& op = *p.op;
  const unsigned columns = op.y >> 8;
  const std::int32_t* list = &w.program->lists[op.x];
  std::uint16_t a[16 * 16], b[256 * 16];
  float d[16 * 256];
  if ((op.y & kFromRegisters) != 0) {
    collect_a([&](unsigned r) { return p.a[r].data(); }, a);
  } else {
    collect(w, p, p.a_descriptor, (op.y & kTransposedA) != 0, w.index % 4 * 16, 16, a);
  }
  collect(w, p, p.b_descriptor, (op.y & kTransposedB) != 0, 0, columns, b);
  if (p.add) {
    for (unsigned r = 0; r < columns / 2; r += 2)
      put_results(w.at<float>(list[r]), w.at<float>(list[r + 1]), d + 32 * r);
  } else {
    std::fill(d, d + 16 * columns, 0.0f);
  }
  const TensorCore& numbers = w.program->tensor_core;
  if ((op.y & kEightBits) != 0)
    best_lanes().multiply_8(bytes_of(a), bytes_of(b), d, static_cast<int>(columns), kinds_of(op),
                            numbers.of_8_bits());
  else
    best_lanes().multiply(a, b, d, static_cast<int>(columns), (op.y & kBfloat) != 0, numbers);
  for (unsigned r = 0; r < columns / 2; r += 2)
    take_results(d + 32 * r, w.at<float>(list[r]), w.at<float>(list[r + 1]));
}

void finish_products(Warp& w, std::uint32_t pending) {
  while (!w.products.empty() && w.products.front().group + pending < w.products_committed)
    finish_first_product(w);
}

namespace handlers {

// lists[x]: results; y: how many, and kTransposedA
void load_matrix(Warp& w, const Op& op) {
  need_whole_warp(w, "ldmatrix");
  const unsigned count = op.y & 7;
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.c == 1 ? kNarrowAddress : op.c == 2 ? kNoBase : 0, at);
  const std::uint32_t used = count == 4 ? kAllLanes : (1u << 8 * count) - 1;
  check_shared(w, used, at, 16, "ldmatrix");
  SharedMemory& shared = w.block->shared;
  std::uint16_t rows[8][8];
  for (unsigned m = 0; m < count; ++m) {
    for (unsigned i = 0; i < 8; ++i) {
      const auto address = static_cast<std::uint32_t>(at[8 * m + i]);
      const std::uint8_t* states = shared.state(address);
      for (unsigned k = 0; k < 16 && !chunk_written(states); ++k) {
        if (states[k] == 1) continue;
        const bool flying = states[k] == static_cast<std::uint8_t>(ByteState::in_flight);
        fault(1u << (8 * m + i), address,
              flying ? "read too early: a copy that is still in flight will write what ldmatrix loads"
                     : "uninitialised shared memory: ldmatrix loads it");
      }
      std::memcpy(rows[i], shared.at(address), 16);
    }
    std::uint32_t* to = w.at<std::uint32_t>(w.program->lists[op.x + m]);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned i = lane / 4, k = 2 * (lane % 4);
      to[lane] = (op.y & kTransposedA) != 0 ? rows[k][i] | std::uint32_t{rows[k + 1][i]} << 16
                                            : rows[i][k] | std::uint32_t{rows[i][k + 1]} << 16;
    }
  }
}

// m16n8k16, or m16n8k32 of 8-bit elements: a register of four has the bytes of two of 16 bits.
// lists[x]: D, A (4), B (2), C; y: kBfloat, kHalfResults, kEightBits, kE5m2A, kE5m2B
void multiply(Warp& w, const Op& op) {
  need_whole_warp(w, "mma");
  const bool half = (op.y & kHalfResults) != 0;
  const unsigned results = half ? 2 : 4;
  const std::int32_t* list = &w.program->lists[op.x];
  std::uint16_t a[16 * 16], b[8 * 16];
  collect_a([&](unsigned r) { return w.at<std::uint32_t>(list[results + r]); }, a);
  for (unsigned r = 0; r < 2; ++r) collect_pairs(w.at<std::uint32_t>(list[results + 4 + r]), b + 8 * r);
  float d[16 * 8];
  const std::int32_t* c = list + results + 6;
  for (unsigned r = 0; r < 4; r += 2) {
    if (!half) {
      put_results(w.at<float>(c[r]), w.at<float>(c[r + 1]), d + 32 * r);
      continue;
    }
    const std::uint32_t* pairs = w.at<std::uint32_t>(c[r / 2]);
    for (unsigned lane = 0; lane < kLanes; ++lane)
      d[32 * r + 2 * lane] = of_half(pairs[lane] & 0xffffu),
                     d[32 * r + 2 * lane + 1] = of_half(pairs[lane] >> 16);
  }
  TensorCore numbers = w.program->tensor_core;
  numbers.keeps_trace = half;
  if ((op.y & kEightBits) == 0)
    best_lanes().multiply(a, b, d, 8, (op.y & kBfloat) != 0, numbers);
  else if (numbers.widens_8)
    best_lanes().multiply_8_widened(bytes_of(a), bytes_of(b), d, 8, kinds_of(op), numbers);
  else
    best_lanes().multiply_8(bytes_of(a), bytes_of(b), d, 8, kinds_of(op), numbers.of_8_bits());
  for (unsigned r = 0; r < 4; r += 2) {
    if (!half) {
      take_results(d + 32 * r, w.at<float>(list[r]), w.at<float>(list[r + 1]));
      continue;
    }
    std::uint32_t* pairs = w.at<std::uint32_t>(list[r / 2]);
    for (unsigned lane = 0; lane < kLanes; ++lane)
      pairs[lane] = to_half(d[32 * r + 2 * lane]) | to_half(d[32 * r + 2 * lane + 1]) << 16;
  }
}

// a: descriptor of A; b: of B; c: predicate, whether D is added to; lists[x]: D, then A in registers
void product(Warp& w, const Op& op) {
  need_whole_warp(w, "wgmma");
  Product p;
  p.op = &op;
  p.group = w.products_committed;
  const std::uint32_t add = w.predicate(op.c);
  if (add != 0 && add != kAllLanes) fault(add, 0, "lanes of a warp disagree on whether wgmma adds");
  p.add = add != 0;
  if ((op.y & kFromRegisters) != 0) {
    const std::int32_t* from = &w.program->lists[op.x + (op.y >> 8) / 2];
    for (unsigned r = 0; r < 4; ++r) std::memcpy(p.a[r].data(), w.at<std::uint32_t>(from[r]), sizeof p.a[r]);
  } else {
    p.a_descriptor = agreed(w, op.a);
  }
  p.b_descriptor = agreed(w, op.b);
  w.products.push_back(p);
}
void product_commit(Warp& w, const Op&) {
  need_whole_warp(w, "wgmma.commit_group");
  ++w.products_committed;
}
void product_wait(Warp& w, const Op& op) {
  need_whole_warp(w, "wgmma.wait_group");
  finish_products(w, static_cast<std::uint32_t>(op.value));
}
void whole_warp(Warp& w, const Op&) { need_whole_warp(w, ".aligned instruction"); }

}  // namespace handlers
}  // namespace emulator
