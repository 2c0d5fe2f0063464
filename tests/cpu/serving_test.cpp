// Ragged and paged batches, bit for bit: an entry gives what a dense call gives for it alone, in any company
// and from pages of any size, and nothing that no row sees is read. That those bits are right, list_test and
// random_test say.
#include <cmath>
#include <cstring>
#include <numeric>

#include "support.hpp"
#include "tests/serving_means.hpp"

namespace {

using namespace tessera::testing_serving;
using tessera::testing_cpu::kernels_here;

// Lengths around pages of 16, 48, 64 and 784 rows, around the chunks that long keys are cut into, and the
// least.
std::vector<Sequence> sequences(const Shape& s) {
  constexpr std::int64_t kRowsKeys[][2] = {{1, 300},  {0, 50},   {5, 5},   {40, 130}, {1, 0},   {1, 1},
                                           {3, 2},    {20, 7},   {1, 15},  {1, 16},   {1, 17},  {4, 47},
                                           {9, 49},   {2, 63},   {17, 65}, {1, 783},  {1, 785}, {0, 0},
                                           {1, 2500}, {3, 4300}, {33, 64}, {130, 129}};
  std::vector<Sequence> all;
  unsigned seed = 1;
  for (const auto& [rows, keys] : kRowsKeys) all.emplace_back(s, rows, keys, seed++);
  return all;
}

std::vector<std::size_t> in_order(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void expect_same(const Bits& one_by_one, const Bits& together, const Company& company,
                 const std::string& what) {
  for (std::size_t i = 0; i < company.order.size(); ++i) {
    ASSERT_EQ(one_by_one[company.order[i]], together[i])
        << what << ", pages of " << company.page << ": entry " << company.order[i] << " at place " << i;
  }
}

constexpr std::int64_t kPages[] = {0, 1, 16, 48, 64, 784};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = [] {
    tessera_mask none = {TESSERA_ALIGN_NONE, 0, TESSERA_UNBOUNDED, TESSERA_UNBOUNDED, TESSERA_TENSOR_NONE};
    tessera_mask causal = none, window = none;
    causal.align = window.align = TESSERA_ALIGN_BOTTOM_RIGHT;
    causal.right = window.right = 0;
    window.left = 37;
    return std::vector<Shape>{
        {4, 2, 64, 64, TESSERA_F32, none, 0},      {4, 2, 64, 64, TESSERA_BF16, causal, 0},
        {4, 1, 64, 64, TESSERA_F16, window, 0},    {4, 1, 72, 40, TESSERA_BF16, window, 0},
        {2, 1, 5, 3, TESSERA_F32, window, 0},      {2, 2, 8, 8, TESSERA_F16, causal, 0},
        {6, 2, 128, 128, TESSERA_F32, causal, 20}, {3, 1, 33, 16, TESSERA_BF16, causal, 0},
        {4, 4, 20, 24, TESSERA_F32, window, 0}};
  }();
  return all;
}

TEST(Serving, KeysThatAreAllAlikeGiveMeans) {
  for (const tessera_device& device : kernels_here()) {
    SCOPED_TRACE(device.kernel);
    for (const std::int64_t left : {std::int64_t{TESSERA_UNBOUNDED}, std::int64_t{37}, std::int64_t{64}})
      for (const tessera_dtype cache : {TESSERA_F32, TESSERA_F8E4M3, TESSERA_I8})
        expect_means({4,
                      2,
                      24,
                      16,
                      TESSERA_F32,
                      {TESSERA_ALIGN_BOTTOM_RIGHT, 0, left, 0, TESSERA_TENSOR_NONE},
                      0,
                      cache},
                     device);
  }
}

TEST(Serving, EntriesHaveTheBitsTheyHaveAlone) {
  int compared = 0;
  for (const Shape& s : shapes()) {
    std::vector<Sequence> batch = sequences(s);
    for (const tessera_device& device : kernels_here()) {
      const Bits expected = alone(s, batch, device);
      for (const std::int64_t page : kPages) {
        const Company company{in_order(batch.size()), page};
        Together together(s, batch, company);
        expect_same(expected, together.run(device), company, device.kernel);
        if (HasFatalFailure()) return;
        ++compared;
      }
    }
  }
  fmt::print("{} batches compared\n", compared);
}

// Backwards, a few alone, some twice, rows of no entry before and behind, a table with room for far more.
TEST(Serving, CompanyChangesNothing) {
  for (const Shape& s : {shapes()[1], shapes()[2], shapes()[6]}) {
    std::vector<Sequence> batch = sequences(s);
    std::vector<std::size_t> backwards = in_order(batch.size());
    std::reverse(backwards.begin(), backwards.end());
    for (const tessera_device& device : kernels_here()) {
      const Bits expected = alone(s, batch, device);
      for (const std::int64_t page : {0, 16, 64}) {
        for (const Company& company :
             {Company{backwards, page, 3, 5, 0}, Company{{18}, page, 0, 0, 40},
              Company{{3}, page, 1, 0, 2000}, Company{{6, 19, 6, 0}, page, 0, 7, 1}}) {
          Together together(s, batch, company);
          expect_same(expected, together.run(device), company, device.kernel);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Serving, ThreadsAndAWorkspaceChangeNothing) {
  const Shape& s = shapes()[1];
  std::vector<Sequence> batch = sequences(s);
  Together together(s, batch, {in_order(batch.size()), 16, 2, 2, 9});
  for (tessera_device device : kernels_here()) {
    device.threads = 1;
    const Bits one = together.run(device);
    for (const std::int32_t threads : {2, 5, 16}) {
      device.threads = threads;
      EXPECT_EQ(together.run(device), one) << threads << " threads on " << device.kernel;
      tessera_device with = device;
      with.workspace_bytes = SIZE_MAX;
      tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
      ASSERT_EQ(tessera_plan(&together.problem, &with, &plan), TESSERA_OK) << tessera_last_error();
      with.workspace_bytes = static_cast<std::size_t>(plan.workspace_bytes);
      std::vector<unsigned char> room(with.workspace_bytes + 512, 0x5a);
      with.workspace = room.data() + (256 - reinterpret_cast<std::uintptr_t>(room.data()) % 256);
      EXPECT_EQ(together.run(with), one) << threads << " threads and a workspace on " << device.kernel;
      const auto* const end = static_cast<unsigned char*>(with.workspace) + with.workspace_bytes;
      for (const unsigned char* at = end; at < room.data() + room.size(); ++at) ASSERT_EQ(*at, 0x5a);
    }
  }
}

TEST(Serving, RowsOfNoEntryAreCleared) {
  const Shape& s = shapes()[2];
  std::vector<Sequence> batch = sequences(s);
  for (const Company& company :
       {Company{{2, 4}, 16, 3, 5, 0}, Company{{}, 0, 4, 0, 0}, Company{{1}, 16, 0, 2, 0}}) {
    Together together(s, batch, company);
    together.run(kernels_here()[0]);
    std::int64_t owned = 0;
    for (const std::size_t n : company.order) owned += batch[n].rows;
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t r = 0; r < together.all_rows(); ++r) {
        if (r >= company.rows_before && r < company.rows_before + owned) continue;
        const std::vector<unsigned char> zeros(together.output.row_bytes(), 0);
        EXPECT_EQ(std::memcmp(together.output.row(0, h, r), zeros.data(), zeros.size()), 0) << r;
        float lse = 0;
        std::memcpy(&lse, together.lse.row(0, h, r), sizeof lse);
        EXPECT_EQ(lse, -INFINITY) << r;
      }
    }
  }
}

// A mask tensor that hides every key of a page: its entry of the table is not looked at. One that shows a
// single key of it to a single head: then it is, and refused.
TEST(Serving, PagesThatTheMaskHidesAreNotNeeded) {
  Shape s = shapes()[0];
  std::vector<Sequence> batch;
  batch.emplace_back(s, 2, 40, 1);
  for (const tessera_device& device : kernels_here()) {
    Together together(s, batch, {{0}, 16, 0, 0, 0});
    std::vector<unsigned char> mask(4 * 2 * 48, 1);
    for (std::size_t row = 0; row < 8; ++row)
      std::fill_n(mask.begin() + static_cast<long>(row) * 48 + 16, 16, 0);
    together.problem.mask.tensor = tessera_tensor_4d(mask.data(), TESSERA_BOOL, 1, 4, 2, 48);
    const Bits with_page = together.run(device);
    together.table()[1] = -1;
    EXPECT_EQ(together.run(device), with_page) << device.kernel;
    mask[3 * 2 * 48 + 48 + 31] = 1;
    EXPECT_EQ(tessera_attend(&together.problem, &device), TESSERA_INVALID_ARGUMENT);
    EXPECT_STREQ(tessera_last_error(),
                 "page_table[0, 1] is -1, and key 31 of entry 0 needs it: 0 to 6 is accepted");
  }
}

// Two entries that name the same pages for their first keys.
TEST(Serving, EntriesMayShareAPrefix) {
  const Shape& s = shapes()[1];
  std::vector<Sequence> batch;
  batch.emplace_back(s, 1, 60, 1);
  batch.emplace_back(s, 1, 60, 1);  // the same keys
  for (const tessera_device& device : kernels_here()) {
    const Bits expected = alone(s, batch, device);
    Together together(s, batch, {{0, 1}, 16, 0, 0, 0});
    for (std::size_t n = 0; n < 2; ++n) together.table()[4 + n] = together.table()[n];
    expect_same(expected, together.run(device), {{0, 1}, 16, 0, 0, 0}, device.kernel);
  }
}

// A tree of drafts behind a prefix: the tensor over the last keys gives the bits of the same tensor over all
// of them.
TEST(Serving, AMaskOverTheLastKeysIsOneOverAllWithTheRestVisible) {
  for (const tessera_dtype dtype : {TESSERA_BOOL, TESSERA_F32}) {
    for (const std::int64_t keys : {8, 9, 40, 300}) {
      Shape s = shapes()[1];
      std::vector<Sequence> batch;
      batch.emplace_back(s, 8, keys, 7);
      for (const tessera_device& device : kernels_here()) {
        Together together(s, batch, {{0}, 16, 0, 0, 0});
        const std::int64_t room = together.problem.page_table.shape[1] * 16;
        std::vector<unsigned char> tree(8 * 8), all(static_cast<std::size_t>(8 * room), 1);
        std::vector<float> tree_bias(8 * 8), all_bias(static_cast<std::size_t>(8 * room), 0.0f);
        for (std::int64_t i = 0; i < 8; ++i) {
          for (std::int64_t a = i; a >= 0; a = a == 0 ? -1 : (a - 1) / 2)
            tree[static_cast<std::size_t>(i * 8 + a)] = 1;
          for (std::int64_t n = 0; n < 8; ++n) {
            const auto small = static_cast<std::size_t>(i * 8 + n);
            const auto large = static_cast<std::size_t>(i * room + keys - 8 + n);
            all[large] = tree[small];
            all_bias[large] = tree_bias[small] = tree[small] != 0 ? static_cast<float>(n) * 0.25f : -INFINITY;
          }
        }
        const bool boolean = dtype == TESSERA_BOOL;
        void* const whole = boolean ? static_cast<void*>(all.data()) : all_bias.data();
        void* const last = boolean ? static_cast<void*>(tree.data()) : tree_bias.data();
        together.problem.mask.tensor = tessera_tensor_4d(whole, dtype, 1, 1, 8, room);
        const Bits expected = together.run(device);
        together.problem.mask.tensor = tessera_tensor_4d(last, dtype, 1, 1, 8, 8);
        together.problem.mask.tensor_align = TESSERA_ALIGN_BOTTOM_RIGHT;
        EXPECT_EQ(together.run(device), expected) << keys << " keys on " << device.kernel;
      }
    }
  }
}

}  // namespace
