// Batches whose entries differ in length, keys in pages, prior results: the words and sizes of such cases,
// and what their tensors hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cases/case.hpp"
#include "cases/random.hpp"

namespace tessera::cases {

inline bool by_entry(const Case& c) { return c.ragged || c.packed || c.page > 0; }

// Sizes of the tensors: the first of query, its rows, pages of an entry in the table, pages of the pool, and
// keys that the interface takes an entry to have at most.
std::int64_t tensor_entries(const Case& c);
std::int64_t tensor_rows(const Case& c);
std::int64_t table_pages(const Case& c);
std::int64_t pool_pages(const Case& c);
std::int64_t key_capacity(const Case& c);
// Where no word says it.
inline tessera_dtype usual_output(const Case& c) {
  return c.dtype == TESSERA_F8E4M3 || c.dtype == TESSERA_F8E5M2 ? TESSERA_F16 : c.dtype;
}
inline tessera_dtype output_dtype(const Case& c) {
  return c.output_dtype == 0 ? usual_output(c) : c.output_dtype;
}

std::string sequence_words(const Case& c);
// Empty, or what the words do not agree on.
std::string check_sequences(const Case& c);

// The tensors beside query, key and value, as they are laid out.
void add_sequence_tensors(const Case& c, std::uint64_t seed, tessera_attention* problem);

// Reads the batch of an instance: where rows and keys lie, whatever holds them.
class Sequences {
 public:
  Sequences(const Case& c, const tessera_attention& problem) : case_(c), problem_(problem) {}

  [[nodiscard]] std::int64_t rows_of(std::int64_t b) const;
  [[nodiscard]] std::int64_t key_length(std::int64_t b) const;
  // Where a row begins: of query and its like; of key or value, or -1 if there is no such key.
  [[nodiscard]] std::int64_t query_at(const tessera_tensor& t, std::int64_t b, std::int64_t h,
                                      std::int64_t i) const;
  [[nodiscard]] std::int64_t key_at(const tessera_tensor& t, std::int64_t b, std::int64_t h,
                                    std::int64_t j) const;
  // The same as a number of the tensor's rows, counted through its first three sizes.
  [[nodiscard]] std::int64_t key_row(const tessera_tensor& t, std::int64_t b, std::int64_t h,
                                     std::int64_t j) const;
  // Keys of entry b that the band leaves visible to some row.
  struct Span {
    std::int64_t begin, end;
  };
  [[nodiscard]] Span seen(std::int64_t b) const;

  // From the seed. Lengths come first: the table depends on them; poison goes where nothing may be read.
  void fill_lengths(std::uint64_t seed) const;
  void fill_table(std::uint64_t seed) const;
  void fill_priors(std::uint64_t seed, bool equal) const;
  void poison_unused() const;

 private:
  struct Stored {
    std::int64_t entry, row;  // entry -1: there is no such key
  };
  [[nodiscard]] Stored stored(std::int64_t b, std::int64_t j) const;
  void poison_scales() const;

  const Case& case_;
  const tessera_attention& problem_;
};

}  // namespace tessera::cases
