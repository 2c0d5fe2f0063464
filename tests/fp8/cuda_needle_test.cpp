// The needle of needle_test.cpp, in the hands of every CUDA kernel that takes inputs of 8 bits: found, and
// within the bound of the gates.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "cases/gates.hpp"
#include "core/plan.hpp"
#include "cuda/runtime/runtime.hpp"
#include "tests/fp8/haystack.hpp"

namespace tessera::fp8 {
namespace {

bool takes(const core::Kernel& kernel, const Attention& a, const tessera_device& device) {
  core::Problem problem;
  return kernel.device == TESSERA_CUDA && core::missing(kernel, device).empty() &&
         core::validate(a.problem, &problem).ok() && kernel.supports(problem).ok();
}

// What head dim, how many keys.
class CudaNeedle : public testing::TestWithParam<std::tuple<std::int64_t, std::int64_t>> {};

TEST_P(CudaNeedle, IsFoundByEveryKernel) {
  std::string why;
  if (cuda::runtime::find_gpu(0, &why) == nullptr) GTEST_SKIP() << why;
  const auto [dim, keys] = GetParam();
  const Haystack haystack = make_haystack(Input::needle, keys, dim, 1);
  const Needles needles(haystack);
  Attention a = as_codes(haystack, {cases::ScaleKind::head, cases::ScaleKind::channel, true}, TESSERA_F16);
  const cases::Expected expected = cases::expect(a.problem, a.rows);
  int kernels = 0;
  for (const core::Kernel& kernel : core::kernels()) {
    tessera_device device = TESSERA_DEVICE_INIT;
    device.kind = TESSERA_CUDA;
    if (!takes(kernel, a, device)) continue;
    device.kernel = kernel.name.data();  // names are literals
    ASSERT_EQ(cases::attend_with_library(a.problem, device), "") << kernel.name;
    const std::vector<double> output = a.output(), found = needles.found(output);
    const cases::Bounds& bounds = expected.bounds(cases::arithmetic_of(a.problem, device));
    double of_bound = 0;
    for (std::size_t n = 0; n < output.size(); ++n)
      of_bound = std::max(of_bound, std::fabs(output[n] - expected.truth.output[n]) / bounds.output_bound[n]);
    fmt::print("{:12}{:8.3f}, {:.2f} of the bound\n", kernel.name, fmt::join(found, ""), of_bound);
    for (const double x : found) EXPECT_LT(std::fabs(x - 1), 0.5) << kernel.name;
    EXPECT_LE(of_bound, 1) << kernel.name;
    ++kernels;
  }
  EXPECT_GT(kernels, 0);
}

std::string label(const testing::TestParamInfo<CudaNeedle::ParamType>& each) {
  return fmt::format("d{}_{}", std::get<0>(each.param), std::get<1>(each.param));
}
INSTANTIATE_TEST_SUITE_P(Short, CudaNeedle, testing::Combine(testing::Values(64, 128), testing::Values(4096)),
                         label);
INSTANTIATE_TEST_SUITE_P(Long, CudaNeedle,
                         testing::Combine(testing::Values(64, 128), testing::Values(131072)), label);

}  // namespace
}  // namespace tessera::fp8
