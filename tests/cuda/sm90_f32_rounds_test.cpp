// The f32 kernel for wgmma where its blocks compute several row tiles each, one behind the other. The cases
// of list_test are so small that every block has one.
#include <fmt/format.h>

#include "support.hpp"

namespace tessera::testing_cuda {
namespace {

using cases::Input;

struct Row {
  const char* words;
  Input input;
};

// Bands and lengths by which row tiles differ in how many keys they see, none included; rows that are not
// aligned; numbers of which the parts lose something, and such that are not finite.
constexpr Row kRows[] = {
    {"q130 k300 d64", Input::normal},
    {"q300 k130 d64 causal=bottom-right", Input::large},  // the first rows see nothing
    {"q130 k200 d128 causal=top-left layout=padded", Input::dominant},
    {"q70 k200 d256 causal=bottom-right window=40,0 sinks", Input::normal},
    {"q130 k150 d64 lengths", Input::nonfinite},
    {"q130 k100 d128", Input::tiny},
    {"q70 k70 d256 softcap=30 mask=additive:keys", Input::nonfinite},
    {"q130 k70 d99 v33", Input::normal},
};

class Sm90F32Rounds : public testing::TestWithParam<int> {};  // query heads that share K and V

TEST_P(Sm90F32Rounds, PassTheGates) {
  SKIP_WITHOUT_GPU();
  tessera_device device = gpu_device();
  device.kernel = "sm90_f32";
  for (const core::Kernel& kernel : core::kernels())
    if (const std::string why = core::missing(kernel, device); kernel.name == "sm90_f32" && !why.empty())
      GTEST_SKIP() << why;
  // More than two rounds of tiles, and the last of them not full.
  const int kv_heads = cuda::runtime::find_gpu(0, nullptr)->sms / GetParam() + 7;
  for (const Row& row : kRows) {
    cases::Instance instance(
        case_of(fmt::format("b1 h{}/{} f32 {}", kv_heads * GetParam(), kv_heads, row.words)), row.input, 5);
    const cases::Verdict verdict = cases::judge(instance, cases::expect(instance), device);
    EXPECT_TRUE(verdict.passed) << verdict.why << "\n" << verdict.reproduce;
  }
}

INSTANTIATE_TEST_SUITE_P(HeadsOfAGroup, Sm90F32Rounds, testing::Values(1, 3));

}  // namespace
}  // namespace tessera::testing_cuda
