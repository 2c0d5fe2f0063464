// The calls of append_test: layouts, sizes, kinds of rope, and what does not fit.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "append_calls.hpp"

namespace tessera::testing_append {

inline std::vector<Spec> specs() {
  std::vector<Spec> all;
  const auto add = [&](const char* name, const auto& change) {
    Spec s;
    s.name = name;
    s.rows = {1, 1, 1};
    s.lengths = {7, 40, 1};
    change(s);
    all.push_back(s);
  };
  const auto ragged = [](Spec& s) {
    s.ragged = true;
    s.rows = {1, 0, 5, 1, 3, 7};
    s.lengths = {17, 20, 5, 40, 30, 4};  // of the last, three rows stand before key 0
  };
  add("lengths", [](Spec&) {});
  add("dense", [](Spec& s) { s.no_lengths = true, s.rows = {3, 3}; });
  add("rope_halves", [](Spec& s) { s.pairs = 32; });
  add("rope_alone", [](Spec& s) { s.pairs = 32, s.stores = false; });
  add("rope_neighbours", [](Spec& s) { s.pairs = 32, s.interleaved = true, s.dtype = TESSERA_F16; });
  add("rope_part", [](Spec& s) { s.pairs = 8, s.first = 16, s.rows = {3, 3, 3}; });
  add("rope_part_neighbours", [](Spec& s) { s.pairs = 12, s.first = 8, s.interleaved = true; });
  add("rope_odd", [](Spec& s) { s.pairs = 5, s.first = 3, s.dtype = TESSERA_F16, s.rows = {2, 2, 2}; });
  add("rope_odd_neighbours", [](Spec& s) { s.pairs = 5, s.first = 3, s.interleaved = true; });
  add("rope_all_but_one", [](Spec& s) { s.pairs = 31, s.first = 1; });
  add("rope_angles_apart", [](Spec& s) { s.pairs = 16, s.pad = 8, s.wide_numbers = true; });
  add("rope_angles_unaligned", [](Spec& s) { s.pairs = 16, s.pad = 1; });
  add("wild_f16", [](Spec& s) { s.pairs = 32, s.dtype = TESSERA_F16, s.wild = true, s.rows = {3, 3, 3}; });
  add("wild_bf16", [](Spec& s) { s.pairs = 31, s.wild = true, s.rows = {3, 3, 3}; });
  add("f32", [](Spec& s) { s.dtype = TESSERA_F32, s.pairs = 8, s.wild = true, s.rows = {3, 3, 3}; });
  add("f32_neighbours",
      [](Spec& s) { s.dtype = TESSERA_F32, s.pairs = 10, s.first = 4, s.interleaved = true; });
  add("f32_odd",
      [](Spec& s) { s.dtype = TESSERA_F32, s.pairs = 3, s.first = 1, s.dim = 33, s.value_dim = 5; });
  add("heads_inside", [](Spec& s) { s.heads_inside = true, s.pairs = 32, s.rows = {3, 3, 3}; });
  add("odd_dims", [](Spec& s) { s.dim = 36, s.value_dim = 20, s.pairs = 9; });
  add("shifted", [](Spec& s) { s.shift = 1, s.pairs = 32; });
  add("padded", [](Spec& s) { s.pad = 3, s.pairs = 32; });
  add("large_dims",
      [](Spec& s) { s.dim = 1024, s.value_dim = 1024, s.heads = 2, s.kv_heads = 1, s.pairs = 512; });
  add("few_heads",
      [](Spec& s) { s.heads = s.kv_heads = 1, s.dim = s.value_dim = 8, s.rows = {1}, s.lengths = {3}; });
  add("positions", [](Spec& s) { s.pairs = 32, s.positions = true, s.rows = {3, 3, 3}; });
  add("positions_i64", [](Spec& s) {
    s.pairs = 32, s.positions = s.wide_numbers = true, s.rows = {2, 2, 2};
  });
  add("in_key", [](Spec& s) {
    s.in_key = true, s.kv_heads = 1, s.dim = 96, s.value_dim = 64, s.pairs = 16, s.first = 64;
  });
  for (const std::int64_t page : {1, 5, 16, 64}) {
    add("", [&](Spec& s) {
      s.name = fmt::format("pages_of_{}", page);
      s.page = page, s.capacity = (40 + page - 1) / page * page, s.pairs = 32;
      s.in_key = page == 5;
    });
    add("", [&](Spec& s) {
      ragged(s);
      s.name = fmt::format("ragged_pages_of_{}", page);
      s.page = page, s.capacity = (40 + page - 1) / page * page, s.pairs = 16;
      s.rows_before = 2, s.rows_after = 3;
      s.wide_numbers = page == 16, s.positions = page == 1;
      s.interleaved = page == 64;
    });
  }
  add("ragged", [&](Spec& s) { ragged(s), s.pairs = 32; });
  add("ragged_f32", [&](Spec& s) { ragged(s), s.dtype = TESSERA_F32, s.pairs = 4, s.rows_after = 4; });
  add("ragged_without_rope", [&](Spec& s) { ragged(s), s.rows_before = 3; });
  add("ragged_prompt", [&](Spec& s) {
    s.ragged = true, s.rows = {70, 1}, s.lengths = {130, 9}, s.capacity = s.angles = 160, s.page = 16,
    s.pairs = 32;
  });
  add("no_rows", [&](Spec& s) {
    ragged(s), s.rows = {0, 0}, s.lengths = {3, 0}, s.rows_after = 2, s.pairs = 32;
  });
  for (const std::int64_t entries : {31, 32, 33, 64, 65, 1000}) {
    add("", [&](Spec& s) {
      s.name = fmt::format("entries_{}", entries);
      s.ragged = true, s.heads = s.kv_heads = 1, s.dim = s.value_dim = 16, s.capacity = 4, s.pairs = 8;
      s.rows.clear(), s.lengths.clear();
      for (std::int64_t n = 0; n < entries; ++n)
        s.rows.push_back(n % 3 == 1 ? 0 : 1), s.lengths.push_back(n % 5);
    });
  }
  for (const tessera_dtype dtype : {TESSERA_F8E4M3, TESSERA_F8E5M2}) {
    const std::string kind = tessera_dtype_name(dtype);
    add("", [&](Spec& s) { s.name = kind, s.dtype = dtype; });
    add("", [&](Spec& s) { s.name = kind + "_odd", s.dtype = dtype, s.dim = 24, s.value_dim = 7; });
    add("", [&](Spec& s) { s.name = kind + "_transposed", s.dtype = dtype, s.transposed = true, s.pad = 2; });
    add("", [&](Spec& s) {
      ragged(s);
      s.name = kind + "_transposed_pages", s.dtype = dtype, s.transposed = true, s.page = 16, s.capacity = 48;
    });
  }
  // What does not fit.
  add("bad_lengths", [](Spec& s) { s.bad = true, s.lengths = {-1, 41, 9}, s.pairs = 32; });
  add("bad_lengths_i64", [](Spec& s) {
    s.bad = s.wide_numbers = true, s.lengths = {-(std::int64_t{1} << 40), (std::int64_t{1} << 32) + 5, 9},
    s.pairs = 32;
  });
  add("bad_lengths_of_pages",
      [&](Spec& s) { ragged(s), s.bad = true, s.page = 8, s.lengths = {41, 20, -5, 40, 30, 7}; });
  add("bad_pages", [&](Spec& s) {
    ragged(s), s.bad = true, s.page = 4, s.pairs = 32;
    s.rows[0] = 9, s.lengths[0] = 17, s.bad_pages = {0, 4, 2, -1, 1 << 30};
  });
  add("bad_positions", [](Spec& s) { s.bad = s.positions = true, s.pairs = 32, s.rows = {3, 3, 3}; });
  add("bad_positions_i64", [](Spec& s) {
    s.bad = s.positions = s.wide_numbers = true, s.pairs = 32, s.rows = {3, 3, 3};
  });
  add("beyond_the_angles", [](Spec& s) { s.bad = true, s.angles = 4, s.pairs = 32, s.rows = {3, 3, 3}; });
  return all;
}

}  // namespace tessera::testing_append
