// Long contexts for 8-bit attention: one head, a handful of query rows over up to hundreds of thousands of
// keys, made from a seed; the same as codes of the library's quantiser; and how much of a needle an output
// has.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "cases/case.hpp"
#include "oracle/oracle.hpp"

namespace tessera::fp8 {

enum class Input {
  normal,    // queries, keys and values are standard normal: scores have deviation 1
  outliers,  // one channel of 16 has the mean 10 in K and 8 in V
  needle,    // outliers; of each row's weight its needle has a fifth, and the first key, a sink, another
  sink       // outliers; the first key has four fifths of the weight, and no row has a needle
};
std::string_view name(Input input);

constexpr std::int64_t kRows = 4;

struct Haystack {
  std::int64_t keys, dim;
  std::vector<float> query, key, value;  // [kRows, dim], [keys, dim], [keys, dim]
  std::vector<std::int64_t> needles;     // the key of each row; of other inputs none
};
Haystack make_haystack(Input input, std::int64_t keys, std::int64_t dim, std::uint64_t seed);

// How the three are quantised, always to e4m3.
struct Coding {
  cases::ScaleKind query_key = cases::ScaleKind::head, value = cases::ScaleKind::head;
  bool smooth = false, hadamard = false;
};
std::string words(const Coding& coding);  // "head", "head, V by channel, smooth, hadamard"

// A problem and its memory.
struct Attention {
  tessera_attention problem = TESSERA_ATTENTION_INIT;
  std::vector<oracle::Row> rows;
  std::list<std::vector<unsigned char>> memory;

  tessera_tensor add(tessera_dtype dtype, std::int64_t heads, std::int64_t rows, std::int64_t columns);
  [[nodiscard]] std::vector<double> output() const;
};
// Of 16 bits: rounded to nearest. Outputs are f32.
Attention as_given(const Haystack& haystack, tessera_dtype dtype);
// The same, but no row sees its needle.
Attention without_needles(const Haystack& haystack);
Attention as_codes(const Haystack& haystack, const Coding& coding, tessera_dtype output = TESSERA_F32);

// What a needle does to a row is what the true output is with it, less what it is without. Of each row of
// an output, how far it went from the one to the other: 1 has found the needle, 0 has not seen it.
class Needles {
 public:
  explicit Needles(const Haystack& haystack);
  // Empty for inputs without needles.
  [[nodiscard]] std::vector<double> found(const std::vector<double>& output) const;
  [[nodiscard]] const std::vector<double>& truth() const { return truth_; }

 private:
  std::vector<double> truth_, without_;
};

}  // namespace tessera::fp8
