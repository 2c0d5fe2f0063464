// What the tests of bad input share: a small valid problem to be spoiled, and the judge of what comes out.
#pragma once

#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace tessera::bad_input {

inline constexpr float kUntouched = -777.0f;

// A small valid problem (batch 2, heads 4/2, queries 3, keys 5, dim 8) with every option's memory at hand.
struct Fixture {
  std::vector<float> q = std::vector<float>(2 * 4 * 3 * 8, 0.5f);
  std::vector<float> k = std::vector<float>(2 * 2 * 5 * 8, 0.25f);
  std::vector<float> v = std::vector<float>(2 * 2 * 5 * 8, 1.0f);
  std::vector<float> o = std::vector<float>(2 * 4 * 3 * 8, kUntouched);
  std::vector<float> lse = std::vector<float>(2 * 4 * 3, kUntouched);
  std::vector<float> mask = std::vector<float>(2 * 4 * 3 * 5, 0.0f);
  std::vector<float> per_head = std::vector<float>(2 * 4, 0.5f);
  std::vector<std::int32_t> lengths = {5, 3};
  std::vector<std::int32_t> offsets = {0, 2, 3}, key_offsets = {0, 5, 5}, table = {1, 0, -1, 1, -1, -1};
  std::vector<float> prior = std::vector<float>(2 * 4 * 3 * 8, 1.0f);
  std::vector<float> prior_lse = std::vector<float>(2 * 4 * 3, 0.5f);
  std::vector<float> new_k = std::vector<float>(2 * 2 * 3 * 8, 0.75f), new_v = new_k;
  std::vector<float> cos = std::vector<float>(6 * 4, 1.0f), sin = std::vector<float>(6 * 4, 0.0f);
  std::vector<std::int64_t> positions = {0, 1, 2, 3, 4, 5};
  std::vector<float> tail = std::vector<float>(2 * 2 * 5 * 3, 0.25f);
  std::vector<char> room;  // the workspace and some more
  tessera_attention problem = TESSERA_ATTENTION_INIT;
  tessera_device device = TESSERA_DEVICE_INIT;

  Fixture() {
    problem.query = tessera_tensor_4d(q.data(), TESSERA_F32, 2, 4, 3, 8);
    problem.key = tessera_tensor_4d(k.data(), TESSERA_F32, 2, 2, 5, 8);
    problem.value = tessera_tensor_4d(v.data(), TESSERA_F32, 2, 2, 5, 8);
    problem.output = tessera_tensor_4d(o.data(), TESSERA_F32, 2, 4, 3, 8);
    problem.lse = {lse.data(), TESSERA_F32, 3, {2, 4, 3, 0}, {12, 3, 1, 0}};
  }
  // The keys' last three dimensions in a tensor of their own, laid out as key is then.
  void add_tail() {
    const std::int64_t* const sizes = problem.key.shape;
    problem.key_tail = tessera_tensor_4d(tail.data(), TESSERA_F32, sizes[0], sizes[1], sizes[2], 3);
    problem.key = tessera_tensor_4d(k.data(), TESSERA_F32, sizes[0], sizes[1], sizes[2], 5);
  }
  // As much as the call takes, aligned, with 4 KB behind it.
  char* add_workspace() {
    device.workspace_bytes = SIZE_MAX;
    tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
    EXPECT_EQ(tessera_plan(&problem, &device, &plan), TESSERA_OK) << tessera_last_error();
    device.workspace_bytes = static_cast<std::size_t>(plan.workspace_bytes);
    room.resize(device.workspace_bytes + 4096 + 256, 1);
    device.workspace = room.data() + (256 - reinterpret_cast<std::uintptr_t>(room.data()) % 256);
    return static_cast<char*>(device.workspace);
  }
  // The same memory as two entries of 2 and 1 rows, one behind the other; keys are dense still.
  void make_ragged() {
    problem.query = tessera_tensor_4d(q.data(), TESSERA_F32, 1, 4, 3, 8);
    problem.output = tessera_tensor_4d(o.data(), TESSERA_F32, 1, 4, 3, 8);
    problem.lse = {lse.data(), TESSERA_F32, 3, {1, 4, 3, 0}, {12, 3, 1, 0}};
    problem.query_offsets = {offsets.data(), TESSERA_I32, 1, {3, 0, 0, 0}, {1, 0, 0, 0}};
  }
  void make_packed() {
    problem.key = tessera_tensor_4d(k.data(), TESSERA_F32, 1, 2, 5, 8);
    problem.value = tessera_tensor_4d(v.data(), TESSERA_F32, 1, 2, 5, 8);
    problem.key_offsets = {key_offsets.data(), TESSERA_I32, 1, {3, 0, 0, 0}, {1, 0, 0, 0}};
  }
  // Two pages of 4 rows, room for 3 of them in each entry.
  void make_paged() {
    problem.key = tessera_tensor_4d(k.data(), TESSERA_F32, 2, 2, 4, 8);
    problem.value = tessera_tensor_4d(v.data(), TESSERA_F32, 2, 2, 4, 8);
    problem.page_table = {table.data(), TESSERA_I32, 2, {2, 3, 0, 0}, {3, 1, 0, 0}};
    add_lengths();
  }
  void add_prior() {
    make_ragged();
    problem.prior_output = tessera_tensor_4d(prior.data(), TESSERA_F32, 2, 4, 3, 8);
    problem.prior_lse = {prior_lse.data(), TESSERA_F32, 3, {2, 4, 3, 0}, {12, 3, 1, 0}};
  }
  // Key and value to be appended to, value so many elements behind key.
  void put_caches_in_room(std::int64_t elements) {
    room.resize(4096 * sizeof(float), 1);
    add_new_rows();
    problem.key.data = reinterpret_cast<float*>(room.data()) + 1024;
    problem.value.data = static_cast<float*>(problem.key.data) + elements;
  }
  // New rows for all of the queries, which stand on the last keys.
  void add_new_rows() {
    const std::int64_t batch = problem.query.shape[0];
    problem.new_key = tessera_tensor_4d(new_k.data(), TESSERA_F32, batch, 2, 3, 8);
    problem.new_value = tessera_tensor_4d(new_v.data(), TESSERA_F32, batch, 2, 3, 8);
    problem.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  }
  // Tables of six positions.
  void add_rope() {
    problem.rope.cos = {cos.data(), TESSERA_F32, 2, {6, 4, 0, 0}, {4, 1, 0, 0}};
    problem.rope.sin = {sin.data(), TESSERA_F32, 2, {6, 4, 0, 0}, {4, 1, 0, 0}};
    problem.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  }
  void add_positions() {
    add_rope();
    const bool ragged = problem.query_offsets.rank > 0;
    if (ragged) problem.positions = {positions.data(), TESSERA_I64, 1, {3, 0, 0, 0}, {1, 0, 0, 0}};
    if (!ragged) problem.positions = {positions.data(), TESSERA_I64, 2, {2, 3, 0, 0}, {3, 1, 0, 0}};
  }
  void add_mask() { problem.mask.tensor = tessera_tensor_4d(mask.data(), TESSERA_F32, 2, 4, 3, 5); }
  void add_lengths() { problem.key_lengths = {lengths.data(), TESSERA_I32, 1, {2, 0, 0, 0}, {1, 0, 0, 0}}; }
  void add_alibi() { problem.alibi_slopes = {per_head.data(), TESSERA_F32, 1, {4, 0, 0, 0}, {1, 0, 0, 0}}; }
  void add_sinks() { problem.sinks = {per_head.data(), TESSERA_F32, 1, {4, 0, 0, 0}, {1, 0, 0, 0}}; }
};

struct BadInput {
  std::string name;
  std::function<void(Fixture&)> spoil;
  tessera_status status;
  std::vector<std::string> words;  // each must stand in the sentence
};

inline void PrintTo(const BadInput& bad, std::ostream* os) { *os << bad.name; }

class BadInputTest : public testing::TestWithParam<BadInput> {};

inline constexpr auto kInvalid = TESSERA_INVALID_ARGUMENT;
inline std::string test_name(const testing::TestParamInfo<BadInput>& param) { return param.param.name; }

}  // namespace tessera::bad_input
