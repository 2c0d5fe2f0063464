// Bad tails of keys, one by one, and good ones; bad_input_test.cpp has the judge.
#include <cstdint>

#include "tests/unit/bad_input.hpp"

namespace tessera::bad_input {
namespace {

const BadInput kTails[] = {
    {"tail_rank",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key_tail.rank = 3;
     },
     kInvalid,
     {"key_tail.rank is 3", "[batch, kv_heads, keys, tail]"}},
    {"tail_null",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key_tail.data = nullptr;
     },
     kInvalid,
     {"key_tail.data", "null"}},
    {"tail_scattered",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key_tail.strides[3] = 2;
     },
     kInvalid,
     {"key_tail.strides[3] is 2", "must be contiguous"}},
    {"tail_of_codes",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key_tail.dtype = TESSERA_F8E4M3;
     },
     kInvalid,
     {"key_tail.dtype is f8e4m3", "accepted: f32, f16, bf16"}},
    {"tail_of_another_dtype",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key_tail.dtype = TESSERA_BF16;
     },
     kInvalid,
     {"key_tail.dtype is bf16, but query.dtype is f32", "the tail has query's dtype"}},
    {"tail_beside_a_query_of_codes",
     [](Fixture& f) {
       f.add_tail();
       f.problem.query.dtype = f.problem.key.dtype = f.problem.value.dtype = TESSERA_F8E4M3;
       f.problem.output.dtype = f.problem.key_tail.dtype = TESSERA_F16;
     },
     kInvalid,
     {"key_tail is set, but query.dtype is f8e4m3: f32, f16 and bf16 are accepted with it"}},
    {"tail_too_short",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key_tail.shape[3] = 2;
     },
     kInvalid,
     {"key.shape[3] is 5 and key_tail.shape[3] is 2, but query's head dimension is 8"}},
    {"tail_of_a_whole_key",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key.shape[3] = 8;
     },
     kInvalid,
     {"key.shape[3] is 8 and key_tail.shape[3] is 3, but query's head dimension is 8"}},
    {"tail_without_a_key",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key.shape[3] = 0;
     },
     kInvalid,
     {"key.shape[3] is 0; 1 or more is accepted beside key_tail"}},
    {"tail_without_columns",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key_tail.shape[3] = 0;
     },
     kInvalid,
     {"key_tail.shape[3] is 0; 1 or more is accepted beside key"}},
    {"no_tail_and_a_short_key",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key_tail = TESSERA_TENSOR_NONE;
     },
     kInvalid,
     {"key.shape[3] is 5, but query's head dimension is 8"}},
    {"tail_batch",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key_tail.shape[0] = 1;
     },
     kInvalid,
     {"key_tail.shape[0] is 1, but key's first size is 2"}},
    {"tail_heads",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key_tail.shape[1] = 1;
     },
     kInvalid,
     {"key_tail.shape[1] is 1, but key's number of heads is 2"}},
    {"tail_rows",
     [](Fixture& f) {
       f.add_tail();
       f.problem.key_tail.shape[2] = 4;
     },
     kInvalid,
     {"key_tail.shape[2] is 4, but key's number of rows is 5"}},
    {"tail_pages",
     [](Fixture& f) {
       f.make_paged();
       f.add_tail();
       f.problem.key_tail.shape[0] = 1;
     },
     kInvalid,
     {"key_tail.shape[0] is 1, but key's first size is 2"}},
    {"output_in_tail",
     [](Fixture& f) {
       f.add_tail();
       f.problem.output.data = f.tail.data();
     },
     kInvalid,
     {"output overlaps key_tail in memory"}},
    {"new_key_in_tail",
     [](Fixture& f) {
       f.add_tail();
       f.add_new_rows();
       f.problem.new_key.data = f.tail.data() + 1;
     },
     kInvalid,
     {"overlaps", "new_key", "key_tail", "results need memory of their own"}},
    {"query_in_a_tail_that_is_written",
     [](Fixture& f) {
       f.add_tail();
       f.add_new_rows();
       f.problem.query.data = f.tail.data();
     },
     kInvalid,
     {"overlaps", "query", "key_tail", "results need memory of their own"}},
    {"tail_that_is_written_twice",
     [](Fixture& f) {
       f.add_tail();
       f.add_new_rows();
       f.problem.key_tail.strides[2] = 2;
     },
     kInvalid,
     {"key_tail.strides[2] is 2, so elements of key_tail overlap each other"}},
    {"new_key_without_its_tail",
     [](Fixture& f) {
       f.add_tail();
       f.add_new_rows();
       f.problem.new_key.shape[3] = 5;
     },
     kInvalid,
     {"new_key.shape[3] is 5, but the head dimension of key and key_tail together is 8"}},
    {"values_in_key_and_tail",
     [](Fixture& f) {
       f.add_tail();
       f.add_new_rows();
       f.problem.new_value = TESSERA_TENSOR_NONE;
       f.problem.value.data = f.problem.key.data;
       for (int d = 0; d < 3; ++d) f.problem.value.strides[d] = f.problem.key.strides[d];
     },
     kInvalid,
     {"value.shape[3] is 8, but key.shape[3] is 5", "row by row"}},
    {"workspace_in_tail",
     [](Fixture& f) {
       f.add_tail();
       f.add_workspace();
       f.problem.key_tail.data = f.device.workspace;
     },
     kInvalid,
     {"device.workspace overlaps key_tail"}},
    {"rope_past_the_tail",
     [](Fixture& f) {
       f.add_tail();
       f.add_rope();
       f.problem.rope.first = 1;
     },
     kInvalid,
     {"rope.first is 1", "do not fit into a head dimension of 8"}},
};

INSTANTIATE_TEST_SUITE_P(Tails, BadInputTest, testing::ValuesIn(kTails), test_name);

// What is spoiled above is good as it is. Every key scores 0.25 * 0.5 * 8, and a new one three times that.
TEST(GoodTail, IsTaken) {
  for (int kind = 0; kind < 32; ++kind) {
    Fixture f;
    const bool ragged = kind & 1, paged = kind & 2, packed = kind & 4, rope = kind & 8, stores = kind & 16;
    if ((paged && packed) || (packed && stores)) continue;
    if (ragged) f.make_ragged();
    if (paged) f.make_paged();
    if (packed) f.make_packed();
    // key_offsets and lengths go with a batch of 2, as query has it.
    f.add_tail();
    if (rope) f.add_rope();
    if (stores) f.add_new_rows();
    ASSERT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << kind << ": " << tessera_last_error();
    if (!stores) continue;
    // Key 3 of entry 0, in page 1 or not.
    EXPECT_EQ(f.k[(paged ? 2 * 4 * 5 : 0) + 3 * 5 + 4], paged ? 0.75f : f.k[3 * 5 + 4]) << kind;
  }
}

// A key of 8 columns in two tensors is that key: the same bits on one kernel, since sums run over the columns
// in the same order.
TEST(GoodTail, IsTheKeyItWasCutFrom) {
  Fixture whole, cut;
  for (std::size_t n = 0; n < whole.k.size(); ++n) whole.k[n] = static_cast<float>(n % 13) / 8 - 0.5f;
  for (std::size_t n = 0; n < whole.q.size(); ++n) cut.q[n] = whole.q[n] = static_cast<float>(n % 7) / 4;
  cut.add_tail();
  for (std::size_t row = 0; row < whole.k.size() / 8; ++row)
    for (std::size_t d = 0; d < 8; ++d)
      (d < 5 ? cut.k[row * 5 + d] : cut.tail[row * 3 + d - 5]) = whole.k[row * 8 + d];
  for (std::size_t n = 0; n < whole.v.size(); ++n) cut.v[n] = whole.v[n] = static_cast<float>(n % 5);
  whole.device.kernel = cut.device.kernel = "cpu_scalar";
  ASSERT_EQ(tessera_attend(&whole.problem, &whole.device), TESSERA_OK) << tessera_last_error();
  ASSERT_EQ(tessera_attend(&cut.problem, &cut.device), TESSERA_OK) << tessera_last_error();
  EXPECT_EQ(cut.o, whole.o);
  EXPECT_EQ(cut.lse, whole.lse);
}

// Key and tail may be parts of one pool, byte beside byte: a token of 8 codes and 2 halves.
TEST(GoodTail, KeyAndTailOfOnePool) {
  Fixture f;
  constexpr std::int64_t kToken = 8 + 2 * 2;
  std::vector<std::uint16_t> pool(2 * 5 * kToken / 2, 0x3838);  // e4m3: 1
  std::vector<std::uint16_t> q(2 * 4 * 3 * 10, 0x3c00), new_k(2 * 3 * 10, 0x4000);
  f.problem.query = tessera_tensor_4d(q.data(), TESSERA_F16, 2, 4, 3, 10);
  f.problem.key = tessera_tensor_4d(pool.data(), TESSERA_F8E4M3, 2, 1, 5, 8);
  f.problem.key_tail = tessera_tensor_4d(pool.data() + 4, TESSERA_F16, 2, 1, 5, 2);
  for (int d = 0, rows = 5; d < 3; ++d) {
    f.problem.key.strides[d] = d == 2 ? kToken : rows * kToken;
    f.problem.key_tail.strides[d] = f.problem.key.strides[d] / 2;
  }
  f.problem.value = f.problem.key;
  f.problem.output.dtype = TESSERA_F32;
  f.problem.new_key = tessera_tensor_4d(new_k.data(), TESSERA_F16, 2, 1, 3, 10);
  f.problem.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  ASSERT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << tessera_last_error();
  for (std::size_t n = 0; n < pool.size(); ++n) {
    const std::size_t token = n / 6, word = n % 6;
    EXPECT_EQ(pool[n], token % 5 < 2 ? 0x3838 : word < 4 ? 0x4040 : 0x4000) << n;
  }
}

// A refusal of what no kernel takes names the field.
TEST(GoodTail, ExplainSaysHowManyColumnsItHas) {
  Fixture f;
  f.add_tail();
  char text[2048];
  tessera_explain(&f.problem, &f.device, text, sizeof text);
  EXPECT_NE(std::string(text).find("dim 8 (3 of them in key_tail)"), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera::bad_input
