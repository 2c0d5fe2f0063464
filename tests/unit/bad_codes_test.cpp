// Bad scales, precisions and layouts of 8-bit inputs, one by one; bad_input_test.cpp has the judge.
#include <cstdint>
#include <string>

#include "tests/unit/bad_input.hpp"

namespace tessera::bad_input {
namespace {

// The fixture's memory as codes: batch 2, heads 4/2, queries 3, keys 5, dim 8.
void make_codes(Fixture& f, tessera_dtype dtype = TESSERA_F8E4M3) {
  f.problem.query.dtype = f.problem.key.dtype = f.problem.value.dtype = dtype;
}

// Keys and values alone.
void make_cache(Fixture& f, tessera_dtype dtype = TESSERA_I8) {
  f.problem.key.dtype = f.problem.value.dtype = dtype;
}

tessera_tensor scales(Fixture& f, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return tessera_tensor_4d(f.prior.data(), TESSERA_F32, a, b, c, d);
}

const BadInput kBesideWide[] = {
    {"query_scales_beside_f32",
     [](Fixture& f) { f.problem.query_scales = scales(f, 1, 1, 1, 1); },
     kInvalid,
     {"query_scales is set", "query.dtype is f32", "f8e4m3 and f8e5m2"}},
    {"key_scales_beside_f32",
     [](Fixture& f) { f.problem.key_scales = scales(f, 1, 1, 1, 1); },
     kInvalid,
     {"key_scales is set", "query.dtype is f32", "key.dtype is f32", "f8e4m3, f8e5m2 and i8"}},
    {"value_scales_beside_f32",
     [](Fixture& f) { f.problem.value_scales = scales(f, 1, 1, 1, 1); },
     kInvalid,
     {"value_scales is set", "query.dtype is f32"}},
    {"scale_rows_beside_f32",
     [](Fixture& f) { f.problem.scale_rows = 64; },
     kInvalid,
     {"scale_rows is 64", "query.dtype is f32"}},
    {"fast_beside_f32",
     [](Fixture& f) { f.problem.precision = TESSERA_PRECISION_FAST; },
     kInvalid,
     {"precision is 1", "query.dtype is f32"}},
    {"unknown_precision_beside_f32",
     [](Fixture& f) { f.problem.precision = 7; },
     kInvalid,
     {"precision is 7", "query.dtype is f32"}},
    {"transposed_f32",
     [](Fixture& f) {
       f.problem.value.strides[2] = 1;
       f.problem.value.strides[3] = 5;
     },
     kInvalid,
     {"value.strides[3] is 5", "must be contiguous"}},
};

const BadInput kFields[] = {
    {"codes_mixed",
     [](Fixture& f) {
       make_codes(f);
       f.problem.value.dtype = TESSERA_F8E5M2;
     },
     kInvalid,
     {"value.dtype is f8e5m2", "key.dtype is f8e4m3"}},
    {"codes_beside_wide_values",
     [](Fixture& f) {
       make_codes(f);
       f.problem.value.dtype = TESSERA_F32;
     },
     kInvalid,
     {"value.dtype is f32", "key.dtype is f8e4m3"}},
    {"output_of_codes",
     [](Fixture& f) {
       make_codes(f);
       f.problem.output.dtype = TESSERA_F8E4M3;
     },
     kInvalid,
     {"output.dtype is f8e4m3", "accepted: f32, f16, bf16"}},
    {"precision",
     [](Fixture& f) {
       make_codes(f);
       f.problem.precision = 2;
     },
     kInvalid,
     {"precision is 2", "0 (accurate), 1 (fast)"}},
    {"scale_rows",
     [](Fixture& f) {
       make_codes(f);
       f.problem.scale_rows = 32;
     },
     kInvalid,
     {"scale_rows is 32", "0 (no blocks), 64, 128"}},
    {"scales_rank",
     [](Fixture& f) {
       make_codes(f);
       f.problem.query_scales = {f.prior.data(), TESSERA_F32, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
     },
     kInvalid,
     {"query_scales.rank is 1", "rank 4"}},
    {"scales_dtype",
     [](Fixture& f) {
       make_codes(f, TESSERA_F8E5M2);
       f.problem.key_scales = scales(f, 1, 1, 1, 1);
       f.problem.key_scales.dtype = TESSERA_F16;
     },
     kInvalid,
     {"key_scales.dtype is f16", "accepted: f32"}},
    {"scales_null",
     [](Fixture& f) {
       make_codes(f);
       f.problem.key_scales = scales(f, 1, 1, 1, 1);
       f.problem.key_scales.data = nullptr;
     },
     kInvalid,
     {"key_scales.data is null"}},
    {"scales_under_the_output",
     [](Fixture& f) {
       make_codes(f);
       f.problem.value_scales = scales(f, 1, 1, 1, 1);
       f.problem.value_scales.data = f.o.data();
     },
     kInvalid,
     {"output overlaps value_scales"}},
    {"value_neither_way_contiguous",
     [](Fixture& f) {
       make_codes(f);
       f.problem.value.strides[2] = 16;
       f.problem.value.strides[3] = 2;
     },
     kInvalid,
     {"value.strides[2] is 16", "value.strides[3] is 2", "one of the last two dimensions"}},
    {"value_columns_in_one_place",
     [](Fixture& f) {
       make_codes(f);
       f.problem.value.strides[2] = 1;
       f.problem.value.strides[3] = 0;
     },
     kInvalid,
     {"value.strides[3] is 0"}},
    {"key_transposed",
     [](Fixture& f) {
       make_codes(f);
       f.problem.key.strides[2] = 1;
       f.problem.key.strides[3] = 5;
     },
     kInvalid,
     {"key.strides[3] is 5", "must be contiguous"}},
};

const BadInput kCaches[] = {
    {"i8_query",
     [](Fixture& f) { make_codes(f, TESSERA_I8); },
     kInvalid,
     {"query.dtype is i8", "accepted: f32, f16, bf16, f8e4m3, f8e5m2"}},
    {"i8_beside_e4m3",
     [](Fixture& f) {
       make_codes(f);
       make_cache(f);
     },
     kInvalid,
     {"key.dtype is i8", "query.dtype is f8e4m3", "beside a query of f32, f16 or bf16"}},
    {"e5m2_beside_e4m3",
     [](Fixture& f) {
       make_codes(f);
       make_cache(f, TESSERA_F8E5M2);
     },
     kInvalid,
     {"key.dtype is f8e5m2", "query.dtype is f8e4m3"}},
    {"two_kinds_of_cache",
     [](Fixture& f) {
       make_cache(f);
       f.problem.value.dtype = TESSERA_F8E4M3;
     },
     kInvalid,
     {"value.dtype is f8e4m3", "key.dtype is i8", "share one dtype"}},
    {"keys_alone",
     [](Fixture& f) { f.problem.key.dtype = TESSERA_I8; },
     kInvalid,
     {"value.dtype is f32", "key.dtype is i8"}},
    {"i8_output",
     [](Fixture& f) {
       make_cache(f);
       f.problem.output.dtype = TESSERA_I8;
     },
     kInvalid,
     {"output.dtype is i8", "accepted: f32, f16, bf16"}},
    {"output_narrower_than_the_query",
     [](Fixture& f) {
       make_cache(f);
       f.problem.output.dtype = TESSERA_BF16;
     },
     kInvalid,
     {"output.dtype is bf16", "query.dtype is f32"}},
    {"i8_mask",
     [](Fixture& f) { f.problem.mask.tensor = tessera_tensor_4d(f.k.data(), TESSERA_I8, 1, 1, 3, 5); },
     kInvalid,
     {"mask.tensor.dtype is i8"}},
    {"query_scales_beside_a_cache",
     [](Fixture& f) {
       make_cache(f);
       f.problem.query_scales = scales(f, 1, 1, 1, 1);
     },
     kInvalid,
     {"query_scales is set", "query.dtype is f32"}},
    {"fast_beside_a_cache",
     [](Fixture& f) {
       make_cache(f);
       f.problem.precision = TESSERA_PRECISION_FAST;
     },
     kInvalid,
     {"precision is 1", "query.dtype is f32"}},
    {"scale_rows_of_a_cache",
     [](Fixture& f) {
       make_cache(f);
       f.problem.scale_rows = 16;
     },
     kInvalid,
     {"scale_rows is 16", "0 (no blocks), 64, 128"}},
};

const BadInput kShapes[] = {
    {"query_scales_batch",
     [](Fixture& f) {
       make_codes(f);
       f.problem.query_scales = scales(f, 3, 1, 1, 1);
     },
     kInvalid,
     {"query_scales.shape[0] is 3", "1 or 2 (query.shape[0])"}},
    {"key_scales_heads",
     [](Fixture& f) {
       make_codes(f);
       f.problem.key_scales = scales(f, 2, 4, 1, 1);  // as many as query has
     },
     kInvalid,
     {"key_scales.shape[1] is 4", "1 or 2 (key.shape[1])"}},
    {"blocks_without_scale_rows",
     [](Fixture& f) {
       make_codes(f);
       f.problem.key_scales = scales(f, 1, 1, 2, 1);
     },
     kInvalid,
     {"key_scales.shape[2] is 2; 1 (scale_rows is 0"}},
    {"too_many_blocks",
     [](Fixture& f) {
       make_codes(f);
       f.problem.scale_rows = 64;
       f.problem.value_scales = scales(f, 1, 1, 5, 1);
     },
     kInvalid,
     {"value_scales.shape[2] is 5; 1 (blocks of 64 rows)"}},
    {"query_channels",
     [](Fixture& f) {
       make_codes(f);
       f.problem.query_scales = scales(f, 1, 1, 1, 8);
     },
     kInvalid,
     {"query_scales.shape[3] is 8", "only value_scales may have channels"}},
    {"value_channels",
     [](Fixture& f) {
       make_codes(f);
       f.problem.value_scales = scales(f, 1, 1, 1, 4);
     },
     kInvalid,
     {"value_scales.shape[3] is 4", "1 or 8 (value.shape[3])"}},
    {"blocks_and_channels",
     [](Fixture& f) {
       make_codes(f);
       f.problem.key = tessera_tensor_4d(f.k.data(), TESSERA_F8E4M3, 2, 2, 70, 8);
       f.problem.value = tessera_tensor_4d(f.v.data(), TESSERA_F8E4M3, 2, 2, 70, 8);
       f.problem.scale_rows = 64;
       f.problem.value_scales = scales(f, 1, 1, 2, 8);
     },
     kInvalid,
     {"value_scales.shape[2] is 2", "shape[3] is 8", "not both"}},
    {"scales_of_pages",
     [](Fixture& f) {
       f.make_paged();
       make_codes(f);
       f.problem.key_scales = scales(f, 3, 1, 1, 1);
     },
     kInvalid,
     {"key_scales.shape[0] is 3", "1 or 2 (key.shape[0])"}},
    {"scales_of_ragged_rows",
     [](Fixture& f) {
       f.make_ragged();
       make_codes(f);
       f.problem.query_scales = scales(f, 2, 1, 1, 1);
     },
     kInvalid,
     {"query_scales.shape[0] is 2; 1 (query.shape[0])"}},
};

INSTANTIATE_TEST_SUITE_P(CodesBesideWide, BadInputTest, testing::ValuesIn(kBesideWide), test_name);
INSTANTIATE_TEST_SUITE_P(CodeFields, BadInputTest, testing::ValuesIn(kFields), test_name);
INSTANTIATE_TEST_SUITE_P(Caches, BadInputTest, testing::ValuesIn(kCaches), test_name);
INSTANTIATE_TEST_SUITE_P(CodeScales, BadInputTest, testing::ValuesIn(kShapes), test_name);

// What is refused above is near to these, which are not.
TEST(Codes, AreAccepted) {
  for (const tessera_dtype dtype : {TESSERA_F8E4M3, TESSERA_F8E5M2}) {
    for (const tessera_dtype output : {TESSERA_F32, TESSERA_F16, TESSERA_BF16}) {
      Fixture f;
      make_codes(f, dtype);
      f.problem.output.dtype = output;
      f.problem.query_scales = scales(f, 2, 4, 1, 1);
      f.problem.key_scales = scales(f, 2, 1, 1, 1);
      f.problem.value_scales = scales(f, 1, 2, 1, 8);
      f.problem.scale_rows = 128;
      f.problem.precision = TESSERA_PRECISION_FAST;
      EXPECT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << tessera_last_error();
    }
  }
}

TEST(Codes, CachesAreAcceptedBesideAWiderQuery) {
  for (const tessera_dtype cache : {TESSERA_F8E4M3, TESSERA_F8E5M2, TESSERA_I8}) {
    for (const tessera_dtype query : {TESSERA_F32, TESSERA_F16, TESSERA_BF16}) {
      for (const tessera_dtype output : {query, static_cast<tessera_dtype>(TESSERA_F32)}) {
        Fixture f;
        make_cache(f, cache);
        f.problem.query.dtype = query;
        f.problem.output.dtype = output;
        f.problem.value.strides[2] = 1;
        f.problem.value.strides[3] = 5;
        f.problem.key_scales = scales(f, 2, 1, 1, 1);
        f.problem.value_scales = scales(f, 1, 2, 1, 8);
        f.problem.scale_rows = 128;
        EXPECT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << tessera_last_error();
      }
    }
  }
}

TEST(Codes, ValuesMayBeTransposed) {
  Fixture f;
  make_codes(f);
  f.problem.value.strides[2] = 1;
  f.problem.value.strides[3] = 5;
  EXPECT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << tessera_last_error();
}

// A program of the version without scales passes a struct that ends before them; what lies behind it in its
// memory is none of ours.
TEST(Codes, AnOlderStructEndsBeforeTheScales) {
  Fixture f;
  f.problem.query_scales = scales(f, 9, 9, 9, 9);
  f.problem.scale_rows = 12345;
  f.problem.precision = -1;
  f.problem.struct_size = offsetof(tessera_attention, query_scales);
  EXPECT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << tessera_last_error();
  f.problem.struct_size = sizeof(tessera_attention);
  EXPECT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tessera::bad_input
