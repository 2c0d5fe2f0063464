// Bad new rows, one by one, and good ones; bad_rope_test.cpp has rope, bad_input_test.cpp the judge.
#include <cstdint>
#include <limits>
#include <string>

#include "tests/unit/bad_input.hpp"

namespace tessera::bad_input {
namespace {

const BadInput kNewRows[] = {
    {"new_value_alone",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_key = TESSERA_TENSOR_NONE;
     },
     kInvalid,
     {"new_value is set and new_key is not"}},
    {"new_key_with_key_offsets",
     [](Fixture& f) {
       f.make_packed();
       f.add_new_rows();
     },
     kInvalid,
     {"new_key and key_offsets are both set", "no room for new ones"}},
    {"new_key_without_align",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.mask.align = TESSERA_ALIGN_NONE;
     },
     kInvalid,
     {"new_key needs mask.align = bottom-right (2)"}},
    {"new_key_top_left",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.mask.align = TESSERA_ALIGN_TOP_LEFT;
     },
     kInvalid,
     {"new_key needs mask.align = bottom-right (2)"}},
    {"new_key_dtype",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_key.dtype = TESSERA_F16;
     },
     kInvalid,
     {"new_key.dtype is f16", "query's dtype (f32)"}},
    {"new_value_dtype",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_value.dtype = TESSERA_BF16;
     },
     kInvalid,
     {"new_value.dtype is bf16", "query's dtype (f32)"}},
    {"new_key_rank",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_key.rank = 3;
     },
     kInvalid,
     {"new_key.rank is 3", "[batch, kv_heads, queries, dim]"}},
    {"new_key_null",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_key.data = nullptr;
     },
     kInvalid,
     {"new_key.data", "null"}},
    {"new_value_scattered",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_value.strides[3] = 2;
     },
     kInvalid,
     {"new_value.strides[3] is 2", "must be contiguous"}},
    {"new_key_batch",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_key.shape[0] = 1;
     },
     kInvalid,
     {"new_key.shape[0] is 1", "query.shape[0] is 2"}},
    {"new_key_heads",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_key.shape[1] = 1;
     },
     kInvalid,
     {"new_key.shape[1] is 1", "key's number of heads is 2"}},
    {"new_key_rows",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_key.shape[2] = 2;
     },
     kInvalid,
     {"new_key.shape[2] is 2", "query's number of rows is 3"}},
    {"new_key_dim",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_key.shape[3] = 7;
     },
     kInvalid,
     {"new_key.shape[3] is 7", "key's head dimension is 8"}},
    {"new_value_batch",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_value.shape[0] = 1;
     },
     kInvalid,
     {"new_value.shape[0] is 1", "query.shape[0] is 2"}},
    {"new_value_heads",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_value.shape[1] = 1;
     },
     kInvalid,
     {"new_value.shape[1] is 1", "key's number of heads is 2"}},
    {"new_value_rows",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_value.shape[2] = 2;
     },
     kInvalid,
     {"new_value.shape[2] is 2", "query's number of rows is 3"}},
    {"new_value_dim",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_value.shape[3] = 7;
     },
     kInvalid,
     {"new_value.shape[3] is 7", "value's head dimension is 8"}},
    {"new_key_batch_of_ragged_rows",
     [](Fixture& f) {
       f.make_ragged();
       f.add_new_rows();
       f.problem.new_key.shape[0] = 2;
     },
     kInvalid,
     {"new_key.shape[0] is 2", "query.shape[0] is 1"}},
    {"key_rows_share_memory",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.key.strides[2] = 4;
     },
     kInvalid,
     {"key.strides[2] is 4", "elements of key overlap each other", "at least 8"}},
    {"value_rows_share_memory",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.value.strides[2] = 4;
     },
     kInvalid,
     {"value.strides[2] is 4", "elements of value overlap each other", "at least 8"}},
    {"key_shared_by_the_batch",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.key.strides[0] = 0;
     },
     kInvalid,
     {"key.strides[0] is 0", "overlap each other"}},
    {"new_value_left_out",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_value = TESSERA_TENSOR_NONE;
     },
     kInvalid,
     {"new_key is set and new_value is not", "value.data is key.data"}},
    {"values_in_keys_of_other_strides",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_value = TESSERA_TENSOR_NONE;
       f.problem.value = f.problem.key;
       f.problem.value.strides[0] = 96;
     },
     kInvalid,
     {"value.strides[0] is 96, but key's is 80", "row by row"}},
    {"values_wider_than_their_keys",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_value = TESSERA_TENSOR_NONE;
       f.problem.value.data = f.problem.key.data;
       f.problem.query.shape[3] = f.problem.key.shape[3] = f.problem.new_key.shape[3] = 4;
     },
     kInvalid,
     {"value.shape[3] is 8, but key.shape[3] is 4", "row by row"}},
    {"new_value_beside_values_in_keys",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.value = f.problem.key;
     },
     kInvalid,
     {"new_value is set, but value.data is key.data"}},
    {"value_begins_in_a_row_of_key",
     [](Fixture& f) { f.put_caches_in_room(4); },
     kInvalid,
     {"value overlaps key in memory", "value.data = key.data without new_value"}},
    {"last_row_of_value_is_the_first_of_key",
     [](Fixture& f) { f.put_caches_in_room(-(2 * 2 * 5 * 8 - 8)); },
     kInvalid,
     {"value overlaps key in memory"}},
    {"value_of_other_strides_in_key",
     [](Fixture& f) {
       f.put_caches_in_room(2 * 2 * 5 * 8 - 1);
       f.problem.value.strides[2] = 9;
       f.problem.value.strides[1] = 45;
       f.problem.value.strides[0] = 90;
     },
     kInvalid,
     {"value overlaps key in memory"}},
    {"new_key_in_key",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_key.data = f.k.data() + 1;
     },
     kInvalid,
     {"overlaps", "results need memory of their own", "new_key", "key"}},
    {"new_value_in_value",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_value.data = f.v.data() + 1;
     },
     kInvalid,
     {"overlaps", "results need memory of their own", "new_value", "value"}},
    {"new_value_in_key",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_value.data = f.k.data() + 1;
     },
     kInvalid,
     {"overlaps", "results need memory of their own", "new_value", "key"}},
    {"query_in_key",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.query.data = f.k.data() + 1;
     },
     kInvalid,
     {"overlaps", "results need memory of their own", "query", "key"}},
    {"new_key_in_output",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.new_key.data = f.o.data() + 1;
     },
     kInvalid,
     {"overlaps", "results need memory of their own", "new_key", "output"}},
    {"new_value_in_lse",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.lse.data = f.new_v.data();
     },
     kInvalid,
     {"overlaps", "results need memory of their own", "new_value", "lse"}},
    {"output_in_key",
     [](Fixture& f) {
       f.add_new_rows();
       f.problem.output.data = f.k.data();
     },
     kInvalid,
     {"overlaps", "output", "key"}},
    {"key_lengths_in_key",
     [](Fixture& f) {
       f.add_new_rows();
       f.add_lengths();
       f.problem.key_lengths.data = f.k.data() + 3;
     },
     kInvalid,
     {"key overlaps key_lengths"}},
    {"workspace_in_key",
     [](Fixture& f) {
       f.add_new_rows();
       f.add_rope();
       f.add_workspace();
       f.problem.key.data = f.device.workspace;
     },
     kInvalid,
     {"device.workspace overlaps key"}},
};

const BadInput kNewContents[] = {
    {"page_of_a_new_row_missing",
     [](Fixture& f) {
       f.make_paged();
       f.add_new_rows();
       for (float& x : f.mask) x = -std::numeric_limits<float>::infinity();
       f.problem.mask.tensor = {f.mask.data(), TESSERA_F32, 1, {12, 0, 0, 0}, {1, 0, 0, 0}};
       f.table[1] = -1;
     },
     kInvalid,
     {"page_table[0, 1] is -1, and a new row of entry 0 is to be stored there: 0 to 1 is accepted"}},
    {"page_of_a_new_row_past_the_pool",
     [](Fixture& f) {
       f.make_paged();
       f.add_new_rows();
       for (float& x : f.mask) x = -std::numeric_limits<float>::infinity();
       f.problem.mask.tensor = {f.mask.data(), TESSERA_F32, 1, {12, 0, 0, 0}, {1, 0, 0, 0}};
       f.table[3] = 2;
     },
     kInvalid,
     {"page_table[1, 0] is 2, and a new row of entry 1 is to be stored there: 0 to 1 is accepted"}},
    {"no_pages_for_new_rows",
     [](Fixture& f) {
       f.make_paged();
       f.add_new_rows();
       for (float& x : f.mask) x = -std::numeric_limits<float>::infinity();
       f.problem.mask.tensor = {f.mask.data(), TESSERA_F32, 1, {12, 0, 0, 0}, {1, 0, 0, 0}};
       f.problem.key.shape[0] = f.problem.value.shape[0] = 0;
     },
     kInvalid,
     {"page_table[0, 0] is 1, and a new row of entry 0 is to be stored there: there are no pages"}},
    {"length_of_new_rows_past_the_keys",
     [](Fixture& f) {
       f.add_new_rows();
       f.add_lengths();
       f.lengths[0] = 6;
     },
     kInvalid,
     {"key_lengths[0] is 6"}},
};

INSTANTIATE_TEST_SUITE_P(NewRows, BadInputTest, testing::ValuesIn(kNewRows), test_name);
INSTANTIATE_TEST_SUITE_P(NewContents, BadInputTest, testing::ValuesIn(kNewContents), test_name);

// A refusal stores nothing either: the sentence comes before the first row.
TEST(BadAppend, StoresNothing) {
  Fixture f;
  f.add_new_rows();
  f.add_positions();
  const std::vector<float> key = f.k, value = f.v;
  f.positions[5] = 6;
  EXPECT_EQ(tessera_attend(&f.problem, &f.device), kInvalid);
  EXPECT_EQ(f.k, key);
  EXPECT_EQ(f.v, value);
  f.positions[5] = 5;
  EXPECT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << tessera_last_error();
  EXPECT_NE(f.k, key);
  EXPECT_NE(f.v, value);
}

// What is spoiled above is good as it is.
TEST(GoodAppend, IsTaken) {
  for (int kind = 0; kind < 16; ++kind) {
    Fixture f;
    if (kind & 1) f.make_ragged();
    if (kind & 2) f.make_paged();
    if (kind & 4) f.add_positions();
    f.add_new_rows();
    if (kind & 8) f.add_rope();
    EXPECT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << kind << ": " << tessera_last_error();
    EXPECT_EQ(f.v[((kind & 2) ? 64 : 0) + 3 * 8], 0.75f) << kind;  // key 3 of entry 0, in page 1 or not
  }
}

// Key and value may be two halves of one pool: rows that lie between each other's.
TEST(GoodAppend, KeyAndValueOfOnePool) {
  Fixture f;
  std::vector<float> pool(2 * 2 * 2 * 5 * 8, 0.5f);  // [batch, two, kv_heads, keys, dim]
  f.problem.key.data = pool.data();
  f.problem.value.data = pool.data() + 2 * 5 * 8;
  f.problem.key.strides[0] = f.problem.value.strides[0] = 2 * 2 * 5 * 8;
  f.add_new_rows();
  for (float& x : f.new_v) x = 0.875f;
  ASSERT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << tessera_last_error();
  for (std::size_t n = 0; n < pool.size(); ++n) {
    const bool is_new = n / 8 % 5 >= 2;
    EXPECT_EQ(pool[n], !is_new ? 0.5f : n / (2 * 5 * 8) % 2 == 0 ? 0.75f : 0.875f) << n;
  }
  // The plan is there already (addresses differ by 16 bytes); they are looked at again.
  f.problem.value.data = pool.data() + 2 * 5 * 8 - 4;
  EXPECT_EQ(tessera_attend(&f.problem, &f.device), kInvalid);
  EXPECT_NE(std::string(tessera_last_error()).find("value overlaps key"), std::string::npos);
}

}  // namespace
}  // namespace tessera::bad_input
