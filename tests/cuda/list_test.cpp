// Every CUDA kernel through the gates on the small cases of the list, and on values worked out by hand.
#include <cmath>

#include "oracle/oracle.hpp"
#include "support.hpp"
#include "tests/support/every_code.hpp"

namespace tessera::testing_cuda {
namespace {

using cases::Input;

class List : public testing::TestWithParam<std::string> {};

TEST_P(List, EveryKernelPassesEveryGate) {
  SKIP_WITHOUT_GPU();
  int judged = 0;
  for (const cases::Case& c : cases::in_group(GetParam())) {
    for (const Input input : {Input::normal, Input::nonfinite}) {
      cases::Instance instance(c, input, 3);
      const cases::Expected expected = cases::expect(instance);
      for (const tessera_device& device : kernels_here()) {
        if (!supports(device, instance.problem())) continue;
        const cases::Verdict verdict = cases::judge(instance, expected, device);
        EXPECT_TRUE(verdict.passed) << verdict.why << "\n" << verdict.reproduce;
        ++judged;
      }
    }
  }
  EXPECT_GT(judged, 0);
}

INSTANTIATE_TEST_SUITE_P(Groups, List,
                         testing::Values("few", "options", "pairs", "masks", "edge", "serving", "append",
                                         "tail"),
                         [](const auto& param) { return param.param; });

// Two keys with scores ln 1 and ln 3 (the query's first element is 1, the keys' are the scores, scale 1):
// weights 1/4 and 3/4, so values 4 and 8 give 7, and lse is ln 4. The second query is causal: one key.
TEST(ByHand, WeightsOfAQuarterAndThreeQuarters) {
  SKIP_WITHOUT_GPU();
  cases::Case c = case_of("b1 h1 q2 k2 d64 f16 causal=bottom-right scale=1");
  cases::Instance instance(c, Input::equal, 1);
  const tessera_attention& p = instance.problem();
  const auto set = [](const tessera_tensor& t, std::int64_t row, std::int64_t column, double value) {
    oracle::store(t.data, t.dtype, row * t.strides[2] + column, value);
  };
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t d = 0; d < 64; ++d) {
      set(p.query, row, d, d == 0 ? 1 : 0);
      set(p.key, row, d, d == 0 && row == 1 ? std::log(3.0) : 0);
      set(p.value, row, d, row == 0 ? 4 : 8);
    }
  }
  instance.accept_inputs();
  for (const tessera_device& device : kernels_here()) {
    if (!supports(device, p)) continue;
    instance.poison_outputs();
    ASSERT_EQ(cases::attend_with_library(p, device), "") << device.kernel;
    const std::vector<double> output = instance.output(), lse = instance.lse();
    for (std::size_t d = 0; d < 64; ++d) {
      EXPECT_EQ(output[d], 4) << device.kernel;
      EXPECT_NEAR(output[64 + d], 7, 0.01) << device.kernel;
    }
    EXPECT_NEAR(lse[0], 0, 1e-3) << device.kernel;
    EXPECT_NEAR(lse[1], std::log(4.0), 1e-3) << device.kernel;
  }
}

// By the one kernel that takes every kind of query and any head dim; its lse went through a logarithm to
// base 2.
TEST(ByHand, EveryCodeStandsForItsNumber) {
  SKIP_WITHOUT_GPU();
  tessera_device device = gpu_device();
  device.kernel = "fp8_rows";
  for (const testing_codes::Kind& kind : testing_codes::all_kinds()) {
    for (const std::int64_t rows : {1, 3}) testing_codes::expect_every_value(kind, rows, rows == 3, device);
    testing_codes::expect_every_key(kind, 1e-5, device);
  }
}

}  // namespace
}  // namespace tessera::testing_cuda
