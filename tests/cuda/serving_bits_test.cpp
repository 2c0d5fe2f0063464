// Ragged and paged batches on a GPU, bit for bit: an entry gives what it gives as the only one of its batch,
// in any company and from pages of any size, and nothing that no row sees is read. That those bits are right,
// list_test says.
#include <cmath>
#include <cstring>
#include <numeric>

#include "on_device.hpp"
#include "tests/serving_means.hpp"

namespace tessera::testing_cuda {
namespace {

using namespace testing_serving;

// Few rows and many, up to the kernels' tiles and beyond; lengths around pages and pieces, and the least.
std::vector<Sequence> sequences(const Shape& s) {
  constexpr std::int64_t kRowsKeys[][2] = {{1, 300}, {0, 50},  {5, 5},  {70, 130}, {1, 0},   {1, 1},
                                           {3, 2},   {20, 7},  {1, 16}, {1, 785},  {2, 129}, {9, 64},
                                           {65, 65}, {1, 900}, {0, 0},  {130, 63}, {64, 321}};
  std::vector<Sequence> all;
  unsigned seed = 1;
  for (const auto& [rows, keys] : kRowsKeys) all.emplace_back(s, rows, keys, seed++);
  return all;
}

tessera_mask mask_of(std::int64_t left) {
  return {TESSERA_ALIGN_BOTTOM_RIGHT, 0, left, 0, TESSERA_TENSOR_NONE};
}

struct Named {
  const char* name;
  Shape shape;
};
void PrintTo(const Named& n, std::ostream* out) { *out << n.name; }

class ServingBits : public testing::TestWithParam<Named> {
 protected:
  void SetUp() override { SKIP_WITHOUT_GPU(); }

  const Shape& shape() const { return GetParam().shape; }
  Bits alone(std::vector<Sequence>& batch) const {
    Bits bits;
    for (std::size_t n = 0; n < batch.size(); ++n)
      bits.push_back(Together(shape(), batch, {{n}}).run(gpu_device())[0]);
    return bits;
  }
  // Entries of 64 queries and more are computed by other kernels where pages are no multiple of 16 rows: by
  // the same ones for all of those sizes.
  Bits with_small_pages(Bits bits, std::vector<Sequence>& batch) const {
    constexpr std::int64_t kPrompt = 64;
    for (std::size_t n = 0; n < batch.size(); ++n)
      if (batch[n].rows >= kPrompt) bits[n] = Together(shape(), batch, {{n}, 8}).run(gpu_device())[0];
    return bits;
  }
  void expect_same(const Bits& one_by_one, std::vector<Sequence>& batch, const Company& company) const {
    const Bits together = Together(shape(), batch, company).run(gpu_device());
    for (std::size_t i = 0; i < company.order.size(); ++i) {
      const std::size_t n = company.order[i];
      EXPECT_TRUE(one_by_one[n] == together[i])
          << "pages of " << company.page << ": entry " << n << " (" << batch[n].rows << " rows, "
          << batch[n].keys << " keys) at place " << i;
    }
  }
};

TEST_P(ServingBits, AreThoseOfTheEntryAlone) {
  std::vector<Sequence> batch = sequences(shape());
  const Bits expected = alone(batch);
  std::vector<std::size_t> order(batch.size());
  std::iota(order.begin(), order.end(), 0);
  for (const std::int64_t page : {0, 16, 48, 64, 784}) expect_same(expected, batch, {order, page});
  expect_same(with_small_pages(expected, batch), batch, {order, 1});
  expect_same(with_small_pages(expected, batch), batch, {order, 20});
  std::reverse(order.begin(), order.end());
  expect_same(expected, batch, {order, 16, 3, 5, 0});  // rows of no entry, as in a bucket
  expect_same(expected, batch, {order, 0, 0, 70});
  expect_same(expected, batch, {{13}, 64, 0, 0, 2000});  // room for far more keys
  expect_same(expected, batch, {{15, 0, 15, 9}, 16, 0, 0, 1});
}

TEST_P(ServingBits, RowsOfNoEntryAreCleared) {
  std::vector<Sequence> batch = sequences(shape());
  for (const Company& company : {Company{{2, 4}, 16, 3, 5, 0}, Company{{}, 0, 4, 0, 0},
                                 Company{{1}, 16, 0, 2, 0}, Company{{15}, 0, 66, 66, 0}}) {
    Together together(shape(), batch, company);
    together.run(gpu_device());
    std::int64_t owned = 0;
    for (const std::size_t n : company.order) owned += batch[n].rows;
    const std::vector<unsigned char> zeros(together.output.row_bytes(), 0);
    for (std::int64_t h = 0; h < shape().heads; ++h) {
      for (std::int64_t r = 0; r < together.all_rows(); ++r) {
        if (r >= company.rows_before && r < company.rows_before + owned) continue;
        EXPECT_EQ(std::memcmp(together.output.row(0, h, r), zeros.data(), zeros.size()), 0) << r;
        float lse = 0;
        std::memcpy(&lse, together.lse.row(0, h, r), sizeof lse);
        EXPECT_EQ(lse, -INFINITY) << r;
      }
    }
  }
}

struct Lengths {
  std::int64_t rows, keys;
};

// Entries whose pieces make several chains, for up to 8 packed rows and for more: alone, where every piece
// has a block of its own, shared by a few blocks, and so many that blocks have whole ones.
void expect_chains_give_the_bits_of_the_entry_alone(const Shape& s, const Lengths (&lengths)[4]) {
  std::vector<Sequence> batch;
  for (unsigned n = 0; n < 4; ++n) batch.emplace_back(s, lengths[n].rows, lengths[n].keys, n + 1);
  Bits expected;
  for (std::size_t n = 0; n < batch.size(); ++n)
    expected.push_back(Together(s, batch, {{n}}).run(gpu_device())[0]);
  const auto expect_same = [&](const Company& company) {
    Together together(s, batch, company);
    const Bits bits = together.run(gpu_device());
    for (std::size_t i = 0; i < company.order.size(); ++i)
      EXPECT_TRUE(bits[i] == expected[company.order[i]])
          << "pages of " << company.page << ": entry " << company.order[i] << " at place " << i << " of "
          << company.order.size();
    tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
    const tessera_device device = gpu_device();
    EXPECT_EQ(tessera_plan(&together.problem, &device, &plan), TESSERA_OK);
    return static_cast<std::size_t>(plan.work_items);
  };
  const std::size_t blocks = expect_same({{0, 1, 2, 3}, 0});
  expect_same({{3, 2, 1, 0}, 16});
  expect_same({{2, 0, 0, 1, 3, 1, 0}, 64});
  std::vector<std::size_t> many(2 * blocks + 3);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i % 5 == 0 ? 1 : 0;
  expect_same({many, 0});
  std::replace(many.begin(), many.end(), 0, 3);
  expect_same({many, 0});
}
TEST(ServingChains, GiveTheBitsOfTheEntryAlone) {
  SKIP_WITHOUT_GPU();
  expect_chains_give_the_bits_of_the_entry_alone({2, 1, 64, 64, TESSERA_F16, mask_of(TESSERA_UNBOUNDED), 0},
                                                 {{1, 4500}, {20, 1400}, {1, 300}, {12, 2600}});
}
TEST(ServingChains, OfLatentAttentionGiveTheBitsOfTheEntryAlone) {
  SKIP_WITHOUT_GPU();
  expect_chains_give_the_bits_of_the_entry_alone(
      {8, 1, 576, 512, TESSERA_BF16, mask_of(TESSERA_UNBOUNDED), 0, 0, true},
      {{1, 1300}, {3, 1100}, {1, 300}, {2, 1200}});
}
TEST(ServingChains, OfLatentCodesGiveTheBitsOfTheEntryAlone) {
  SKIP_WITHOUT_GPU();
  expect_chains_give_the_bits_of_the_entry_alone(
      {8, 1, 576, 512, TESSERA_BF16, mask_of(TESSERA_UNBOUNDED), 0, TESSERA_F8E4M3, true},
      {{1, 1300}, {3, 1100}, {1, 300}, {2, 1200}});
}

TEST(ServingMeans, OfKeysThatAreAllAlike) {
  SKIP_WITHOUT_GPU();
  expect_means({4, 2, 64, 64, TESSERA_BF16, mask_of(TESSERA_UNBOUNDED)}, gpu_device());
  expect_means({12, 1, 64, 64, TESSERA_F16, mask_of(37)}, gpu_device());
  expect_means({2, 1, 128, 128, TESSERA_BF16, mask_of(64), 0, TESSERA_F8E4M3}, gpu_device());
  expect_means({9, 1, 128, 128, TESSERA_F16, mask_of(TESSERA_UNBOUNDED), 0, TESSERA_I8}, gpu_device());
  expect_means({2, 1, 24, 24, TESSERA_F32, mask_of(63)}, gpu_device());
}

// Captured when every entry was empty, a graph serves every batch of its size: whatever changes from step to
// step is in device memory.
TEST(ServingGraph, OneServesEveryLength) {
  SKIP_WITHOUT_GPU();
  const Shape s{4, 1, 128, 128, TESSERA_BF16, mask_of(TESSERA_UNBOUNDED), 0};
  std::vector<Sequence> batch;
  batch.emplace_back(s, 1, 2900, 1);
  batch.emplace_back(s, 70, 321, 2);
  batch.emplace_back(s, 1, 0, 3);
  batch.emplace_back(s, 0, 50, 4);
  for (const std::int64_t page : {0, 16}) {
    Together together(s, batch, {{0, 1, 2, 3}, page, 0, 8, 3});
    const Bits expected = together.run(gpu_device());
    OnDevice there(together.problem);
    const bool paged = page > 0;
    gpu::Memory& keys = there.memory[paged ? core::TensorId::key_lengths : core::TensorId::key_offsets];
    gpu::Memory& rows = there.memory[core::TensorId::query_offsets];
    ASSERT_TRUE(keys.fill(0, keys.bytes()).ok() && rows.fill(0, rows.bytes()).ok());
    const Captured step(
        [&](const tessera_device& d) { return status_of(tessera_attend(&there.problem, &d)); });
    ASSERT_TRUE(step.status.ok()) << step.status.message;
    const auto replay = [&] {
      ASSERT_TRUE(step.replay().ok());
      there.download();
    };
    replay();  // nobody owns a row
    float lse = 0;
    std::memcpy(&lse, together.lse.row(0, 3, 70), sizeof lse);
    EXPECT_EQ(lse, -INFINITY);
    const tessera_tensor& lengths = paged ? together.problem.key_lengths : together.problem.key_offsets;
    ASSERT_TRUE(keys.upload(lengths.data, keys.bytes()).ok());
    ASSERT_TRUE(rows.upload(together.problem.query_offsets.data, rows.bytes()).ok());
    replay();
    EXPECT_TRUE(together.bits() == expected) << "pages of " << page;
  }
}

// Captured at one key, replayed at as many as there is room for; and at some, which have the bits that they
// have where there is room for no more.
TEST(ServingGraph, GrowsFromOneKeyTo131072) {
  SKIP_WITHOUT_GPU();
  constexpr std::int64_t kAll = 131'072, kSome = 4'000, kPage = 64;
  const Shape s{4, 1, 64, 64, TESSERA_BF16, mask_of(TESSERA_UNBOUNDED), 0};
  std::vector<Sequence> batch;
  batch.emplace_back(s, 1, kAll, 1);
  batch.emplace_back(s, 1, kSome, 1);
  Sequence &longest = batch[0], &some = batch[1];
  std::copy_n(longest.query.row(0, 0, 0), s.heads * some.query.row_bytes(), some.query.row(0, 0, 0));
  std::copy_n(longest.key.row(0, 0, 0), kSome * some.key.row_bytes(), some.key.row(0, 0, 0));
  std::copy_n(longest.value.row(0, 0, 0), kSome * some.value.row_bytes(), some.value.row(0, 0, 0));
  const Bits expected_of_some = Together(s, batch, {{1}, kPage}).run(gpu_device());
  Together together(s, batch, {{0}, kPage});
  const Bits expected = together.run(gpu_device());
  OnDevice there(together.problem);
  gpu::Memory& lengths = there.memory[core::TensorId::key_lengths];
  const auto set_length = [&](std::int32_t keys) { return lengths.upload(&keys, sizeof keys).ok(); };
  ASSERT_EQ(lengths.bytes(), sizeof(std::int32_t));
  ASSERT_TRUE(set_length(1));
  const Captured step([&](const tessera_device& d) { return status_of(tessera_attend(&there.problem, &d)); });
  ASSERT_TRUE(step.status.ok()) << step.status.message;
  const auto bits_at = [&](std::int64_t keys) {
    EXPECT_TRUE(set_length(static_cast<std::int32_t>(keys)) && step.replay().ok());
    there.download();
    return together.bits();
  };
  EXPECT_TRUE(bits_at(kAll) == expected);
  EXPECT_TRUE(bits_at(kSome) == expected_of_some);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ServingBits,
    testing::Values(
        Named{"d64", {4, 2, 64, 64, TESSERA_BF16, mask_of(TESSERA_UNBOUNDED), 0}},
        Named{"d64_window", {4, 1, 64, 64, TESSERA_F16, mask_of(37), 0}},
        Named{"d128_softcap", {6, 2, 128, 128, TESSERA_F16, mask_of(TESSERA_UNBOUNDED), 20}},
        Named{"d128", {4, 1, 128, 128, TESSERA_BF16, mask_of(TESSERA_UNBOUNDED), 0}},
        Named{"d72_v40", {3, 1, 72, 40, TESSERA_F16, mask_of(37), 0}},
        Named{"d192_v128", {2, 1, 192, 128, TESSERA_BF16, mask_of(TESSERA_UNBOUNDED), 0}},
        Named{"d256", {2, 2, 256, 256, TESSERA_F16, mask_of(TESSERA_UNBOUNDED), 0}},
        Named{"d128_e4m3", {4, 1, 128, 128, TESSERA_BF16, mask_of(TESSERA_UNBOUNDED), 0, TESSERA_F8E4M3}},
        Named{"d64_i8_window", {12, 1, 64, 64, TESSERA_F16, mask_of(37), 0, TESSERA_I8}},
        Named{"d33_v16", {2, 1, 33, 16, TESSERA_BF16, mask_of(100), 0}},
        Named{"latent", {4, 1, 576, 512, TESSERA_F16, mask_of(TESSERA_UNBOUNDED), 0, 0, true}},
        Named{"latent_window", {2, 1, 576, 512, TESSERA_BF16, mask_of(37), 20, 0, true}},
        Named{"latent_i8", {4, 1, 576, 512, TESSERA_BF16, mask_of(TESSERA_UNBOUNDED), 0, TESSERA_I8, true}},
        Named{"f32", {2, 1, 24, 24, TESSERA_F32, mask_of(TESSERA_UNBOUNDED), 0}}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tessera::testing_cuda
