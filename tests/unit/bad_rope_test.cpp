// Bad rope and positions, one by one; bad_input_test.cpp has the judge.
#include <cstdint>

#include "tests/unit/bad_input.hpp"

namespace tessera::bad_input {
namespace {

const BadInput kRope[] = {
    {"cos_alone",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.sin = TESSERA_TENSOR_NONE;
     },
     kInvalid,
     {"rope.cos is set and rope.sin is not"}},
    {"sin_alone",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.cos = TESSERA_TENSOR_NONE;
     },
     kInvalid,
     {"rope.sin is set and rope.cos is not"}},
    {"first_without_tables",
     [](Fixture& f) { f.problem.rope.first = 2; },
     kInvalid,
     {"rope.first is 2, but there is no rope.cos"}},
    {"interleaved_without_tables",
     [](Fixture& f) { f.problem.rope.interleaved = 1; },
     kInvalid,
     {"rope.interleaved is 1, but there is no rope.cos"}},
    {"rope_of_codes",
     [](Fixture& f) {
       f.add_rope();
       f.problem.query.dtype = f.problem.key.dtype = f.problem.value.dtype = TESSERA_F8E4M3;
     },
     kInvalid,
     {"rope is set, but query.dtype is f8e4m3", "f32, f16 and bf16"}},
    {"cos_dtype",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.cos.dtype = TESSERA_F16;
     },
     kInvalid,
     {"rope.cos.dtype is f16", "f32"}},
    {"cos_rank",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.cos.rank = 1;
     },
     kInvalid,
     {"rope.cos.rank is 1", "[positions, n]"}},
    {"sin_scattered",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.sin.strides[1] = 2;
     },
     kInvalid,
     {"rope.sin.strides[1] is 2", "must be contiguous"}},
    {"sin_positions",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.sin.shape[0] = 5;
     },
     kInvalid,
     {"rope.sin.shape[0] is 5", "rope.cos's number of positions is 6"}},
    {"sin_pairs",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.sin.shape[1] = 3;
     },
     kInvalid,
     {"rope.sin.shape[1] is 3", "rope.cos's number of pairs is 4"}},
    {"no_positions",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.cos.shape[0] = f.problem.rope.sin.shape[0] = 0;
     },
     kInvalid,
     {"rope.cos.shape[0] is 0; at least one position is needed"}},
    {"first_negative",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.first = -1;
     },
     kInvalid,
     {"rope.first is -1; 0 or more is accepted"}},
    {"too_many_pairs",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.first = 1;
     },
     kInvalid,
     {"rope.cos.shape[1] is 4 and rope.first is 1", "do not fit into a head dimension of 8"}},
    {"first_past_the_row",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.first = 8;
     },
     kInvalid,
     {"rope.first is 8", "do not fit into a head dimension of 8"}},
    {"first_far_past_the_row",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.first = INT32_MAX;
     },
     kInvalid,
     {"rope.first is 2147483647", "do not fit into a head dimension of 8"}},
    {"no_pairs",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.cos.shape[1] = f.problem.rope.sin.shape[1] = 0;
     },
     kInvalid,
     {"rope.cos.shape[1] is 0", "do not fit into a head dimension of 8"}},
    {"rope_without_a_place",
     [](Fixture& f) {
       f.add_rope();
       f.problem.mask.align = TESSERA_ALIGN_NONE;
     },
     kInvalid,
     {"rope needs mask.align = bottom-right (2) or positions"}},
    {"rope_top_left",
     [](Fixture& f) {
       f.add_rope();
       f.problem.mask.align = TESSERA_ALIGN_TOP_LEFT;
     },
     kInvalid,
     {"rope needs mask.align = bottom-right (2) or positions"}},
    {"too_many_rows_to_turn",
     [](Fixture& f) {
       f.add_rope();
       f.problem.lse = TESSERA_TENSOR_NONE;
       f.problem.query.shape[2] = f.problem.output.shape[2] = std::int64_t{1} << 55;
       f.problem.query.strides[2] = f.problem.output.strides[2] = 0;
     },
     kInvalid,
     {"query has 36028797018963968 rows of 4 heads in each of 2 batch entries: too many to be turned"}},
    {"output_in_cos",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.cos.data = f.o.data();
     },
     kInvalid,
     {"output overlaps rope.cos"}},
    {"cos_in_key",
     [](Fixture& f) {
       f.add_new_rows();
       f.add_rope();
       f.problem.rope.cos.data = f.k.data();
     },
     kInvalid,
     {"key overlaps rope.cos"}},
};

const BadInput kPositions[] = {
    {"positions_without_rope",
     [](Fixture& f) {
       f.add_positions();
       f.problem.rope = {};
     },
     kInvalid,
     {"positions is set, but there is no rope"}},
    {"positions_with_alibi",
     [](Fixture& f) {
       f.add_positions();
       f.add_alibi();
     },
     kInvalid,
     {"positions and alibi_slopes are both set"}},
    {"positions_rank_of_a_dense_batch",
     [](Fixture& f) {
       f.add_positions();
       f.problem.positions.rank = 1;
     },
     kInvalid,
     {"positions.rank is 1; 2 is accepted: [batch, queries]"}},
    {"positions_rank_of_ragged_rows",
     [](Fixture& f) {
       f.make_ragged();
       f.add_positions();
       f.problem.positions = {f.positions.data(), TESSERA_I64, 2, {1, 3, 0, 0}, {3, 1, 0, 0}};
     },
     kInvalid,
     {"positions.rank is 2; 1 is accepted: [rows], with query_offsets"}},
    {"positions_dtype",
     [](Fixture& f) {
       f.add_positions();
       f.problem.positions.dtype = TESSERA_F32;
     },
     kInvalid,
     {"positions.dtype is f32", "i32, i64"}},
    {"positions_batch",
     [](Fixture& f) {
       f.add_positions();
       f.problem.positions.shape[0] = 1;
     },
     kInvalid,
     {"positions.shape[0] is 1", "query's batch is 2"}},
    {"positions_rows",
     [](Fixture& f) {
       f.add_positions();
       f.problem.positions.shape[1] = 2;
     },
     kInvalid,
     {"positions.shape[1] is 2", "query's number of rows is 3"}},
    {"positions_of_ragged_rows",
     [](Fixture& f) {
       f.make_ragged();
       f.add_positions();
       f.problem.positions.shape[0] = 2;
     },
     kInvalid,
     {"positions.shape[0] is 2", "query's number of rows is 3"}},
    {"position_past_the_tables",
     [](Fixture& f) {
       f.add_positions();
       f.positions[4] = 6;
     },
     kInvalid,
     {"positions[1, 1] is 6; 0 to 5 (the positions of rope.cos) is accepted"}},
    {"position_negative",
     [](Fixture& f) {
       f.add_positions();
       f.positions[0] = -1;
     },
     kInvalid,
     {"positions[0, 0] is -1; 0 to 5"}},
    {"position_of_a_ragged_row",
     [](Fixture& f) {
       f.make_ragged();
       f.add_positions();
       f.positions[2] = 77;
     },
     kInvalid,
     {"positions[2] is 77; 0 to 5"}},
    {"more_keys_than_positions",
     [](Fixture& f) {
       f.add_rope();
       f.problem.rope.cos.shape[0] = f.problem.rope.sin.shape[0] = 4;
     },
     kInvalid,
     {"the position of the last row of entry 0 is 4; 0 to 3 (the positions of rope.cos) is accepted"}},
    {"more_keys_than_positions_in_one_entry",
     [](Fixture& f) {
       f.add_rope();
       f.add_lengths();
       f.lengths = {3, 5};
       f.problem.rope.cos.shape[0] = f.problem.rope.sin.shape[0] = 4;
     },
     kInvalid,
     {"the position of the last row of entry 1 is 4"}},
};

INSTANTIATE_TEST_SUITE_P(Rope, BadInputTest, testing::ValuesIn(kRope), test_name);
INSTANTIATE_TEST_SUITE_P(Positions, BadInputTest, testing::ValuesIn(kPositions), test_name);

}  // namespace
}  // namespace tessera::bad_input
