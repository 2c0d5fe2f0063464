// Cases with new rows and rope: words, and that what a seed makes is what the tests of kernels count on.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "cases/gates.hpp"
#include "cases/sequences.hpp"
#include "core/append.hpp"
#include "core/problem.hpp"
#include "tests/case_of.hpp"

namespace {

using namespace tessera::cases;
using tessera::testing_cases::case_of;
using tessera::testing_cases::mistake_in;

TEST(AppendWords, GoBothWays) {
  const std::string text =
      "b4 h4/1 q5 k90 d64 v48 f16 align=bottom-right lengths ragged pages=16 latent append "
      "rope=interleaved:8+48 positions";
  const Case c = case_of(text);
  EXPECT_EQ(words(c), text);
  EXPECT_TRUE(c.append && c.latent && c.positions && c.rope_interleaved);
  EXPECT_EQ(c.rope_pairs, 8);
  EXPECT_EQ(c.rope_first, 48);
  EXPECT_EQ(words(case_of("q3 causal=bottom-right rope=halves:32")),
            "b1 h1 q3 k3 d64 v64 f32 causal=bottom-right rope=halves:32+0");
}

TEST(AppendWords, MistakesAreSentences) {
  const struct {
    const char *text, *sentence;
  } mistakes[] = {
      {"q3 append", "append : needs causal=bottom-right or align=bottom-right"},
      {"q3 causal=top-left append", "append : needs causal=bottom-right"},
      {"q3 causal=bottom-right packed append", "append and packed : packed keys have no room"},
      {"q3 latent v80", "latent : the values are the first dimensions of the keys, but v80 is more than d64"},
      {"q3 f8e4m3 latent", "latent : needs f32, f16 or bf16"},
      {"q3 positions", "positions : needs rope="},
      {"q3 causal=bottom-right rope=halves:4 positions alibi", "positions and alibi : slopes count"},
      {"q3 rope=halves:4", "rope= : needs causal=bottom-right, align=bottom-right or positions"},
      {"q3 f8e4m3 causal=bottom-right rope=halves:4", "rope= : needs f32, f16 or bf16"},
      {"q3 causal=bottom-right rope=halves:33",
       "rope= : 33 pairs of dimensions from 0 on do not fit into d64"},
      {"q3 causal=bottom-right rope=halves:32+1", "rope= : 32 pairs of dimensions from 1 on do not fit"},
      {"q3 causal=bottom-right rope=halves:1+9999999999", "rope= : 1 pairs of dimensions from 9999999999 on"},
      {"q3 rope=halves", "'rope=halves' : rope must be halves or interleaved, a number of pairs"},
      {"q3 rope=turned:4", "'rope=turned:4' : rope must be"},
      {"q3 rope=halves:0", "'rope=halves:0' : rope must be"},
      {"q3 rope=halves:4+-1", "'rope=halves:4+-1' : rope must be"},
      {"q3 rope=halves:4+", "'rope=halves:4+' : rope must be"},
      {"q3 rope=halves+4:4", "'rope=halves+4:4' : rope must be"},
  };
  for (const auto& m : mistakes) {
    const std::string error = mistake_in(m.text);
    EXPECT_EQ(error.rfind(m.sentence, 0), 0u) << error;
  }
}

float at(const tessera_tensor& t, std::int64_t offset) { return static_cast<const float*>(t.data)[offset]; }

// The slot of each new row is NaN, the new row is not; rows without a slot are NaN, and keys that were there
// are not. Positions are in the tables, and of some rows not where they stand on the key axis.
TEST(AppendInstances, SlotsArePoisonAndNewRowsAreNot) {
  int stored = 0, unstored = 0, elsewhere = 0;
  for (const char* text : {"b4 h2/1 q5 k9 d8 causal=bottom-right lengths append rope=halves:2 positions",
                           "b4 h2/1 q5 k9 d8 causal=bottom-right ragged pages=2 lengths append "
                           "rope=halves:2 positions layout=padded"}) {
    const Case c = case_of(text);
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const Instance instance(c, Input::normal, seed);
      const tessera_attention& p = instance.problem();
      const Sequences sequences(c, p);
      for (std::int64_t b = 0; b < c.batch; ++b) {
        if (sequences.rows_of(b) == 0) continue;  // then its keys need no pages either
        const std::int64_t first = sequences.key_length(b) - sequences.rows_of(b);
        for (std::int64_t j = 0; j < sequences.key_length(b); ++j)
          EXPECT_EQ(std::isnan(at(p.key, sequences.key_at(p.key, b, 0, j))), j >= first) << text;
        for (std::int64_t i = 0; i < sequences.rows_of(b); ++i) {
          const bool nan = std::isnan(at(p.new_value, sequences.query_at(p.new_value, b, 0, i)));
          EXPECT_EQ(nan, first + i < 0);
          (nan ? unstored : stored)++;
        }
      }
      tessera::core::Problem problem;
      ASSERT_TRUE(tessera::core::validate(p, &problem).ok());
      const tessera::core::Status status = tessera::core::validate_append_contents(problem);
      EXPECT_TRUE(status.ok()) << status.message;
      for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t i = 0; i < sequences.rows_of(b); ++i) {
          const std::int64_t row = c.ragged ? problem.query_offsets[b] + i : i;
          elsewhere += problem.append.position(b, row) != sequences.key_length(b) - sequences.rows_of(b) + i;
        }
    }
  }
  for (const int count : {stored, unstored, elsewhere}) EXPECT_GT(count, 50);
}

// The angles of the tables, and NaN behind the last position that a row may ask for.
TEST(AppendInstances, TablesAreThoseOfModels) {
  const Instance instance(case_of("q2 k9 d8 causal=bottom-right rope=halves:4"), Input::normal, 1);
  const tessera_attention& p = instance.problem();
  ASSERT_EQ(p.rope.cos.shape[0], 9 + 2);
  EXPECT_EQ(at(p.rope.cos, 0), 1.0f);
  EXPECT_EQ(at(p.rope.sin, 0), 0.0f);
  EXPECT_FLOAT_EQ(at(p.rope.cos, 8 * 4 + 1), std::cos(0.8f));
  EXPECT_FLOAT_EQ(at(p.rope.sin, 8 * 4 + 3), std::sin(0.008f));
  EXPECT_TRUE(std::isnan(at(p.rope.cos, 9 * 4)) && std::isnan(at(p.rope.sin, 10 * 4 + 3)));
}

// Without rope a call that stores its keys is the call that finds them: the same truth, bit for bit.
TEST(AppendInstances, WithoutRopeTheTruthIsThatOfTheCaseWithout) {
  const Instance one(case_of("b3 h4/2 q5 k30 d16 bf16 causal=bottom-right ragged pages=4 lengths append"),
                     Input::normal, 3),
      two(case_of("b3 h4/2 q5 k30 d16 bf16 causal=bottom-right ragged pages=4 lengths"), Input::normal, 3);
  EXPECT_EQ(expect(one).truth.output, expect(two).truth.output);
  EXPECT_EQ(expect(one).output_bound, expect(two).output_bound);
}

// New rows are read beside what a call without them costs; of latent ones there are keys alone.
TEST(AppendWork, CountsWhatIsRead) {
  const auto bytes = [](const std::string& text) { return work(case_of(text)).bytes; };
  const std::string text = "b2 h4/1 q3 k10 d8 v4 f16 causal=bottom-right";
  const double rows = 2 * 3 * 2.0, keys = 2 * 10 * 2.0;  // in bytes of a dimension
  EXPECT_DOUBLE_EQ(bytes(text + " append"), bytes(text) + rows * (8 + 4));
  EXPECT_DOUBLE_EQ(bytes(text + " latent"), bytes(text) - keys * 4);
  EXPECT_DOUBLE_EQ(bytes(text + " latent append"), bytes(text) - keys * 4 + rows * 8);
  EXPECT_EQ(work(case_of(text + " latent append")).flops, work(case_of(text)).flops);
  const std::string parts = "b2 h4/1 q3 k10 d8 v4 f16 ragged prior=2";
  EXPECT_DOUBLE_EQ(bytes(parts + " latent"), bytes(parts) - keys * 4);
}

TEST(AppendInstances, LatentValuesLieInKeys) {
  const Instance instance(case_of("b2 h4/1 q3 k9 d16 v12 causal=bottom-right latent append"), Input::normal,
                          1);
  const tessera_attention& p = instance.problem();
  EXPECT_EQ(p.value.data, p.key.data);
  EXPECT_EQ(p.value.strides[2], 16);
  EXPECT_EQ(p.new_value.rank, 0);
}

}  // namespace
