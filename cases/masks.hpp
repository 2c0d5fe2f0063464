// Mask tensors of a case: their shape, their words, and what they hold. Contents are a function of the seed
// and of the place alone; scripts/bench_options.py makes the same ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cases/case.hpp"
#include "cases/instance.hpp"
#include "cases/random.hpp"

namespace tessera::cases {

// Which of [batch, heads, queries, keys] a mask really has; of the others it has one, or, in front of the
// first `4 - rank`, none.
struct MaskDims {
  std::string_view name;
  MaskShape shape;
  bool real[4];
  std::int32_t rank;
};
const MaskDims& mask_dims(MaskShape shape);

// The size of dimension d of [batch, heads, queries, keys] in the mask.
std::int64_t mask_size(const Case& c, int d);
double mask_elements(const Case& c);

// "mask=boolean:keys", or nothing where there is no mask.
std::string mask_words(const Case& c);
// Reads what stands behind "mask=" in `word`. Empty, or what is wrong with it, in a sentence.
std::string read_mask(std::string_view word, std::string_view value, Case* c);

// Empty, or what the parts of the word and the sizes of the case do not agree on.
std::string check_mask(const Case& c);

// The seed picks it where the case does not say.
tessera_dtype mask_dtype(const Case& c, std::uint64_t seed);

// How many (query, key) pairs of one head a mask of documents or blocks leaves visible, with the band;
// nothing for other masks: what a seed draws is not known here.
std::optional<double> masked_pairs(const Case& c);

class MaskContents {
 public:
  MaskContents(const Case& c, Input input, std::uint64_t seed);

  // Of element e, counted through the mask's own dimensions.
  struct Element {
    bool hidden;
    unsigned char byte;  // of a boolean mask: any but 0 is true
    double bias;         // of an additive one: where it is hidden, what hides it
  };
  [[nodiscard]] Element operator()(std::int64_t e) const;

 private:
  [[nodiscard]] bool hidden(std::uint64_t noise, std::int64_t row, std::int64_t query,
                            std::int64_t key) const;
  [[nodiscard]] bool hidden_tile(std::uint64_t noise, std::int64_t plane, std::int64_t query,
                                 std::int64_t key) const;
  [[nodiscard]] std::int64_t padded_length(std::int64_t entry) const;

  const Case& case_;
  Input input_;
  Random draws_, rows_;
  std::int64_t queries_, keys_, rows_per_entry_;
  double hides_;
};

}  // namespace tessera::cases
