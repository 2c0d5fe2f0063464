// Ragged and paged batches by the wgmma kernels, asked for directly: an entry of any number of rows passes
// the gates, gives the bits that it gives alone, in any company and from pages of any size, and nothing that
// no row sees comes into them. Which entries they get in a call, the serving row decides.
#include <cmath>
#include <cstring>
#include <numeric>

#include "cuda/sm90/entries.hpp"
#include "on_device.hpp"
#include "planned.hpp"
#include "tests/serving_batch.hpp"

namespace tessera::testing_cuda {
namespace {

using namespace testing_serving;
using core::TensorId;

// A batch on the GPU and the steps that compute its entries with at least so many rows.
class Submitted : public OnDevice {
 public:
  explicit Submitted(const tessera_attention& here, int least_queries = 1) : OnDevice(here) {
    core::Problem validated;
    EXPECT_TRUE(core::validate(problem, &validated).ok());
    const cuda::runtime::Gpu& gpu = *cuda::runtime::find_gpu(0, nullptr);
    EXPECT_TRUE(cuda::sm90::takes_entries(validated, gpu));
    const core::Status added = cuda::sm90::add_entries(validated, gpu, least_queries, &steps_);
    EXPECT_TRUE(added.ok()) << added.message;
    EXPECT_TRUE(steps_.finish(0, 1, [] { return std::string(); }).ok());
  }
  core::Status submit(const tessera_device& device) const {
    return steps_.submit(core::addresses_of(problem), device);
  }

 private:
  cuda::Steps steps_;
};

// As somebody else does for rows of no entry.
void clear(const tessera_attention& p) {
  std::memset(p.output.data, 0, bytes_of(p.output));
  if (p.lse.data == nullptr) return;
  const std::size_t n = bytes_of(p.lse) / sizeof(float);
  for (std::size_t i = 0; i < n; ++i) static_cast<float*>(p.lse.data)[i] = -INFINITY;
}

std::string attend(const tessera_attention& p, const tessera_device& device) {
  clear(p);
  const Submitted there(p);
  const core::Status status = there.submit(device);
  there.download();
  return status.message;
}

struct Named {
  const char* name;
  Shape shape;
};
void PrintTo(const Named& n, std::ostream* out) { *out << n.name; }

tessera_mask band(std::int64_t left, std::int64_t right = 0,
                  tessera_align align = TESSERA_ALIGN_BOTTOM_RIGHT) {
  return {align, 0, left, right, TESSERA_TENSOR_NONE};
}

// Around tiles and pages; no rows, no keys, more rows than keys.
std::vector<Sequence> sequences(const Shape& s) {
  constexpr std::int64_t kRowsKeys[][2] = {{70, 130},  {0, 50},  {5, 5},     {1, 0},    {1, 1},    {20, 7},
                                           {3, 785},   {65, 65}, {0, 0},     {130, 63}, {64, 257}, {129, 128},
                                           {128, 129}, {2, 127}, {260, 260}, {1, 784},  {7, 17},   {9, 48}};
  std::vector<Sequence> all;
  unsigned seed = 1;
  for (const auto& [rows, keys] : kRowsKeys) all.emplace_back(s, rows, keys, seed++);
  return all;
}

class EntriesBits : public testing::TestWithParam<Named> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    if (cuda::runtime::find_gpu(0, nullptr)->arch != 90) GTEST_SKIP() << "wgmma is Hopper's alone";
  }
  const Shape& shape() const { return GetParam().shape; }
  Bits run(std::vector<Sequence>& batch, const Company& company) const {
    Together together(shape(), batch, company);
    EXPECT_EQ(attend(together.problem, gpu_device()), "");
    return together.bits();
  }
  void expect_same(const Bits& one_by_one, std::vector<Sequence>& batch, const Company& company) const {
    const Bits together = run(batch, company);
    for (std::size_t i = 0; i < company.order.size(); ++i) {
      const std::size_t n = company.order[i];
      EXPECT_TRUE(one_by_one[n] == together[i])
          << "pages of " << company.page << ": entry " << n << " (" << batch[n].rows << " rows, "
          << batch[n].keys << " keys) at place " << i;
    }
  }
};

TEST_P(EntriesBits, AreThoseOfTheEntryAlone) {
  std::vector<Sequence> batch = sequences(shape());
  // An entry without keys has no key tensor to be given to a GPU; alone, it goes in company of one with them.
  Bits alone;
  for (std::size_t n = 0; n < batch.size(); ++n)
    alone.push_back(batch[n].keys == 0 || batch[n].rows == 0 ? run(batch, {{n, 7}})[0]
                                                             : run(batch, {{n}})[0]);
  std::vector<std::size_t> order(batch.size());
  std::iota(order.begin(), order.end(), 0);
  for (const std::int64_t page : {0, 16, 48, 64, 784}) expect_same(alone, batch, {order, page});
  std::reverse(order.begin(), order.end());
  expect_same(alone, batch, {order, 16, 3, 5, 0});
  expect_same(alone, batch, {order, 0, 0, 70});
  expect_same(alone, batch, {{14, 0, 14, 9}, 16, 0, 0, 1});
  expect_same(alone, batch, {{10}, 64, 0, 0, 300});  // room for far more keys
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, EntriesBits,
    testing::Values(Named{"d64", {4, 2, 64, 64, TESSERA_BF16, band(TESSERA_UNBOUNDED), 0}},
                    Named{"d64_window", {2, 1, 64, 64, TESSERA_F16, band(37), 0}},
                    Named{"d80", {2, 1, 80, 80, TESSERA_F16, band(TESSERA_UNBOUNDED), 0}},
                    Named{"d72_v40_window", {2, 2, 72, 40, TESSERA_BF16, band(100), 0}},
                    Named{"d96", {2, 1, 96, 96, TESSERA_BF16, band(TESSERA_UNBOUNDED), 0}},
                    Named{"d128", {4, 1, 128, 128, TESSERA_BF16, band(TESSERA_UNBOUNDED), 0}},
                    Named{"d128_window", {2, 2, 128, 128, TESSERA_F16, band(37), 0}},
                    Named{"d128_open",
                          {2, 1, 128, 128, TESSERA_F16,
                           band(TESSERA_UNBOUNDED, TESSERA_UNBOUNDED, TESSERA_ALIGN_NONE), 0}},
                    Named{"d192_v128", {2, 1, 192, 128, TESSERA_F16, band(TESSERA_UNBOUNDED), 0}},
                    Named{"d192", {1, 1, 192, 192, TESSERA_BF16, band(TESSERA_UNBOUNDED), 0}},
                    Named{"d256", {2, 2, 256, 256, TESSERA_BF16, band(TESSERA_UNBOUNDED), 0}},
                    Named{"d256_window", {1, 1, 256, 256, TESSERA_F16, band(70), 0}}),
    [](const auto& param) { return std::string(param.param.name); });

class Entries : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    if (cuda::runtime::find_gpu(0, nullptr)->arch != 90) GTEST_SKIP() << "wgmma is Hopper's alone";
  }
};

TEST_F(Entries, PassTheGates) {
  for (const char* const words :
       {"b3 h4/2 q150 k300 d64 bf16 causal=bottom-right ragged lengths pages=16",
        "b2 h2 q300 k300 d64 f16 ragged packed sinks", "b2 h2/1 q140 k200 d128 f16 ragged lengths",
        "b2 h2 q140 k400 d128 bf16 causal=bottom-right window=130,0 sinks ragged lengths pages=48",
        "b2 h2/1 q130 k300 d128 bf16 packed causal=top-left",
        "b2 h2/1 q130 k300 d128 f16 lengths pages=64 layout=bshd",
        "b2 h2/1 q130 k300 d80 bf16 ragged lengths pages=64 causal=bottom-right",
        "b2 h2/1 q130 k300 d96 f16 ragged packed align=bottom-right window=100,20",
        "b2 h2/1 q130 k300 d192 v128 bf16 ragged packed causal=bottom-right",
        "b2 h2/1 q130 k300 d192 f16 ragged lengths pages=32",
        "b2 h2/1 q130 k300 d256 bf16 ragged lengths pages=16 causal=bottom-right"}) {
    for (const cases::Input input : {cases::Input::normal, cases::Input::nonfinite}) {
      cases::Instance instance(case_of(words), input, 1);
      const cases::Verdict verdict = cases::judge(instance, cases::expect(instance), gpu_device(), attend);
      EXPECT_TRUE(verdict.passed) << words << ": " << verdict.why;
    }
  }
}

// More than are kept in shared memory while they are listed, and more than there are threads.
TEST_F(Entries, MayBeMany) {
  const Shape s{2, 1, 64, 64, TESSERA_F16, band(TESSERA_UNBOUNDED), 0};
  std::vector<Sequence> batch;
  for (unsigned n = 0; n < 560; ++n) batch.emplace_back(s, 1 + n % 3, 1 + n % 40, n);
  batch[70] = Sequence(s, 300, 310, 1);
  std::vector<std::size_t> order(batch.size());
  std::iota(order.begin(), order.end(), 0);
  Together together(s, batch, {order, 16});
  EXPECT_EQ(attend(together.problem, gpu_device()), "");
  const Bits bits = together.bits();
  for (const std::size_t n : {0, 1, 63, 64, 65, 70, 200, 511, 512, 559}) {
    Together alone(s, batch, {{n}});
    EXPECT_EQ(attend(alone.problem, gpu_device()), "");
    EXPECT_TRUE(alone.bits()[0] == bits[n]) << n;
  }
  for (std::size_t n = 0; n < batch.size(); ++n)  // the last row of each sees keys
    EXPECT_TRUE(
        std::any_of(bits[n].back().begin(), bits[n].back().end(), [](unsigned char b) { return b != 0; }));
}

TEST_F(Entries, WithFewRowsAreLeftAlone) {
  const Shape s{2, 1, 128, 128, TESSERA_BF16, band(TESSERA_UNBOUNDED), 0};
  std::vector<Sequence> batch;
  for (const std::int64_t rows : {1, 63, 64, 0, 130, 12}) batch.emplace_back(s, rows, 200, 1);
  Together together(s, batch, {{0, 1, 2, 3, 4, 5}, 16});
  const Submitted there(together.problem, 64);
  ASSERT_TRUE(there.submit(gpu_device()).ok());
  there.download();
  const Bits bits = together.bits();
  for (std::size_t n = 0; n < batch.size(); ++n)
    for (const std::vector<unsigned char>& row : bits[n])
      EXPECT_EQ(std::all_of(row.begin(), row.end(), [](unsigned char b) { return b == 0xff; }),
                batch[n].rows < 64)
          << batch[n].rows << " rows";
}

// Captured when every entry was empty, a graph serves every batch of its size.
TEST_F(Entries, GraphServesEveryLength) {
  const Shape s{4, 1, 128, 128, TESSERA_BF16, band(TESSERA_UNBOUNDED), 0};
  std::vector<Sequence> batch;
  batch.emplace_back(s, 1, 900, 1);
  batch.emplace_back(s, 170, 321, 2);
  batch.emplace_back(s, 1, 0, 3);
  batch.emplace_back(s, 0, 50, 4);
  for (const std::int64_t page : {0, 16}) {
    Together together(s, batch, {{0, 1, 2, 3}, page, 0, 8, 3});
    EXPECT_EQ(attend(together.problem, gpu_device()), "");
    const Bits expected = together.bits();
    clear(together.problem);
    Submitted there(together.problem);
    gpu::Memory& keys = there.memory[page > 0 ? TensorId::key_lengths : TensorId::key_offsets];
    gpu::Memory& rows = there.memory[TensorId::query_offsets];
    ASSERT_TRUE(keys.fill(0, keys.bytes()).ok() && rows.fill(0, rows.bytes()).ok());
    const Captured step([&](const tessera_device& d) { return there.submit(d); });
    ASSERT_TRUE(step.status.ok()) << step.status.message;
    ASSERT_TRUE(step.replay().ok());
    there.download();  // nobody owns a row: nothing was written
    float lse = 0;
    std::memcpy(&lse, together.lse.row(0, 3, 70), sizeof lse);
    EXPECT_EQ(lse, -INFINITY);
    const tessera_tensor& lengths = page > 0 ? together.problem.key_lengths : together.problem.key_offsets;
    ASSERT_TRUE(keys.upload(lengths.data, keys.bytes()).ok());
    ASSERT_TRUE(rows.upload(together.problem.query_offsets.data, rows.bytes()).ok());
    for (int times = 0; times < 2; ++times) {
      ASSERT_TRUE(step.replay().ok());
      there.download();
      EXPECT_TRUE(together.bits() == expected) << "pages of " << page;
    }
  }
}

TEST(EntriesTaken, ByWhatAllBatchesOfAnEngineShare) {
  const auto takes = [](const char* words, int arch = 90) {
    return cuda::sm90::takes_entries(problem(words), pretended_gpu(arch));
  };
  EXPECT_TRUE(takes("b2 h2/1 q130 k300 d128 bf16 ragged packed"));
  EXPECT_TRUE(takes("b2 h2/1 q1 k300 d128 bf16 ragged packed sinks causal=bottom-right window=10,0"));
  for (const char* const page : {"16", "48", "64", "784"})
    for (const char* const dim : {"64", "80", "128", "192", "256"})
      EXPECT_TRUE(takes(("b2 h2 q5 k300 d" + std::string(dim) + " f16 ragged lengths pages=" + page).c_str()))
          << dim << ", pages of " << page;
  for (const char* const not_taken :
       {"b2 h2 q130 k300 d128 bf16", "b2 h2 q130 k300 d128 bf16 lengths", "b2 h2 q130 k300 d128 f32 ragged",
        "b2 h2 q130 k300 d128 bf16 ragged lengths pages=8",
        "b2 h2 q130 k300 d128 bf16 ragged lengths pages=1",
        "b2 h2 q130 k300 d256 bf16 ragged lengths pages=20", "b2 h2 q130 k300 d33 bf16 ragged packed",
        "b2 h2 q130 k300 d128 bf16 ragged softcap=20",
        "b2 h2 q130 k300 d128 bf16 ragged alibi align=top-left",
        "b2 h2 q130 k300 d128 bf16 ragged mask=boolean", "b2 h2 q130 k300 d128 bf16 ragged out=f32",
        "b2 h2 q130 k300 d128 bf16 ragged prior=2", "b2 h2 q130 k300 d128 bf16 ragged scale=-1"})
    EXPECT_FALSE(takes(not_taken)) << not_taken;
  EXPECT_FALSE(takes("b2 h2/1 q130 k300 d128 bf16 ragged packed", 80));
}

}  // namespace
}  // namespace tessera::testing_cuda
