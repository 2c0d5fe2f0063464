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

INSTANTIATE_TEST_SUITE_P(Small, Groups,
                         testing::Values("few", "options", "pairs", "masks", "edge", "serving", "fp8",
                                         "append", "tail"),
                         [](const auto& group) { return std::string(group.param); });

// Shapes that have a kernel of their own: one key, and few rows of few dimensions, whose tiles of 256 keys
// have a way of their own into columns for each length of a row.
TEST(SmallShapes, EveryInputEveryKernel) {
  int judged = 0;
  double worst = 0;
  for (const char* shape : {"b2 h6/2 q9 k1 d40 v24", "b2 h1 q3 k1 d7 v1", "b1 h2/1 q2 k600 d1 v8",
                            "b2 h1 q4 k300 d2 v3", "b1 h2 q3 k517 d4 v5", "b1 h2 q1 k259 d6 v7"}) {
    for (const char* options : {"", " causal=top-left", " causal=bottom-right sinks", " lengths scale=-0.5",
                                " align=bottom-right window=280,1 lengths", " sinks layout=bshd",
                                " layout=padded", " mask=additive:full", " softcap=2"}) {
      for (const char* dtype : {" f32", " f16", " bf16"}) {
        Case c = case_of(std::string(shape) + dtype + options);
        c.name = words(c);
        for (Input input : all_inputs()) {
          if (!differs_from_normal(c, input) && input != Input::normal) continue;
          judge_case(c, input, &judged, &worst);
        }
      }
    }
  }
  fmt::print("{} judged, worst error {:.2f} of its bound\n", judged, worst);
}

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
