// Inputs of 8 bits, or keys and values alone: the words of such cases, the tensors of their scales, and what
// scales and codes hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cases/case.hpp"
#include "cases/random.hpp"

namespace tessera::cases {

inline bool is_code(tessera_dtype dtype) {
  return dtype == TESSERA_F8E4M3 || dtype == TESSERA_F8E5M2 || dtype == TESSERA_I8;
}
// Of keys and values.
inline tessera_dtype cache_dtype(const Case& c) { return c.cache == 0 ? c.dtype : c.cache; }
// Whether the query has 8 bits as well.
inline bool of_codes(const Case& c) { return is_code(c.dtype); }

std::string codes_words(const Case& c);
// cache= and what follows it. Empty, or what is wrong.
std::string read_cache(std::string_view word, std::string_view value, Case* c);
// scales= and what follows it. Empty, or what is wrong.
std::string read_scales(std::string_view word, std::string_view value, Case* c);
// Empty, or what the words do not agree on.
std::string check_codes(const Case& c);

// Lays out the scales of query, key and value, and turns value round, as the case asks.
void add_code_tensors(const Case& c, std::uint64_t seed, tessera_attention* problem);

// From the seed: powers of two and others, up to 2^6 apart, so that codes for numbers around `unit` use the
// range of their format. `exact`: powers of two alone.
void fill_scales(const tessera_tensor& scales, const Random& draws, tessera_dtype dtype, double unit,
                 bool exact, bool signs);

// What the code at a row (counted through the first three sizes) and column of a tensor is multiplied by.
class ScaleOf {
 public:
  ScaleOf(const tessera_tensor& tensor, const tessera_tensor& scales, std::int64_t scale_rows)
      : tensor_(tensor), scales_(scales), rows_(scale_rows) {}
  double operator()(std::int64_t row, std::int64_t column) const;

 private:
  const tessera_tensor &tensor_, &scales_;
  std::int64_t rows_;
};

// The nearest number that the dtype has, the largest one beyond it: as quantisers round. NaN and infinities,
// and other dtypes, stay as they are.
double saturated(tessera_dtype dtype, double value);

}  // namespace tessera::cases
