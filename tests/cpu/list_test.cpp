// The small groups of the case list: every case, every kind of input, every kernel that runs here.
#include "support.hpp"

namespace {

using namespace tessera::cases;
using namespace tessera::testing_cpu;

void judge_case(const Case& c, Input input, int* judged, double* worst) {
  Instance instance(c, input, 1);
  const Expected expected = expect(instance);
  for (const tessera_device& device : kernels_here()) {
    const Verdict v = judge(instance, expected, device);
    EXPECT_TRUE(v.passed) << c.name << " on " << device.kernel << ": " << v.why
                          << "\n  reproduce: " << v.reproduce;
    *worst = std::max(*worst, v.worst_ratio);
    ++*judged;
  }
}

class Groups : public testing::TestWithParam<const char*> {};

TEST_P(Groups, EveryInputEveryKernel) {
  int judged = 0;
  double worst = 0;
  const std::vector<Case> group = in_group(GetParam());
  const int step = test_scale() < 1 ? static_cast<int>(1 / std::max(test_scale(), 0.01)) : 1;
  int turn = 0;
  for (const Case& c : group) {
    for (Input input : all_inputs()) {
      if (!differs_from_normal(c, input) && input != Input::normal) continue;
      if (turn++ % step == 0) judge_case(c, input, &judged, &worst);
    }
  }
  fmt::print("{} judged, worst error {:.2f} of its bound\n", judged, worst);
  EXPECT_GT(judged, 0);
}

INSTANTIATE_TEST_SUITE_P(Small, Groups, testing::Values("few", "options", "edge"),
                         [](const auto& group) { return std::string(group.param); });

TEST(Mission, PassesOnNormalInput) {
  int judged = 0;
  double worst = 0;
  judge_case(*find("mission256"), Input::normal, &judged, &worst);
  if (test_scale() >= 1) {
    judge_case(*find("mission512_causal"), Input::normal, &judged, &worst);
    judge_case(*find("mission256_bf16"), Input::large, &judged, &worst);
  }
  fmt::print("{} judged, worst error {:.2f} of its bound\n", judged, worst);
}

}  // namespace
