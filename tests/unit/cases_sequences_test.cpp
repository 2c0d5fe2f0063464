// Cases of ragged and paged batches: words, work, and that what a seed makes is what the tests of kernels
// count on.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "cases/gates.hpp"
#include "cases/sequences.hpp"
#include "core/problem.hpp"
#include "tests/case_of.hpp"

namespace {

using namespace tessera::cases;
using tessera::testing_cases::case_of;
using tessera::testing_cases::mistake_in;

TEST(SequenceWords, GoBothWays) {
  const std::string text =
      "b4 h4/2 q5 k90 d64 v64 f16 causal=bottom-right lengths ragged pages=16 prior=2 out=f32";
  const Case c = case_of(text);
  EXPECT_EQ(words(c), text);
  EXPECT_TRUE(c.ragged && c.page == 16 && c.priors == 2 && c.output_dtype == TESSERA_F32 && !c.packed);
  EXPECT_EQ(words(case_of("b2 h2 q8 k50 mask=boolean:queries-keys:last8 packed")),
            "b2 h2 q8 k50 d64 v64 f32 mask=boolean:queries-keys:last8 packed");
}

TEST(SequenceWords, OfACacheSurviveARoundTrip) {
  const std::string text = "b1 h2 q1 k90 d64 v64 bf16 cache=i8 scales=block64 transposed";
  const Case c = case_of(text);
  EXPECT_EQ(words(c), text);
  EXPECT_TRUE(c.dtype == TESSERA_BF16 && c.cache == TESSERA_I8 && c.output_dtype == 0);
}

TEST(SequenceWords, MistakesAreSentences) {
  const struct {
    const char *text, *sentence;
  } mistakes[] = {
      {"q3 packed pages=16", "packed and pages= : keys lie"},
      {"q3 packed lengths", "packed and lengths : packed keys have offsets"},
      {"q3 prior=2", "prior= : needs ragged"},
      {"q3 ragged pages=0", "'pages=0' : pages must be a whole number of 1 or more"},
      {"q3 ragged prior=x", "'prior=x' : prior must be"},
      {"q3 out=f16", "out=f16 : needs f8e4m3 or f8e5m2"},
      {"q3 cache=bf16", "'cache=bf16' : cache must be f8e4m3, f8e5m2 or i8"},
      {"q3 f8e4m3 cache=i8", "cache= : needs f32, f16 or bf16"},
      {"q3 scales=head", "scales= : needs f8e4m3, f8e5m2 or cache="},
      {"q3 transposed", "transposed : needs f8e4m3, f8e5m2 or cache="},
      {"q3 bf16 cache=i8 precision=fast", "precision=fast : needs f8e4m3 or f8e5m2"},
      {"q3 bf16 cache=i8 out=f16", "out=f16 : needs f8e4m3 or f8e5m2"},
      {"q3 ragged alibi", "alibi : needs causal= or align="},
      {"q9 mask=boolean:queries:last3", "'mask=boolean:queries:last3' : last needs a mask with keys"},
      {"q9 ragged mask=boolean:documents3", "'mask=boolean:documents3' : documents, blocks and padding need"},
  };
  for (const auto& m : mistakes) {
    const std::string error = mistake_in(m.text);
    EXPECT_EQ(error.rfind(m.sentence, 0), 0u) << error;
  }
}

// Three rows in all are six: 6 x 10 pairs, whatever the pages round up to; causal counts rows shared out
// evenly.
TEST(SequenceWork, CountsKeysAndNotRoomForThem) {
  EXPECT_EQ(work(case_of("b2 q3 k10 d1 ragged pages=16")).flops, 2 * 60 * 2.0);
  EXPECT_EQ(work(case_of("b2 q3 k10 d1 ragged packed")).flops, 2 * 60 * 2.0);
  EXPECT_EQ(work(case_of("b2 q3 k10 d1 ragged pages=4 causal=bottom-right")).flops,
            2 * 2 * (8 + 9 + 10) * 2.0);
  // Query, output and lse of six rows, keys and values, three entries of the table for ten keys, in f32.
  EXPECT_DOUBLE_EQ(work(case_of("b2 q3 k10 d1 ragged pages=4")).bytes,
                   6 * 12.0 + 2 * 10 * 8 + 2 * 10 * 4 / 4.0);
  const Case wide = case_of("b2 q3 k10 d2 f16 ragged packed out=f32 prior=2");
  const double row = 2 * 2 + 2 * 4 + 4, key = 2 * 4, part = 2 * 4 + 4;  // an output of f32 has parts of f32
  EXPECT_DOUBLE_EQ(work(wide).bytes, 6 * row + 2 * 10 * key + 2 * 6 * part);
}

// Over some seeds: entries with nothing, one and all of their rows and keys, and rows of no entry.
TEST(SequenceInstances, DrawEveryLength) {
  std::set<std::int64_t> rows, keys, lengths;
  bool before = false, behind = false;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Case packed = case_of("b4 h2 q5 k9 d8 ragged packed"),
               paged = case_of("b4 h2 q5 k9 d8 ragged pages=2 lengths");
    const Instance one(packed, Input::normal, seed), two(paged, Input::normal, seed);
    const Sequences a(packed, one.problem()), b(paged, two.problem());
    for (std::int64_t n = 0; n < 4; ++n) {
      rows.insert(a.rows_of(n));
      keys.insert(a.key_length(n));
      lengths.insert(b.key_length(n));
    }
    before |= a.query_at(one.problem().query, 0, 0, 0) > 0;
    behind |= a.query_at(one.problem().query, 3, 0, a.rows_of(3)) < 20 * 8;
  }
  for (const auto& [seen, most] : {std::pair{rows, 5}, {keys, 9}, {lengths, 9}})
    for (const int n : {0, 1, most}) EXPECT_TRUE(seen.contains(n)) << n;
  EXPECT_TRUE(before && behind);
}

// Every page has one owner at most, the order is not that of the table, and NaN is wherever no key is.
TEST(SequenceInstances, PagesAreShuffledAndTheRestIsPoison) {
  const Case c = case_of("b4 h2 q2 k40 d8 causal=bottom-right window=9,0 ragged pages=4 lengths");
  int minus_one = 0, out_of_order = 0, poison = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Instance instance(c, Input::normal, seed);
    const tessera_attention& p = instance.problem();
    const auto* table = static_cast<const std::int32_t*>(p.page_table.data);
    std::set<std::int32_t> pages;
    for (std::int64_t n = 0; n < 4 * table_pages(c); ++n) {
      minus_one += table[n] == -1;
      if (table[n] >= 0) {
        EXPECT_TRUE(pages.insert(table[n]).second) << "page " << table[n] << " twice";
      }
      out_of_order += n > 0 && table[n] >= 0 && table[n - 1] > table[n];
    }
    for (std::int64_t page = 0; page < p.key.shape[0]; ++page) {
      if (pages.contains(static_cast<std::int32_t>(page))) continue;
      for (std::int64_t d = 0; d < 2 * 4 * 8; ++d, ++poison)
        EXPECT_TRUE(std::isnan(static_cast<const float*>(p.value.data)[page * p.value.strides[0] + d]));
    }
    // The library agrees that what is there is all that is needed.
    tessera::core::Problem problem;
    ASSERT_TRUE(tessera::core::validate(p, &problem).ok());
    const tessera::core::Status status = tessera::core::validate_contents(problem);
    EXPECT_TRUE(status.ok()) << status.message;
  }
  EXPECT_GT(minus_one, 100);
  EXPECT_GT(out_of_order, 10);
  EXPECT_GT(poison, 1000);
}

}  // namespace
