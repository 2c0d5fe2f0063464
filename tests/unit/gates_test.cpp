// The gates themselves: a correct kernel passes them, and every mistake of fake_kernel.hpp is caught, by
// the gate that is meant to catch it.
#include "cases/gates.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fake_kernel.hpp"
#include "tests/case_of.hpp"

namespace {

using namespace tessera::cases;
using tessera::fake::Mistake;
using tessera::testing_cases::case_of;

Verdict judge_fake(const Case& c, Input input, std::uint64_t seed, Mistake mistake) {
  Instance instance(c, input, seed);
  const tessera_device cpu = TESSERA_DEVICE_INIT;
  return judge(instance, expect(instance), cpu, [=](const tessera_attention& p, const tessera_device& d) {
    return tessera::fake::attend(p, d, mistake);
  });
}

struct Caught {
  const char* name;
  Mistake mistake;
  const char* gate;  // how the verdict must start
  const char* words;
  Input input = Input::normal;
};

class Mistakes : public testing::TestWithParam<Caught> {};

TEST_P(Mistakes, AreCaught) {
  const Caught& m = GetParam();
  const Case c = case_of(m.words);
  const Verdict honest = judge_fake(c, m.input, 1, Mistake::none);
  EXPECT_TRUE(honest.passed) << honest.why;
  const Verdict wrong = judge_fake(c, m.input, 1, m.mistake);
  EXPECT_FALSE(wrong.passed) << m.words;
  EXPECT_EQ(wrong.why.rfind(m.gate, 0), 0u) << wrong.why;
  fmt::print("{:32} {}\n", m.name, wrong.why);
}

const char* const kBase = "b2 h4/2 q20 k50 d32 f32";
const char* const kBaseF16 = "b2 h4/2 q20 k50 d32 f16";

INSTANTIATE_TEST_SUITE_P(
    All, Mistakes,
    testing::Values(
        Caught{"causal_off_by_one", Mistake::causal_off_by_one, "bound",
               "b1 h2 q20 k50 d32 f32 causal=bottom-right"},
        Caught{"causal_off_by_one_f16", Mistake::causal_off_by_one, "bound",
               "b1 h2 q300 k300 d32 f16 causal=top-left"},
        Caught{"dropped_last_key", Mistake::dropped_last_key, "bound", kBase},
        Caught{"dropped_last_key_bf16", Mistake::dropped_last_key, "bound", "b1 h1 q20 k400 d32 bf16"},
        Caught{"scale_off_by_one_percent", Mistake::scale_off_by_one_percent, "bound", kBase},
        Caught{"scale_off_by_one_percent_f16", Mistake::scale_off_by_one_percent, "bound", kBaseF16},
        Caught{"missing_rescale", Mistake::missing_rescale, "bound", kBase},
        Caught{"missing_sum_rescale", Mistake::missing_sum_rescale, "bound", kBaseF16},
        Caught{"wrong_head_group", Mistake::wrong_head_group, "bound", kBaseF16},
        Caught{"top_left_for_bottom_right", Mistake::top_left_for_bottom_right, "bound",
               "b1 h2 q20 k50 d32 f16 causal=bottom-right"},
        Caught{"window_one_too_wide", Mistake::window_one_too_wide, "bound",
               "b1 h2 q60 k60 d32 f16 causal=bottom-right window=40,0"},
        Caught{"ignores_softcap", Mistake::ignores_softcap, "bound", "b1 h2 q20 k50 d32 f16 softcap=10"},
        Caught{"ignores_alibi", Mistake::ignores_alibi, "bound",
               "b1 h2 q20 k50 d32 f16 alibi align=bottom-right"},
        Caught{"ignores_sink", Mistake::ignores_sink, "bound", "b1 h2 q20 k50 d32 f16 sinks"},
        Caught{"ignores_key_lengths", Mistake::ignores_key_lengths, "NaN and inf",
               "b4 h2 q20 k50 d32 f16 lengths"},
        Caught{"ignores_mask", Mistake::ignores_mask, "bound", "b1 h2 q20 k50 d32 f16 mask=additive"},
        Caught{"mask_of_first_head", Mistake::mask_of_first_head, "bound",
               "b1 h2 q20 k50 d32 f16 mask=boolean"},
        Caught{"lse_in_base_two", Mistake::lse_in_base_two, "bound: lse", kBase},
        Caught{"lse_without_maximum", Mistake::lse_without_maximum, "bound: lse", kBaseF16},
        Caught{"no_maximum", Mistake::no_maximum, "NaN and inf", kBase, Input::large},
        Caught{"hidden_value_times_zero", Mistake::hidden_value_times_zero, "NaN and inf",
               "b4 h2 q20 k50 d32 f32 lengths", Input::nonfinite},
        Caught{"adds_minus_infinity", Mistake::adds_minus_infinity, "NaN and inf",
               "b2 h2 q20 k50 d32 f32 mask=additive", Input::nonfinite},
        Caught{"adds_minus_infinity_to_padding", Mistake::adds_minus_infinity, "NaN and inf",
               "b4 h2 q20 k50 d32 f16 mask=additive:batch-keys", Input::nonfinite},
        Caught{"empty_row_divides_by_zero", Mistake::empty_row_divides_by_zero, "NaN and inf",
               "b1 h2 q20 k50 d32 f32 mask=boolean", Input::hidden},
        Caught{"half_precision_sum", Mistake::half_precision_sum, "bound", "b1 h2 q20 k200 d32 f16"},
        Caught{"half_precision_weights", Mistake::half_precision_weights, "bound", kBase},
        Caught{"flushes_subnormals", Mistake::flushes_subnormals, "bound", kBase, Input::tiny},
        Caught{"writes_past_the_end", Mistake::writes_past_the_end, "guard bands", kBase},
        Caught{"writes_into_a_gap", Mistake::writes_into_a_gap, "guard bands",
               "b2 h4/2 q20 k50 d32 f16 layout=padded"},
        Caught{"writes_behind_an_aligned_row", Mistake::writes_into_a_gap, "guard bands",
               "b2 h4/2 q20 k50 d32 v28 f16 layout=aligned"},
        Caught{"writes_an_input", Mistake::writes_an_input, "guard bands", kBaseF16},
        Caught{"skips_last_row", Mistake::skips_last_row, "poison", kBase},
        Caught{"skips_last_lse", Mistake::skips_last_lse, "poison", kBaseF16},
        Caught{"differs_every_run", Mistake::differs_every_run, "repeat", kBase},
        Caught{"differs_by_threads", Mistake::differs_by_threads, "threads", kBase}),
    [](const testing::TestParamInfo<Caught>& caught) { return std::string(caught.param.name); });

TEST(Gates, AFalseResultOnASeedShapeFails) {
  const Case c = case_of("mission256");
  Instance instance(c, Input::normal, 1);
  const tessera_device cpu = TESSERA_DEVICE_INIT;
  const Verdict v =
      judge(instance, expect(instance), cpu, [&](const tessera_attention& p, const tessera_device&) {
        const std::int64_t count = c.batch * c.heads * c.queries;
        for (std::int64_t n = 0; n < count * c.value_dim; ++n)
          tessera::oracle::store(p.output.data, c.dtype, n, 0.0);
        for (std::int64_t n = 0; n < count; ++n) static_cast<float*>(p.lse.data)[n] = 5.5f;
        return std::string();
      });
  EXPECT_FALSE(v.passed);
  EXPECT_GT(v.worst_ratio, 1.0);
  EXPECT_EQ(v.reproduce, "tessera verify --case \"mission256\" --input normal --seed 1");
}

TEST(Gates, ARefusalIsAFailureWithItsReason) {
  Instance instance(case_of(kBase), Input::normal, 1);
  const Verdict v =
      judge(instance, expect(instance), TESSERA_DEVICE_INIT,
            [](const tessera_attention&, const tessera_device&) { return std::string("not today"); });
  EXPECT_FALSE(v.passed);
  EXPECT_EQ(v.why, "no result: not today");
}

TEST(Gates, ReproduceNamesEverything) {
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kernel = "cpu_scalar";
  device.threads = 2;
  Instance instance(case_of("b1 h2/1 q3 k4 d5 f16 sinks"), Input::tiny, 42);
  const Verdict v =
      judge(instance, expect(instance), device, [](const tessera_attention& p, const tessera_device& d) {
        return tessera::fake::attend(p, d, Mistake::none);
      });
  EXPECT_TRUE(v.passed) << v.why;
  EXPECT_EQ(
      v.reproduce,
      "tessera verify --case \"b1 h2/1 q3 k4 d5 v5 f16 sinks\" --input tiny --seed 42 --kernel cpu_scalar "
      "--threads 2");
}

// An honest kernel must pass whatever the seed: hundreds of very small cases, where the yardstick may be
// right by luck and the bound is at its tightest.
TEST(Gates, AnHonestKernelPassesTinyCases) {
  int judged = 0;
  double worst = 0;
  for (const char* words :
       {"b1 h1 q1 k1 d1 f32", "b1 h1 q1 k2 d1 f32", "b1 h1 q1 k2 d3 f32", "b1 h1 q2 k2 d64 f32",
        "b1 h1 q1 k5 d16 v1 f32 softcap=5", "b1 h1 q2 k3 d8 f32 mask=additive", "b1 h1 q3 k3 d8 v2 f32 alibi",
        "b1 h1 q1 k3 d8 f16 sinks", "b1 h1 q2 k7 d40 bf16"}) {
    const Case c = case_of(words);
    for (Input input : all_inputs()) {
      for (std::uint64_t seed = 0; seed < 40; ++seed) {
        const Verdict v = judge_fake(c, input, seed, Mistake::none);
        ASSERT_TRUE(v.passed) << v.why << "\n" << v.reproduce;
        worst = std::max(worst, v.worst_ratio);
        ++judged;
      }
    }
  }
  fmt::print("{} tiny cases judged, worst error {:.2f} of the bound\n", judged, worst);
}

TEST(Gates, AnHonestKernelPassesTheSmallGroups) {
  int judged = 0;
  double worst = 0;
  for (const char* group : {"few", "options", "edge"}) {
    for (const Case& c : in_group(group)) {
      const double pairs = static_cast<double>(c.batch * c.heads * c.queries) * static_cast<double>(c.keys);
      if (pairs * static_cast<double>(c.dim) > 1e6) continue;  // the fake kernel is slow
      for (Input input : all_inputs()) {
        const Verdict v = judge_fake(c, input, 3, Mistake::none);
        EXPECT_TRUE(v.passed) << c.name << ": " << v.why << "\n" << v.reproduce;
        worst = std::max(worst, v.worst_ratio);
        ++judged;
      }
    }
  }
  EXPECT_GT(judged, 100);
  fmt::print("{} small cases judged, worst error {:.2f} of the bound\n", judged, worst);
}

}  // namespace
