// What must hold of attention whatever the numbers are: equalities between two runs of a kernel, to the
// rounding that each of them is allowed.
#include <cmath>
#include <thread>

#include "cases/random.hpp"
#include "support.hpp"

namespace {

using namespace tessera::cases;
using namespace tessera::testing_cpu;

constexpr int kSeeds = 12;

// Each property over several shapes: prefill, decode (keys split), few queries, odd sizes.
const std::vector<const char*>& shapes() {
  static const std::vector<const char*> list = {
      "b2 h4/2 q33 k70 d64 f32",
      "b1 h8/2 q1 k1500 d64 f32",
      "b1 h4/1 q7 k300 d128 f16",
      "b2 h2 q65 k129 d40 f32",
      "b1 h2 q20 k31 d3 v5 bf16",
      "b1 h2 q100 k100 d64 f16 layout=bshd",
      "b1 h3 q2 k700 d80 f32 layout=padded",
      "b2 h4/2 q33 k70 d64 f8e4m3 scales=channel",
      "b1 h4/1 q2 k300 d72 f8e5m2 scales=head layout=padded",
  };
  return list;
}

// Two results of the same truth may each be off by their bound.
void expect_same(const std::vector<double>& a, const std::vector<double>& b,
                 const std::vector<double>& bound_a, const std::vector<double>& bound_b,
                 const std::string& where) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t n = 0; n < a.size(); ++n) {
    ASSERT_LE(std::fabs(a[n] - b[n]), bound_a[n] + bound_b[n]) << where << ", element " << n;
  }
}

template <class F>
void for_each_setting(F f) {
  int settings = 0;
  for (const char* words : shapes()) {
    for (int seed = 0; seed < scaled(kSeeds); ++seed) {
      for (const tessera_device& device : kernels_here()) {
        const std::string where = fmt::format("{} on {}, seed {}", words, device.kernel, seed);
        f(case_of(words), static_cast<std::uint64_t>(seed), device, where);
        if (testing::Test::HasFatalFailure()) return;
        ++settings;
      }
    }
  }
  fmt::print("{} settings\n", settings);
}

// Adding one number to every score of a row leaves the output alone and moves the lse by that number.
TEST(Properties, ShiftOfScores) {
  for_each_setting([](Case c, std::uint64_t seed, const tessera_device& device, const std::string& where) {
    c.mask_shape = MaskShape::full;
    c.mask_type = MaskType::additive;
    Instance base(c, Input::normal, seed), moved(c, Input::normal, seed);
    const auto shift = static_cast<double>(1 + seed % 4);
    for (Instance* x : {&base, &moved}) {
      const tessera_tensor& m = x->problem().mask.tensor;
      for (std::int64_t b = 0; b < m.shape[0]; ++b)
        for (std::int64_t h = 0; h < m.shape[1]; ++h)
          for (std::int64_t i = 0; i < m.shape[2]; ++i) set_row(m, b, h, i, x == &moved ? shift : 0.0);
    }
    attend(base, device);
    attend(moved, device);
    const Expected e = expect(base), f = expect(moved);
    expect_same(base.output(), moved.output(), e.output_bound, f.output_bound, where);
    std::vector<double> lse = moved.lse();
    for (double& l : lse) l -= shift;
    expect_same(base.lse(), lse, e.lse_bound, f.lse_bound, where);
  });
}

// The order of the keys is of no importance as long as the values follow.
TEST(Properties, PermutationOfKeys) {
  for_each_setting(
      [](const Case& c, std::uint64_t seed, const tessera_device& device, const std::string& where) {
        Instance base(c, Input::normal, seed), moved(c, Input::normal, seed);
        const Random random(seed, 99);
        for (std::int64_t b = 0; b < c.batch; ++b) {
          for (std::int64_t h = 0; h < c.kv_heads; ++h) {
            for (std::int64_t j = c.keys - 1; j > 0; --j) {
              const std::int64_t other = random.below(static_cast<std::uint64_t>(j), j + 1);
              for (const tessera_tensor& t : {moved.problem().key, moved.problem().value}) {
                for (std::int64_t d = 0; d < t.shape[3]; ++d) {
                  const std::int64_t x = offset(t, b, h, j) + d, y = offset(t, b, h, other) + d;
                  const double kept = tessera::oracle::load(t.data, t.dtype, x);
                  tessera::oracle::store(t.data, t.dtype, x, tessera::oracle::load(t.data, t.dtype, y));
                  tessera::oracle::store(t.data, t.dtype, y, kept);
                }
              }
            }
          }
        }
        attend(base, device);
        attend(moved, device);
        const Expected e = expect(base), f = expect(moved);
        expect_same(base.output(), moved.output(), e.output_bound, f.output_bound, where);
        expect_same(base.lse(), moved.lse(), e.lse_bound, f.lse_bound, where);
      });
}

tessera_tensor slice_keys(tessera_tensor t, std::int64_t first, std::int64_t count) {
  t.data = static_cast<unsigned char*>(t.data) +
           static_cast<std::size_t>(first * t.strides[2]) * tessera_dtype_size(t.dtype);
  t.shape[2] = count;
  return t;
}

// Attention over the first keys and over the rest, put together by their lse, is attention over all.
TEST(Properties, SplitAndMerge) {
  for_each_setting(
      [](const Case& c, std::uint64_t seed, const tessera_device& device, const std::string& where) {
        Instance whole(c, Input::normal, seed);
        attend(whole, device);
        const Expected e = expect(whole);
        const std::vector<double> output = whole.output(), lse = whole.lse();

        const std::int64_t cut = 1 + Random(seed, 98).below(0, c.keys - 1);
        const tessera_tensor key = whole.problem().key, value = whole.problem().value;
        std::vector<std::vector<double>> outputs, lses;
        std::vector<Expected> parts;
        for (const auto& [first, count] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, c.keys - cut}}) {
          whole.problem().key = slice_keys(key, first, count);
          whole.problem().value = slice_keys(value, first, count);
          attend(whole, device);
          outputs.push_back(whole.output());
          lses.push_back(whole.lse());
          parts.push_back(expect(whole));
        }
        const auto columns = static_cast<std::size_t>(c.value_dim);
        for (std::size_t n = 0; n < output.size(); ++n) {
          const std::size_t row = n / columns;
          const double sum = std::log(std::exp(lses[0][row]) + std::exp(lses[1][row]));
          const double weight[2] = {std::exp(lses[0][row] - sum), std::exp(lses[1][row] - sum)};
          const double merged = weight[0] * outputs[0][n] + weight[1] * outputs[1][n];
          const double lse_slack = parts[0].lse_bound[row] + parts[1].lse_bound[row];
          const double slack = e.output_bound[n] + weight[0] * parts[0].output_bound[n] +
                               weight[1] * parts[1].output_bound[n] +
                               lse_slack * std::fabs(outputs[0][n] - outputs[1][n]);
          ASSERT_LE(std::fabs(merged - output[n]), slack) << where << ", cut at " << cut << ", element " << n;
          ASSERT_LE(std::fabs(sum - lse[row]), lse_slack + e.lse_bound[row]) << where;
        }
      });
}

// Grouped heads are heads that share: the same keys written out once per query head give the same.
TEST(Properties, GroupedHeadsShareKeys) {
  for (const char* words :
       {"b2 h6/2 q17 k90 d64 f16", "b1 h8/1 q1 k400 d64 f32", "b1 h4/2 q5 k65 d40 bf16"}) {
    for (const tessera_device& device : kernels_here()) {
      const Case c = case_of(words);
      Case written_out = c;
      written_out.kv_heads = c.heads;
      Instance grouped(c, Input::normal, 3), apart(written_out, Input::normal, 3);
      for (auto pair : {std::pair{grouped.problem().key, apart.problem().key},
                        std::pair{grouped.problem().value, apart.problem().value}}) {
        for (std::int64_t b = 0; b < c.batch; ++b)
          for (std::int64_t h = 0; h < c.heads; ++h)
            for (std::int64_t j = 0; j < c.keys; ++j)
              for (std::int64_t d = 0; d < c.dim; ++d) {
                const std::int64_t from = offset(pair.first, b, h / (c.heads / c.kv_heads), j) + d;
                tessera::oracle::store(pair.second.data, c.dtype, offset(pair.second, b, h, j) + d,
                                       tessera::oracle::load(pair.first.data, c.dtype, from));
              }
      }
      attend(grouped, device);
      attend(apart, device);
      const Expected e = expect(grouped);
      expect_same(grouped.output(), apart.output(), e.output_bound, e.output_bound, words);
    }
  }
}

// Leaving the lse out changes no bit of the output and writes no lse.
TEST(Properties, LseIsOptional) {
  for_each_setting(
      [](const Case& c, std::uint64_t seed, const tessera_device& device, const std::string& where) {
        Instance with(c, Input::normal, seed), without(c, Input::normal, seed);
        attend(with, device);
        without.problem().lse = TESSERA_TENSOR_NONE;
        attend(without, device);
        ASSERT_EQ(with.output(), without.output()) << where;
        for (double l : without.lse()) ASSERT_TRUE(std::isnan(l)) << where;
      });
}

// A call that differs from an earlier one in addresses alone is run by its plan: every tensor must be its
// own.
TEST(Properties, AKeptPlanServesOtherAddresses) {
  constexpr const char* kWords =
      "b3 h4/2 q9 k40 d16 f32 causal=bottom-right mask=additive lengths alibi sinks softcap=20";
  const auto alike = [](const tessera_attention& a, const tessera_attention& b) {
    return a.mask.tensor.dtype == b.mask.tensor.dtype && a.key_lengths.dtype == b.key_lengths.dtype &&
           a.alibi_slopes.rank == b.alibi_slopes.rank;
  };
  const Instance first(case_of(kWords), Input::normal, 1);
  int judged = 0;
  for (std::uint64_t seed = 2; seed < 60; ++seed) {
    Instance kept(case_of(kWords), Input::normal, seed), fresh(case_of(kWords), Input::normal, seed);
    if (!alike(first.problem(), kept.problem())) continue;
    for (const tessera_device& device : kernels_here()) {
      ASSERT_EQ(tessera_attend(&first.problem(), &device), TESSERA_OK) << tessera_last_error();
      kept.poison_outputs();
      fresh.poison_outputs();
      attend(kept, device);
      std::thread([&] { attend(fresh, device); }).join();  // no plan is kept there yet
      ASSERT_EQ(kept.output_bytes(), fresh.output_bytes()) << device.kernel << ", seed " << seed;
      ++judged;
    }
  }
  EXPECT_GT(judged, 3);
}

}  // namespace
