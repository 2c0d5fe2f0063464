// Every variant of the wgmma kernel through the gates. Small problems all go to those for few rows; here
// there are mostly as many heads as the GPU has SMs, and the number of queries decides which variant takes
// them.
#include <fmt/format.h>

#include "core/problem.hpp"
#include "cuda/sm90/choose.hpp"
#include "support.hpp"

namespace tessera::testing_cuda {
namespace {

using cases::Input;
using cuda::sm90::Variant;

struct Shape {
  const char* name;
  Variant variant;
  const char* queries_and_dims;
  const char* where_later_rows_see_more = nullptr;  // what goes to the variant then; null: not to be tried
  int sms_a_head = 1;
};

struct Row {
  const char* dtype_and_options;
  Input input;
  bool later_rows_see_more = false;
  bool few_keys = false;  // a row tile visits few, however many there are
};

constexpr Row kRows[] = {{"f16", Input::normal},
                         {"bf16 causal=top-left layout=bshd", Input::normal, true},
                         {"f16 causal=bottom-right sinks", Input::dominant, true},  // k < q: rows see nothing
                         {"bf16 causal=bottom-right window=40,0", Input::normal, false, true},
                         {"f16", Input::dominant},
                         {"f16 lengths", Input::nonfinite}};

class VariantsOf : public testing::TestWithParam<Shape> {};

cases::Instance instance_of(const Shape& shape, const Row& row, int sms) {
  return cases::Instance(
      case_of(fmt::format("b1 h{} {} {}", sms / shape.sms_a_head,
                          row.later_rows_see_more ? shape.where_later_rows_see_more : shape.queries_and_dims,
                          row.dtype_and_options)),
      row.input, 5);
}

bool tries(const Shape& shape, const Row& row) {
  return !row.later_rows_see_more || shape.where_later_rows_see_more != nullptr;
}

void expect_choice(const Shape& shape, const Row& row, const cases::Instance& instance, int sms) {
  core::Problem problem;
  ASSERT_TRUE(core::validate(instance.problem(), &problem).ok());
  // Where there is a twin, it takes tall's problems if its tiles visit few keys.
  const cuda::sm90::Choice choice = cuda::sm90::choose(problem, sms);
  const bool twin = shape.variant == Variant::tall && row.few_keys && cuda::sm90::has_twin(choice.tiling.dim);
  EXPECT_EQ(choice.variant, twin ? Variant::twin : shape.variant) << row.dtype_and_options;
}

void expect_passes(const Shape& shape, const Row& row, cases::Instance instance) {
  tessera_device device = gpu_device();
  device.kernel = "sm90";
  expect_choice(shape, row, instance, cuda::runtime::find_gpu(0, nullptr)->sms);
  const cases::Verdict verdict = cases::judge(instance, cases::expect(instance), device);
  EXPECT_TRUE(verdict.passed) << verdict.why << "\n" << verdict.reproduce;
}
void expect_passes(const Shape& shape, const Row& row) {
  expect_passes(shape, row, instance_of(shape, row, cuda::runtime::find_gpu(0, nullptr)->sms));
}

const core::Kernel& sm90_row() {
  for (const core::Kernel& kernel : core::kernels())
    if (kernel.name == "sm90") return kernel;
  return core::kernels().back();
}

#define SKIP_WITHOUT_SM90_GPU() \
  SKIP_WITHOUT_GPU();           \
  if (const std::string why = core::missing(sm90_row(), gpu_device()); !why.empty()) GTEST_SKIP() << why

TEST_P(VariantsOf, PassTheGatesWithEveryOptionTheyHave) {
  SKIP_WITHOUT_SM90_GPU();
  for (const Row& row : kRows)
    if (tries(GetParam(), row)) expect_passes(GetParam(), row);
}

// Without a GPU as well: else a change of the cost model would show on a GPU alone.
TEST_P(VariantsOf, AreChosenOnAnH200) {
  constexpr int kSms = 132;
  for (const Row& row : kRows)
    if (tries(GetParam(), row)) expect_choice(GetParam(), row, instance_of(GetParam(), row, kSms), kSms);
}

// Tiles that need masking before and behind some that need none.
TEST(Variants, PassTheGatesWithWindowsOfManyTiles) {
  SKIP_WITHOUT_SM90_GPU();
  for (const Shape& shape :
       {Shape{"", Variant::plain, "q120 k900 d128"}, Shape{"", Variant::plain, "q120 k1010 d128"},
        Shape{"", Variant::twin, "q250 k900 d64"}, Shape{"", Variant::twin, "q1000 k900 d64"},
        Shape{"", Variant::tall, "q250 k900 d72"}, Shape{"", Variant::plain, "q120 k900 d80"},
        Shape{"", Variant::plain, "q250 k900 d256"}, Shape{"", Variant::split, "q60 k1500 d64"},
        Shape{"", Variant::narrow, "q30 k1500 d64"}, Shape{"", Variant::split, "q60 k900 d128"},
        Shape{"", Variant::narrow, "q30 k900 d128"}})
    expect_passes(shape, {"bf16 causal=bottom-right window=500,0", Input::normal});
  expect_passes({"", Variant::tall, "q1000 k1900 d64", nullptr, 4},
                {"bf16 causal=bottom-right window=900,0", Input::normal});
}

TEST(Variants, PassTheGatesWithOptionsInManyTiles) {
  SKIP_WITHOUT_SM90_GPU();
  const std::pair<Variant, const char*> options[] = {
      {Variant::softcap, "bf16 causal=top-left softcap=30"},
      {Variant::softcap, "f16 softcap=1"},
      {Variant::softcap, "f16 causal=bottom-right scale=-0.1"},
      {Variant::alibi, "bf16 causal=bottom-right alibi"},
      {Variant::alibi, "f16 align=top-left alibi"},
      {Variant::alibi, "f16 align=top-left window=150,90 alibi"},
      {Variant::general, "bf16 mask=boolean:queries-keys:documents70"},
      {Variant::general, "f16 mask=boolean:heads-queries-keys:tiles64"},
      {Variant::general, "bf16 mask=additive-f32:batch-keys:padding lengths"},
      {Variant::general, "f16 mask=additive-bf16:heads-queries-keys:bias causal=bottom-right"},
      {Variant::general, "f16 align=top-left mask=additive:tiles64 alibi softcap=5"}};
  for (const char* dims : {"q250 k200 d256", "q600 k200 d128", "q700 k300 d64", "q300 k301 d192 v128"})
    for (const auto& [variant, words] : options)
      expect_passes(Shape{"", variant, dims}, {words, Input::normal});
}

// Four batch entries, each with about a quarter as many heads as there are SMs; two of those share K and V.
// With `lengths`, one entry of four has all keys, one has none, the others something between.
constexpr Shape kSharedShapes[] = {
    {"", Variant::split, "q60 k300 d64"},  {"", Variant::split, "q60 k200 d128"},
    {"", Variant::narrow, "q30 k300 d64"}, {"", Variant::narrow, "q30 k200 d128"},
    {"", Variant::twin, "q700 k300 d64"},  {"", Variant::tall, "q700 k300 d72"},
    {"", Variant::plain, "q120 k300 d72"}, {"", Variant::plain, "q250 k200 d256"}};
constexpr Row kSharedRows[] = {{"f16 lengths", Input::normal},
                               {"bf16 lengths causal=bottom-right sinks", Input::normal}};

cases::Instance shared_instance(const Shape& shape, const Row& row, int sms) {
  return cases::Instance(case_of(fmt::format("b4 h{}/{} {} {}", sms / 8 * 2, sms / 8, shape.queries_and_dims,
                                             row.dtype_and_options)),
                         row.input, 1);
}

TEST(Variants, PassTheGatesWhereHeadsShareKeysAndBatchEntriesDiffer) {
  SKIP_WITHOUT_SM90_GPU();
  const int sms = cuda::runtime::find_gpu(0, nullptr)->sms;
  for (const Shape& shape : kSharedShapes)
    for (const Row& row : kSharedRows) expect_passes(shape, row, shared_instance(shape, row, sms));
}

TEST(Variants, ThoseWithSharedHeadsAreChosenOnAnH200) {
  constexpr int kSms = 132;
  for (const Shape& shape : kSharedShapes)
    for (const Row& row : kSharedRows) expect_choice(shape, row, shared_instance(shape, row, kSms), kSms);
}

// The last 16 bytes of an output row belong to it only in part; what is behind them must stay as it is.
TEST(Variants, WriteNothingBehindTheLastColumn) {
  SKIP_WITHOUT_SM90_GPU();
  for (const Shape& shape :
       {Shape{"", Variant::split, "q60 k90 d60 v44"}, Shape{"", Variant::narrow, "q30 k90 d60 v44"},
        Shape{"", Variant::narrow, "q30 k90 d120 v101"}, Shape{"", Variant::plain, "q120 k90 d60 v44"},
        Shape{"", Variant::twin, "q250 k90 d60 v44"}, Shape{"", Variant::tall, "q250 k90 d79 v66"},
        Shape{"", Variant::tall, "q250 k90 d65 v44"}, Shape{"", Variant::plain, "q120 k90 d40 v77"},
        Shape{"", Variant::split, "q60 k90 d120 v100"}, Shape{"", Variant::plain, "q120 k90 d120 v101"},
        Shape{"", Variant::plain, "q100 k90 d250 v233"}})
    expect_passes(shape, {"f16 layout=aligned", Input::normal});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, VariantsOf,
    testing::Values(Shape{"split_d64", Variant::split, "q60 k200 d64", "q60 k200 d64"},
                    Shape{"split_d64_few_keys", Variant::split, "q60 k40 d64", "q60 k40 d64"},
                    Shape{"split_d64_many_keys", Variant::split, "q60 k900 d64", "q60 k900 d64"},
                    Shape{"split_d128_many_keys", Variant::split, "q60 k500 d128", "q60 k500 d128"},
                    Shape{"split_d128_few_keys", Variant::split, "q60 k40 d128", "q60 k40 d128"},
                    Shape{"narrow_d64", Variant::narrow, "q30 k200 d64", "q30 k200 d64"},
                    Shape{"narrow_d64_three_tiles", Variant::narrow, "q20 k300 d64", "q20 k300 d64"},
                    Shape{"narrow_d64_many_keys", Variant::narrow, "q30 k900 d64", "q30 k900 d64"},
                    Shape{"narrow_d128", Variant::narrow, "q30 k500 d128", "q30 k500 d128"},
                    Shape{"narrow_d128_few_keys", Variant::narrow, "q30 k20 d128", "q30 k20 d128"},
                    Shape{"plain_d64", Variant::plain, "q120 k200 d64", "q120 k200 d64"},
                    Shape{"plain_d64_three_tiles", Variant::plain, "q380 k200 d64"},
                    Shape{"plain_d64_few_heads", Variant::plain, "q1000 k300 d64", "q1500 k700 d64", 8},
                    // Of 7 or 19 causal tiles of 128 rows twin would leave some without a partner.
                    Shape{"tall_d64", Variant::tall, "q250 k1100 d64", "q850 k800 d64"},
                    Shape{"tall_d64_many_tiles", Variant::tall, "q500 k1030 d64", "q2400 k300 d64"},
                    Shape{"twin_d64", Variant::twin, "q250 k150 d64", "q900 k800 d64"},
                    Shape{"twin_d64_many_tiles", Variant::twin, "q2300 k70 d64", "q2300 k300 d64"},
                    Shape{"twin_d64_one_tile", Variant::twin, "q500 k60 d64"},
                    Shape{"tall_d80", Variant::tall, "q250 k150 d80", "q900 k800 d80"},
                    Shape{"tall_d72", Variant::tall, "q250 k150 d72", "q900 k400 d72"},
                    Shape{"tall_d72_many_tiles", Variant::tall, "q2300 k70 d72", "q2300 k300 d72"},
                    Shape{"plain_d72", Variant::plain, "q120 k300 d72", "q120 k300 d72"},
                    Shape{"plain_d80_many_keys", Variant::plain, "q120 k900 d80"},
                    Shape{"split_d128", Variant::split, "q60 k150 d128", "q60 k150 d128"},
                    Shape{"plain_d128", Variant::plain, "q120 k300 d128", "q384 k300 d128"},
                    Shape{"plain_d128_many_keys", Variant::plain, "q120 k900 d128"},
                    Shape{"plain_d192", Variant::plain, "q250 k200 d192", "q250 k200 d192"},
                    Shape{"plain_d256", Variant::plain, "q100 k100 d256", "q100 k100 d256"},
                    Shape{"plain_d256_two_tiles", Variant::plain, "q250 k200 d256", "q250 k200 d256"}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace tessera::testing_cuda
