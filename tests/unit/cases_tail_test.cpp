// Cases of keys in two tensors: words, and that what a seed makes is what the tests of kernels count on.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cases/gates.hpp"
#include "cases/sequences.hpp"

namespace {

using namespace tessera::cases;

Case case_of(const std::string& text) {
  std::string error;
  const auto c = parse(text, &error);
  EXPECT_TRUE(c.has_value()) << text << ": " << error;
  return c.value_or(Case{});
}

TEST(TailWords, GoBothWays) {
  const std::string text =
      "b2 h16/1 q2 k100 d576 v512 bf16 causal=bottom-right ragged pages=64 cache=f8e4m3 scales=head tail=64 "
      "latent append rope=interleaved:32+512";
  const Case c = case_of(text);
  EXPECT_EQ(words(c), text);
  EXPECT_EQ(c.tail, 64);
  EXPECT_EQ(c.key_dim(), 512);
}

TEST(TailWords, MistakesAreSentences) {
  const struct {
    const char *text, *sentence;
  } mistakes[] = {
      {"q3 tail=0", "'tail=0' : tail must be a whole number of 1 or more"},
      {"q3 tail=x", "'tail=x' : tail must be a whole number of 1 or more"},
      {"q3 d64 tail=64", "tail= : the last 64 dimensions of d64 leave none to key"},
      {"q3 f8e4m3 tail=8", "tail= : needs f32, f16 or bf16"},
      {"q3 d96 v80 tail=32 latent",
       "latent : the values are the first dimensions of the keys, but v80 is more than d96 less tail=32"},
  };
  for (const auto& m : mistakes) {
    std::string error;
    EXPECT_FALSE(parse(m.text, &error).has_value()) << m.text;
    EXPECT_EQ(error.rfind(m.sentence, 0), 0u) << error;
  }
}

// NaN in the rows of the tail that no key has: those behind the last key of a page, and pages of nobody.
TEST(TailInstances, UnusedRowsAreNan) {
  const Case c = case_of("b3 h2/1 q3 k20 d12 v8 f32 ragged lengths pages=8 tail=4");
  int nan = 0, used = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Instance instance(c, Input::normal, seed);
    const tessera_tensor &t = instance.problem().key_tail, &key = instance.problem().key;
    ASSERT_EQ(t.shape[3], 4);
    ASSERT_EQ(key.shape[3], 8);
    for (std::int64_t page = 0; page < t.shape[0]; ++page)
      for (std::int64_t row = 0; row < t.shape[2]; ++row) {
        const auto is_nan = [&](const tessera_tensor& of) {
          return std::isnan(static_cast<const float*>(of.data)[page * of.strides[0] + row * of.strides[2]]);
        };
        EXPECT_EQ(is_nan(t), is_nan(key));
        (is_nan(t) ? nan : used)++;
      }
  }
  EXPECT_GT(nan, 50);
  EXPECT_GT(used, 10);
}

// A new key is lifted out of both: what is left there is NaN.
TEST(TailInstances, NewKeysHaveBothParts) {
  const Case c = case_of("b2 h2/1 q3 k20 d12 v8 bf16 causal=bottom-right tail=4 cache=f8e4m3 append");
  const Instance instance(c, Input::normal, 1);
  const tessera_attention& p = instance.problem();
  ASSERT_EQ(p.new_key.shape[3], 12);
  for (std::int64_t d = 0; d < 12; ++d)
    EXPECT_FALSE(std::isnan(tessera::oracle::load(p.new_key.data, TESSERA_BF16, d))) << d;
  for (std::int64_t j = 0; j < 20; ++j) {
    const double x = tessera::oracle::load(p.key_tail.data, TESSERA_BF16, j * p.key_tail.strides[2]);
    EXPECT_EQ(std::isnan(x), j >= 17) << j;
  }
}

TEST(TailWork, CountsTheTailInItsOwnDtype) {
  const auto bytes = [](const std::string& text) { return work(case_of(text)).bytes; };
  const std::string text = "b2 h4/1 q3 k10 d24 v4 f16";
  EXPECT_DOUBLE_EQ(bytes(text + " tail=8"), bytes(text));
  EXPECT_DOUBLE_EQ(bytes(text + " tail=8 cache=i8"), bytes(text + " cache=i8") + 2 * 10 * 8);
  EXPECT_EQ(work(case_of(text + " tail=8")).flops, work(case_of(text)).flops);
}

}  // namespace
