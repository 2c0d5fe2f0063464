// The case list, its words, and what instances are made of.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>

#include "cases/case.hpp"
#include "cases/instance.hpp"
#include "cases/random.hpp"
#include "oracle/oracle.hpp"
#include "oracle/reading.hpp"
#include "tests/case_of.hpp"

namespace {

using namespace tessera::cases;
using tessera::testing_cases::case_of;
using tessera::testing_cases::mistake_in;

bool same_shape(Case a, const Case& b) {
  a.name = b.name;
  a.group = b.group;
  return a == b;
}

TEST(Words, RoundTripOverTheList) {
  ASSERT_GT(named().size(), 100u);
  for (const Case& c : named()) EXPECT_TRUE(same_shape(case_of(words(c)), c)) << c.name << ": " << words(c);
}

TEST(Words, RoundTripOverRandomCases) {
  const Random random(2026, 1);
  std::uint64_t at = 0;
  const auto pick = [&](std::int64_t limit) { return random.below(at++, limit); };
  for (int n = 0; n < 2000; ++n) {
    Case c;
    c.batch = pick(5);
    c.kv_heads = 1 + pick(4);
    c.heads = c.kv_heads * (1 + pick(4));
    c.queries = pick(1000);
    c.keys = pick(1000);
    c.dim = 1 + pick(TESSERA_MAX_HEAD_DIM);
    c.value_dim = 1 + pick(TESSERA_MAX_HEAD_DIM);
    c.dtype = static_cast<tessera_dtype>(TESSERA_F32 + pick(3));
    c.layout = static_cast<Layout>(pick(4));
    c.align = static_cast<tessera_align>(pick(3));
    if (c.align != TESSERA_ALIGN_NONE) {
      c.left = pick(20) - 1;
      c.right = pick(3) - 1;
    }
    c.mask_shape = static_cast<MaskShape>(pick(9));
    if (c.mask_shape != MaskShape::none) c.mask_type = static_cast<MaskType>(pick(2));
    if (c.mask_shape != MaskShape::none && c.mask_type == MaskType::additive) {
      c.mask_dtype = static_cast<tessera_dtype>(pick(4));
      c.mask_lowest = pick(2) == 0;
    }
    if (c.mask_shape == MaskShape::full) {
      c.mask_content = static_cast<MaskContent>(pick(5));
      const bool sized = c.mask_content == MaskContent::documents || c.mask_content == MaskContent::blocks ||
                         c.mask_content == MaskContent::tiles;
      if (sized) c.mask_block = 1 + pick(900);
    }
    c.key_lengths = pick(2) == 0;
    c.alibi = pick(2) == 0 && c.align != TESSERA_ALIGN_NONE;
    c.sinks = pick(2) == 0;
    c.softcap = pick(2) == 0 ? 0.0f : std::fabs(random.normal(at++));
    c.scale = pick(2) == 0 ? 0.0f : random.normal(at++);
    EXPECT_TRUE(same_shape(case_of(words(c)), c)) << words(c);
  }
}

TEST(Words, Defaults) {
  const Case c = case_of("f16 q7 h6/3 d40");
  EXPECT_EQ(words(c), "b1 h6/3 q7 k7 d40 v40 f16");
  EXPECT_EQ(c.name, words(c));
  EXPECT_EQ(c.group, "");
  EXPECT_EQ(words(case_of("q3 causal=top-left")), "b1 h1 q3 k3 d64 v64 f32 causal=top-left");
  EXPECT_EQ(words(case_of("q3 align=bottom-right window=inf,2")),
            "b1 h1 q3 k3 d64 v64 f32 align=bottom-right window=inf,2");
  EXPECT_EQ(case_of("q3").scale, 0.0f);  // 1 / sqrt(dim)
  EXPECT_EQ(case_of("q3 scale=0").scale, TESSERA_SCALE_ZERO);
  EXPECT_EQ(words(case_of("q3 scale=0")), "b1 h1 q3 k3 d64 v64 f32 scale=0");
}

TEST(Words, ANameMayBeChanged) {
  const Case c = case_of("canon_1 bf16 layout=bshd");
  EXPECT_EQ(words(c), "b4 h16 q2048 k2048 d128 v128 bf16 layout=bshd");
  EXPECT_EQ(c.group, "");
  EXPECT_EQ(case_of("canon_3").name, "mission512");
}

TEST(Words, MistakesGetASentence) {
  const struct {
    const char* text;
    const char* sentence;
  } mistakes[] = {
      {"", "the case is empty"},
      {"b1 q-3", "'q-3' : queries must be 0 or more"},
      {"qx", "'qx' : not a case name"},
      {"q3x", "'q3x' : queries must be a whole number"},
      {"q99999999999999999999", "'q99999999999999999999' : queries must be a whole number"},
      {"q99999999999", "'q99999999999' : queries must be 4294967296 or less"},
      {"d0", "'d0' : dim must be 1 or more"},
      {"d1025", "'d1025' : dim must be 1024 or less"},
      {"h7/2", "'h7/2' : query heads must be a multiple of key heads"},
      {"h0", "'h0' : heads must be between 1 and"},
      {"h4/", "'h4/' : heads must be a whole number"},
      {"q3 q4", "'q4' : q is given twice"},
      {"f16 bf16", "'bf16' : dtype is given twice"},
      {"f64", "'f64' : not a case name"},
      {"causal=yes", "'causal=yes' : causal must be top-left or bottom-right"},
      {"causal=top-left align=top-left", "causal= and align= : give one of them"},
      {"causal=top-left window=3,1", "window=3,1 : with causal= the right side must be 0"},
      {"window=3,1", "window= : needs an alignment"},
      {"align=top-left window=3", "'window=3' : window must be left,right"},
      {"align=top-left window=-3,1", "'window=-3,1' : window must be left,right"},
      {"mask=some", "'mask=some' : mask must be boolean, additive or additive- with f32"},
      {"mask=additive-i32", "'mask=additive-i32' : mask must be"},
      {"mask=boolean:documents", "'mask=boolean:documents' : mask must be"},
      {"mask=boolean:documents0", "'mask=boolean:documents0' : mask must be"},
      {"mask=boolean:documents7x", "'mask=boolean:documents7x' : mask must be"},
      {"mask=boolean:padding3", "'mask=boolean:padding3' : mask must be"},
      {"mask=boolean:none", "'mask=boolean:none' : mask must be"},
      {"mask=boolean:", "'mask=boolean:' : mask must be"},
      {"mask=boolean:bias", "'mask=boolean:bias' : bias and lowest are for additive masks"},
      {"mask=boolean:lowest", "'mask=boolean:lowest' : bias and lowest are for additive masks"},
      {"mask=additive:bias:lowest", "'mask=additive:bias:lowest' : a bias hides nothing"},
      {"mask=boolean:queries:padding", "'mask=boolean:queries:padding' : padding needs a mask with keys"},
      {"mask=boolean:keys:tiles4", "'mask=boolean:keys:tiles4' : documents, blocks and tiles need"},
      {"q20000000 k1 mask=boolean:queries-keys:blocks4",
       "'mask=boolean:queries-keys:blocks4' : documents and blocks take"},
      {"mask=boolean:rows", "'mask=boolean:rows' : mask must be"},
      {"scale=nan", "'scale=nan' : scale must be a finite number"},
      {"scale=x", "'scale=x' : scale must be a finite number"},
      {"softcap=-1", "'softcap=-1' : softcap must be 0 or more"},
      {"layout=hbsd", "'layout=hbsd' : layout must be bhsd, bshd, padded or aligned"},
      {"colour=red", "'colour=red' : no option colour="},
      {"q3 k4 alibi", "alibi : needs causal= or align="},
      {"b100000 h100 q100000 d1024", "a tensor of this case would hold"},
      {"b1 h1 q1000000 mask=boolean", "a tensor of this case would hold"},
      {"mission999", "'mission999' : not a case name"},
  };
  for (const auto& m : mistakes) EXPECT_EQ(mistake_in(m.text).rfind(m.sentence, 0), 0u) << mistake_in(m.text);
}

TEST(List, NamesAreUniqueAndGroupsKnown) {
  std::set<std::string> names;
  for (const Case& c : named()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    EXPECT_NE(std::find(groups().begin(), groups().end(), c.group), groups().end()) << c.group;
  }
  for (const std::string& group : groups()) EXPECT_FALSE(in_group(group).empty()) << group;
  for (const char* name : {"mission256",      "mission512",     "mission512_causal",
                           "mission_b8",      "canon_1",        "canon_1_causal",
                           "canon_1_bf16",    "d64_1k",         "d64_4k",
                           "d64_16k",         "d64_16k_causal", "d128_1k",
                           "d128_4k",         "d128_4k_causal", "d128_16k",
                           "d128_16k_causal", "d256_16k",       "gqa_prefill_8k_causal",
                           "decode_4k_b32",   "decode_32k_b4",  "decode_128k_b1"}) {
    EXPECT_TRUE(find(name).has_value()) << name;
  }
}

// 2 x 8 x 256 x 256 pairs, (64 + 64) x 2 flops each; four tensors of 2 x 8 x 256 x 64 halves, and lse.
TEST(Work, Mission256) {
  const Work w = work(case_of("mission256"));
  EXPECT_EQ(w.flops, 268435456.0);
  EXPECT_EQ(w.bytes, 4 * 262144 * 2.0 + 4096 * 4.0);
}

// Rows of a 4 x 4 causal square see 1, 2, 3, 4 keys. Bottom-right on 6 keys: 3, 4, 5, 6.
TEST(Work, CountsVisiblePairs) {
  EXPECT_EQ(work(case_of("q4 d1 causal=top-left")).flops, 2 * 10 * 2.0);
  EXPECT_EQ(work(case_of("q4 k6 d1 causal=bottom-right")).flops, 2 * 18 * 2.0);
  EXPECT_EQ(work(case_of("q4 k6 d1 causal=bottom-right window=1,0")).flops, 2 * 8 * 2.0);
  EXPECT_EQ(work(case_of("q4 k2 d1 causal=bottom-right")).flops, 2 * 3 * 2.0);
}

bool has_documents(const Case& c) {
  return c.mask_content == MaskContent::documents || c.mask_content == MaskContent::blocks;
}

// Documents and blocks element by element, as the mask tensor holds them.
double counted_in_mask(const Case& c) {
  const Instance instance(c, Input::normal, 1);
  double pairs = 0;
  for (std::int64_t i = 0; i < c.queries; ++i)
    for (std::int64_t j = 0; j < c.keys; ++j)
      pairs += tessera::oracle::visible(instance.problem(), 0, 0, i, j) ? 1 : 0;
  return pairs;
}

// Pairs one by one, for each row.
double counted_pairs(const Case& c) {
  double pairs = 0;
  for (std::int64_t i = 0; i < c.queries; ++i) {
    const std::int64_t at = c.align == TESSERA_ALIGN_BOTTOM_RIGHT ? i + c.keys - c.queries : i;
    std::int64_t from = 0, to = c.keys;
    if (c.align != TESSERA_ALIGN_NONE && c.left != TESSERA_UNBOUNDED) from = std::max(from, at - c.left);
    if (c.align != TESSERA_ALIGN_NONE && c.right != TESSERA_UNBOUNDED) to = std::min(to, at + c.right + 1);
    pairs += static_cast<double>(std::max<std::int64_t>(to - from, 0));
  }
  return pairs;
}

TEST(Work, OfEveryNamedCaseIsWhatCountingGives) {
  for (const Case& c : named()) {
    if (has_documents(c)) continue;
    EXPECT_DOUBLE_EQ(work(c).flops, 2 * counted_pairs(c) * static_cast<double>(c.batch * c.heads) *
                                        static_cast<double>(c.dim + c.value_dim))
        << c.name;
  }
}

// Documents of 3 in 7 x 7: 6 + 6 + 1 pairs; as blocks 9 + 9 + 1. Four queries stand at the end of seven keys.
TEST(Work, CountsDocuments) {
  EXPECT_EQ(work(case_of("q7 d1 mask=boolean:queries-keys:documents3")).flops, 4 * 13.0);
  EXPECT_EQ(work(case_of("q7 d1 mask=boolean:queries-keys:blocks3")).flops, 4 * 19.0);
  EXPECT_EQ(work(case_of("q4 k7 d1 mask=boolean:queries-keys:documents3")).flops, 4 * 7.0);
  for (const char* words :
       {"q70 k50 d1 mask=boolean:documents16",
        "q50 k70 d1 mask=boolean:documents16 causal=top-left window=9,0",
        "q50 k70 d1 mask=additive:blocks16 align=bottom-right window=9,3", "q65 d1 mask=boolean:blocks1"})
    EXPECT_EQ(work(case_of(words)).flops, 4 * counted_in_mask(case_of(words))) << words;
}

// Words come from people, and from fuzzers: a length is not worked through row by row.
TEST(Work, OfAnyLengthIsKnownAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  for (int n = 0; n < 100; ++n) EXPECT_GT(work(case_of("q4000000000 d1 causal=top-left")).flops, 3e19);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Instances, EverySmallCaseIsAValidProblem) {
  const tessera_device cpu = TESSERA_DEVICE_INIT;
  for (const char* group : {"few", "options", "pairs", "masks", "edge"}) {
    for (const Case& c : in_group(group)) {
      Instance instance(c, Input::normal, 5);
      tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
      EXPECT_EQ(tessera_plan(&instance.problem(), &cpu, &plan), TESSERA_OK)
          << c.name << ": " << tessera_last_error();
      // The library does not look into a mask.
      if (has_documents(c)) {
        EXPECT_LE(work(c).flops, plan.flops) << c.name;
      } else {
        EXPECT_DOUBLE_EQ(plan.flops, work(c).flops) << c.name;
      }
      const bool mask_type_varies = c.mask_shape != MaskShape::none && c.mask_type == MaskType::additive;
      if (!mask_type_varies) {
        EXPECT_DOUBLE_EQ(plan.bytes, work(c).bytes) << c.name;
      }
    }
  }
}

std::vector<double> elements(const tessera_tensor& t) {
  std::vector<double> out;
  for (std::int64_t b = 0; b < t.shape[0]; ++b)
    for (std::int64_t h = 0; h < t.shape[1]; ++h)
      for (std::int64_t r = 0; r < t.shape[2]; ++r)
        for (std::int64_t d = 0; d < t.shape[3]; ++d)
          out.push_back(tessera::oracle::load(t.data, t.dtype,
                                              b * t.strides[0] + h * t.strides[1] + r * t.strides[2] + d));
  return out;
}

TEST(Instances, LayoutsHoldTheSameValues) {
  Instance plain(case_of("b2 h3 q5 k9 d7 f16"), Input::normal, 9);
  for (const char* layout : {"layout=bshd", "layout=padded", "layout=aligned"}) {
    Instance other(case_of("b2 h3 q5 k9 d7 f16 " + std::string(layout)), Input::normal, 9);
    EXPECT_EQ(elements(plain.problem().query), elements(other.problem().query));
    EXPECT_EQ(elements(plain.problem().key), elements(other.problem().key));
    EXPECT_EQ(elements(plain.problem().value), elements(other.problem().value));
  }
}

// Large tensors are filled through a table and by several threads; the values must not show it.
TEST(Instances, SmallAndLargeAreMadeAlike) {
  Instance small(case_of("b1 h1 q600 k1 d100 f16"), Input::normal, 4);
  Instance large(case_of("b1 h1 q6000 k1 d100 f16"), Input::normal, 4);
  const std::vector<double> few = elements(small.problem().query), many = elements(large.problem().query);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
}

// Pinned, so that a seed printed on one machine means the same on every other.
TEST(Instances, ValuesDoNotDependOnThePlatform) {
  Instance instance(case_of("b1 h1 q1 k1 d4 f32"), Input::normal, 1);
  const float want[] = {0x1.268d12p-1f, -0x1.01f19p-2f, 0x1.05834p+1f, -0x1.d2fd1ep-1f};
  EXPECT_EQ(std::memcmp(instance.problem().query.data, want, sizeof want), 0);
}

TEST(Instances, NormalMeansNormal) {
  Instance instance(case_of("b1 h1 q1000 k1 d128 f32"), Input::normal, 1);
  double sum = 0, squares = 0, beyond_two = 0;
  const std::vector<double> x = elements(instance.problem().query);
  for (double e : x) {
    sum += e;
    squares += e * e;
    beyond_two += std::fabs(e) > 2 ? 1 : 0;
  }
  const auto n = static_cast<double>(x.size());
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NEAR(beyond_two / n, 0.0455, 0.005);
}

TEST(Instances, LargeMeansScoresOfTenThousand) {
  const Case c = case_of("b1 h1 q64 k64 d64 f16");
  Instance instance(c, Input::large, 1);
  const std::vector<double> q = elements(instance.problem().query), k = elements(instance.problem().key);
  double squares = 0;
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < 64; ++j) {
      double dot = 0;
      for (std::size_t d = 0; d < 64; ++d) dot += q[i * 64 + d] * k[j * 64 + d];
      squares += dot / 8 * dot / 8;
    }
  EXPECT_NEAR(std::sqrt(squares / 4096), 1e4, 1500);
}

TEST(Instances, HiddenMeansRowsWithoutKeys) {
  for (const char* mask :
       {"mask=boolean", "mask=additive", "mask=boolean:queries-keys", "mask=additive:batch-keys"}) {
    Instance instance(case_of("b8 h2 q20 k20 d8 f32 " + std::string(mask)), Input::hidden, 2);
    const auto truth = tessera::oracle::attend(instance.problem());
    const auto empty = std::count(truth.lse.begin(), truth.lse.end(), -INFINITY);
    EXPECT_GT(empty, 0) << mask;
    EXPECT_LT(empty, 320) << mask;
  }
}

TEST(Instances, NonfiniteTouchesSomeRowsAndSparesOthers) {
  for (const char* options :
       {"", "causal=bottom-right", "lengths", "mask=boolean:batch-keys", "mask=additive"}) {
    Instance instance(case_of("b4 h2 q20 k30 d8 f16 " + std::string(options)), Input::nonfinite, 2);
    const auto truth = tessera::oracle::attend(instance.problem());
    const auto finite =
        std::count_if(truth.output.begin(), truth.output.end(), [](double x) { return std::isfinite(x); });
    EXPECT_GT(finite, 640) << options;  // of 1280
    EXPECT_LT(finite, 1280) << options;
  }
}

TEST(Instances, KeyLengthsCoverZeroAndFull) {
  Instance instance(case_of("b8 h1 q2 k9 d8 f32 lengths"), Input::normal, 3);
  std::set<std::int64_t> seen;
  for (std::int64_t b = 0; b < 8; ++b) {
    const tessera_tensor& t = instance.problem().key_lengths;
    seen.insert(t.dtype == TESSERA_I64 ? static_cast<const std::int64_t*>(t.data)[b]
                                       : static_cast<const std::int32_t*>(t.data)[b]);
  }
  EXPECT_TRUE(seen.contains(0));
  EXPECT_TRUE(seen.contains(9));
}

// Every element the same and every key visible: the output is that element, whatever the shape.
TEST(Instances, EqualGivesItself) {
  Instance instance(case_of("b2 h4/2 q5 k37 d24 f16"), Input::equal, 3);
  for (double o : tessera::oracle::attend(instance.problem()).output) EXPECT_NEAR(o, 0.75, 1e-14);
}

TEST(Instances, DominantKeyTakesTheRow) {
  Instance instance(case_of("b1 h1 q9 k40 d64 f32"), Input::dominant, 3);
  const auto r = tessera::oracle::attend(instance.problem());
  for (double lse : r.lse) EXPECT_NEAR(lse, 50, 15);
}

TEST(Inputs, NamesParseBack) {
  EXPECT_EQ(all_inputs().size(), 7u);
  for (Input input : all_inputs()) EXPECT_EQ(parse_input(name(input)), input);
  EXPECT_FALSE(parse_input("Normal").has_value());
}

}  // namespace
