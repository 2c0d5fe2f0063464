// Conformance: small kernels, one for each instruction form, that run on a GPU once and on the emulator in
// every test run. Both get the same PTX and the same generated operands; the GPU's results are kept.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace emulator::conformance {

// A tensor map over the input, `offset` bytes behind its start.
struct Tensor {
  unsigned element_bytes = 2;  // 1 or 2
  unsigned rank = 4;
  std::array<std::uint64_t, 5> extents{};
  std::array<std::uint64_t, 4> strides{};  // bytes
  std::array<std::uint32_t, 5> box{};
  unsigned swizzle = 0;  // 0 none, 1 32, 2 64, 3 128 bytes
  std::uint64_t offset = 0;
};

// How far an approximate instruction may be from the GPU's result, which is itself within the documented
// error of the exact one: |difference| <= relative * |result| + absolute. Infinities, NaNs and the sign of
// zero are compared as bits.
struct Bound {
  double relative = 0, absolute = 0;
};

struct Case {
  std::string name;  // the form, and what is special about the case
  std::string ptx;   // a module with the entry `conform(in, out[, map])`
  std::vector<std::uint32_t> input;
  unsigned blocks = 1, threads = 128;
  std::size_t shared_bytes = 0;  // dynamic
  std::size_t items = 0;         // of the output; mostly one for each thread
  unsigned item_words = 2;       // 32-bit words of an item
  unsigned result_bits = 64;     // of an item that are kept: 1, 16, 32, ...
  unsigned input_words = 0;      // operands of an item, where each has its own; 0: not so
  std::size_t kept = 0;          // items whose bits are kept; of the others a hash for each `chunk`
  std::size_t chunk = 256;
  std::optional<Bound> bound;
  std::optional<Tensor> tensor;
};

// By families. Names are unique.
void add_lane_cases(std::vector<Case>& out);
void add_warp_cases(std::vector<Case>& out);
void add_memory_cases(std::vector<Case>& out);
void add_matrix_cases(std::vector<Case>& out);
void add_float8_cases(std::vector<Case>& out);  // matrices of 8-bit floats
std::vector<Case> all_cases();

// A module around a body. %rd1, %rd2: input and output of the item; %r1: its number; %r2, %r3: %tid.x and
// %ctaid.x; %r4: where dynamic shared memory starts.
std::string module_text(std::string_view body, unsigned input_bytes, unsigned output_bytes,
                        std::string_view version = "8.0");

// Pieces of a body. {%r30, %r31}; loads to such registers; stores of them to the item's output.
std::string registers(unsigned first, unsigned count);
std::string load_words(unsigned first, unsigned count, const std::string& base, unsigned offset);
std::string store_words(unsigned first, unsigned count);
// The start of a product of a warpgroup. The block's input is an image of shared memory, which goes there;
// four words, the first of them whether to add (%p2); for every thread A (%r20 to %r23) and C (from %r30 on).
inline constexpr unsigned kImageBytes = 40 << 10;
inline constexpr unsigned kImageB = 8192;  // A lies at the image's start, B here
unsigned words_of_product(unsigned results);
std::string start_product(unsigned results);

}  // namespace emulator::conformance
