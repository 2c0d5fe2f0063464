// Bad offsets, page tables, prior results and mask alignments, one by one; bad_input_test.cpp has the judge.
#include <cstdint>
#include <limits>
#include <string>

#include "tests/unit/bad_input.hpp"

namespace tessera::bad_input {
namespace {

const BadInput kTogether[] = {
    {"page_table_with_key_offsets",
     [](Fixture& f) {
       f.make_paged();
       f.problem.key_offsets = {f.key_offsets.data(), TESSERA_I32, 1, {3, 0, 0, 0}, {1, 0, 0, 0}};
     },
     kInvalid,
     {"page_table and key_offsets are both set"}},
    {"page_table_without_lengths",
     [](Fixture& f) {
       f.make_paged();
       f.problem.key_lengths = TESSERA_TENSOR_NONE;
     },
     kInvalid,
     {"page_table needs key_lengths"}},
    {"key_offsets_with_lengths",
     [](Fixture& f) {
       f.make_packed();
       f.add_lengths();
     },
     kInvalid,
     {"key_offsets and key_lengths are both set"}},
    {"prior_output_alone",
     [](Fixture& f) {
       f.add_prior();
       f.problem.prior_lse = TESSERA_TENSOR_NONE;
     },
     kInvalid,
     {"prior_output is set and prior_lse is not"}},
    {"prior_lse_alone",
     [](Fixture& f) {
       f.add_prior();
       f.problem.prior_output = TESSERA_TENSOR_NONE;
     },
     kInvalid,
     {"prior_lse is set and prior_output is not"}},
    {"prior_without_query_offsets",
     [](Fixture& f) {
       f.add_prior();
       f.problem.query_offsets = TESSERA_TENSOR_NONE;
     },
     kInvalid,
     {"prior_output needs query_offsets"}},
    {"alibi_without_align",
     [](Fixture& f) {
       f.make_ragged();
       f.add_alibi();
       f.problem.key = tessera_tensor_4d(f.k.data(), TESSERA_F32, 2, 2, 3, 8);  // as many keys as rows
       f.problem.value = tessera_tensor_4d(f.v.data(), TESSERA_F32, 2, 2, 3, 8);
     },
     kInvalid,
     {"alibi_slopes need mask.align"}},
    {"tensor_align_without_tensor",
     [](Fixture& f) { f.problem.mask.tensor_align = TESSERA_ALIGN_BOTTOM_RIGHT; },
     kInvalid,
     {"mask.tensor_align is 2", "no mask.tensor"}},
    {"tensor_align_top_left",
     [](Fixture& f) {
       f.add_mask();
       f.problem.mask.tensor_align = TESSERA_ALIGN_TOP_LEFT;
     },
     kInvalid,
     {"mask.tensor_align is 1", "2 (bottom-right)"}},
    {"output_overlaps_table",
     [](Fixture& f) {
       f.make_paged();
       f.problem.page_table.data = f.o.data();
     },
     kInvalid,
     {"output overlaps page_table"}},
    {"lse_overlaps_prior",
     [](Fixture& f) {
       f.add_prior();
       f.problem.prior_lse.data = f.lse.data();
     },
     kInvalid,
     {"lse overlaps prior_lse"}},
};

const BadInput kSequenceShapes[] = {
    {"no_query_offsets",
     [](Fixture& f) {
       f.make_ragged();
       f.problem.query_offsets.shape[0] = 0;
     },
     kInvalid,
     {"query_offsets.shape[0] is 0", "batch + 1"}},
    {"query_offsets_rank",
     [](Fixture& f) {
       f.make_ragged();
       f.problem.query_offsets.rank = 2;
     },
     kInvalid,
     {"query_offsets.rank is 2", "rank 1"}},
    {"query_offsets_dtype",
     [](Fixture& f) {
       f.make_ragged();
       f.problem.query_offsets.dtype = TESSERA_F32;
     },
     kInvalid,
     {"query_offsets.dtype is f32", "i32, i64"}},
    {"dense_query_with_offsets",
     [](Fixture& f) {
       f.make_ragged();
       f.problem.query = tessera_tensor_4d(f.q.data(), TESSERA_F32, 2, 4, 3, 8);
       f.problem.output = tessera_tensor_4d(f.o.data(), TESSERA_F32, 2, 4, 3, 8);
       f.problem.lse.shape[0] = 2;
     },
     kInvalid,
     {"query.shape[0] is 2", "with query_offsets the first size is 1"}},
    {"keys_of_another_batch",
     [](Fixture& f) {
       f.make_ragged();
       f.problem.query_offsets.shape[0] = 2;
     },
     kInvalid,
     {"key.shape[0] is 2", "batch of query_offsets is 1"}},
    {"key_offsets_length",
     [](Fixture& f) {
       f.make_ragged();
       f.make_packed();
       f.problem.key_offsets.shape[0] = 2;
     },
     kInvalid,
     {"key_offsets.shape[0] is 2", "the batch + 1 is 3"}},
    {"dense_keys_with_offsets",
     [](Fixture& f) {
       f.make_packed();
       f.problem.key = tessera_tensor_4d(f.k.data(), TESSERA_F32, 2, 2, 5, 8);
     },
     kInvalid,
     {"key.shape[0] is 2", "with key_offsets the first size is 1"}},
    {"table_rank",
     [](Fixture& f) {
       f.make_paged();
       f.problem.page_table.rank = 1;
     },
     kInvalid,
     {"page_table.rank is 1", "rank 2"}},
    {"table_dtype",
     [](Fixture& f) {
       f.make_paged();
       f.problem.page_table.dtype = TESSERA_I64;
     },
     kInvalid,
     {"page_table.dtype is i64", "accepted: i32"}},
    {"table_batch",
     [](Fixture& f) {
       f.make_paged();
       f.problem.page_table.shape[0] = 1;
     },
     kInvalid,
     {"page_table.shape[0] is 1", "the batch is 2"}},
    {"table_overflow",
     [](Fixture& f) {
       f.make_paged();
       f.problem.page_table.shape[1] = std::int64_t{1} << 60;
       f.problem.page_table.strides[0] = f.problem.page_table.strides[1] = 0;
     },
     kInvalid,
     {"page_table.shape[1] is 1152921504606846976", "4 rows", "61 bits"}},
    {"batch_of_billions",
     [](Fixture& f) {
       f.make_ragged();
       f.make_packed();
       f.problem.query_offsets.shape[0] = f.problem.key_offsets.shape[0] = (std::int64_t{1} << 31) + 1;
       f.problem.query_offsets.strides[0] = f.problem.key_offsets.strides[0] = 0;
     },
     kInvalid,
     {"the batch is 2147483648", "up to 2147483647"}},
    {"pages_without_rows",
     [](Fixture& f) {
       f.make_paged();
       f.problem.key.shape[2] = f.problem.value.shape[2] = 0;
     },
     kInvalid,
     {"key.shape[2] is 0", "a page has at least one row"}},
    {"values_in_other_pages",
     [](Fixture& f) {
       f.make_paged();
       f.problem.value.shape[0] = 1;
     },
     kInvalid,
     {"value.shape[0] is 1", "key's number of pages is 2"}},
    {"lengths_of_another_batch",
     [](Fixture& f) {
       f.make_ragged();
       f.add_lengths();
       f.problem.key_lengths.shape[0] = 1;
     },
     kInvalid,
     {"key_lengths.shape[0] is 1", "the batch is 2"}},
    {"prior_rows",
     [](Fixture& f) {
       f.add_prior();
       f.problem.prior_output.shape[2] = 2;
     },
     kInvalid,
     {"prior_output.shape[2] is 2", "query's number of rows is 3"}},
    {"prior_heads",
     [](Fixture& f) {
       f.add_prior();
       f.problem.prior_output.shape[1] = 2;
     },
     kInvalid,
     {"prior_output.shape[1] is 2", "4"}},
    {"prior_value_dim",
     [](Fixture& f) {
       f.add_prior();
       f.problem.prior_output.shape[3] = 4;
     },
     kInvalid,
     {"prior_output.shape[3] is 4", "8"}},
    {"prior_parts",
     [](Fixture& f) {
       f.add_prior();
       f.problem.prior_lse.shape[0] = 1;
     },
     kInvalid,
     {"prior_lse.shape[0] is 1", "prior_output's number of parts is 2"}},
    {"prior_lse_rows",
     [](Fixture& f) {
       f.add_prior();
       f.problem.prior_lse.shape[2] = 2;
     },
     kInvalid,
     {"prior_lse.shape[2] is 2", "3"}},
    {"prior_dtype",
     [](Fixture& f) {
       f.add_prior();
       f.problem.prior_output.dtype = TESSERA_F16;
     },
     kInvalid,
     {"prior_output.dtype is f16", "output's dtype (f32)"}},
    {"prior_lse_dtype",
     [](Fixture& f) {
       f.add_prior();
       f.problem.prior_lse.dtype = TESSERA_F16;
     },
     kInvalid,
     {"prior_lse.dtype is f16", "f32"}},
    {"mask_of_a_dense_batch",
     [](Fixture& f) {
       f.make_ragged();
       f.add_mask();
     },
     kInvalid,
     {"mask.tensor.shape[0] is 2", "1 or 1 (batch)"}},
    {"mask_columns_of_pages",
     [](Fixture& f) {
       f.make_paged();
       f.add_mask();
     },
     kInvalid,
     {"mask.tensor.shape[3] is 5", "1 or 12 (keys)"}},
    {"output_of_another_16_bits",
     [](Fixture& f) {
       f.problem.query.dtype = f.problem.key.dtype = f.problem.value.dtype = TESSERA_F16;
       f.problem.output.dtype = TESSERA_BF16;
     },
     kInvalid,
     {"output.dtype is bf16", "query.dtype is f16", "f32 is accepted"}},
};

const BadInput kContents[] = {
    {"offsets_fall",
     [](Fixture& f) {
       f.make_ragged();
       f.offsets = {0, 3, 2};
     },
     kInvalid,
     {"query_offsets[2] is 2, but query_offsets[1] is 3", "must not fall"}},
    {"offset_negative",
     [](Fixture& f) {
       f.make_ragged();
       f.offsets[0] = -1;
     },
     kInvalid,
     {"query_offsets[0] is -1", "0 to 3 (the number of rows)"}},
    {"offset_past_the_rows",
     [](Fixture& f) {
       f.make_ragged();
       f.offsets[2] = 4;
     },
     kInvalid,
     {"query_offsets[2] is 4", "0 to 3"}},
    {"key_offset_past_the_keys",
     [](Fixture& f) {
       f.make_packed();
       f.key_offsets[1] = 6;
     },
     kInvalid,
     {"key_offsets[1] is 6", "0 to 5 (the number of keys)"}},
    {"key_offsets_fall",
     [](Fixture& f) {
       f.make_packed();
       f.key_offsets = {2, 1, 5};
     },
     kInvalid,
     {"key_offsets[1] is 1, but key_offsets[0] is 2"}},
    {"length_past_the_table",
     [](Fixture& f) {
       f.make_paged();
       f.lengths[1] = 13;
     },
     kInvalid,
     {"key_lengths[1] is 13", "0 to 12", "page_table"}},
    {"page_past_the_pool",
     [](Fixture& f) {
       f.make_paged();
       f.table[3] = 2;
     },
     kInvalid,
     {"page_table[1, 0] is 2", "key 0 of entry 1 needs it", "0 to 1 is accepted"}},
    {"page_missing",
     [](Fixture& f) {
       f.make_paged();
       f.table[1] = -1;
     },
     kInvalid,
     {"page_table[0, 1] is -1", "key 4 of entry 0 needs it"}},
    {"page_missing_in_the_window",
     [](Fixture& f) {
       f.make_ragged();
       f.make_paged();
       f.problem.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
       f.problem.mask.left = 1;
       f.problem.mask.right = 0;
       f.table[0] = -1;  // row 0 of 2 stands on key 3 of 5 and sees key 2
     },
     kInvalid,
     {"page_table[0, 0] is -1", "key 2 of entry 0 needs it"}},
    {"no_pages_at_all",
     [](Fixture& f) {
       f.make_paged();
       f.problem.key.shape[0] = f.problem.value.shape[0] = 0;
     },
     kInvalid,
     {"page_table[0, 0] is 1", "there are no pages"}},
};

INSTANTIATE_TEST_SUITE_P(Together, BadInputTest, testing::ValuesIn(kTogether), test_name);
INSTANTIATE_TEST_SUITE_P(SequenceShapes, BadInputTest, testing::ValuesIn(kSequenceShapes), test_name);
INSTANTIATE_TEST_SUITE_P(Contents, BadInputTest, testing::ValuesIn(kContents), test_name);

// What is spoiled above is good as it is.
TEST(GoodSequences, AreTaken) {
  for (int kind = 0; kind < 6; ++kind) {
    Fixture f;
    if (kind == 1 || kind == 2 || kind == 4) f.make_ragged();
    if (kind == 2 || kind == 3) f.make_packed();
    if (kind == 4 || kind == 5) f.make_paged();
    if (kind == 1) f.add_prior();
    EXPECT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << kind << ": " << tessera_last_error();
    const std::int64_t rows = 4 * 3 * f.problem.query.shape[0];
    for (std::int64_t n = 0; n < rows; ++n) EXPECT_NE(f.lse[static_cast<std::size_t>(n)], kUntouched) << kind;
  }
}

}  // namespace
}  // namespace tessera::bad_input
