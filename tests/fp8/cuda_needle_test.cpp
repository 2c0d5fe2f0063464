// The needle of needle_test.cpp among as many keys, by every CUDA kernel that takes inputs of 8 bits: found,
// and within the bound of the gates.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

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

class CudaNeedle : public testing::TestWithParam<std::int64_t> {};

TEST_P(CudaNeedle, IsFoundWithinTheBoundByEveryKernel) {
  std::string why;
  if (cuda::runtime::find_gpu(0, &why) == nullptr) GTEST_SKIP() << why;
  const Haystack haystack = make_haystack(Input::needle, 131072, GetParam(), 1);
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

INSTANTIATE_TEST_SUITE_P(HeadDims, CudaNeedle, testing::Values(64, 128), testing::PrintToStringParamName());

}  // namespace
}  // namespace tessera::fp8
