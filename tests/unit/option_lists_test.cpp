// What the groups "pairs" and "masks" must meet, whatever is drawn: every pair of options for every kernel
// that users get, and masks whose tiles are hidden, open and mixed.
#include "cases/option_lists.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "cases/instance.hpp"
#include "cases/masks.hpp"
#include "cases/tensors.hpp"
#include "core/kernel.hpp"
#include "oracle/oracle.hpp"
#include "oracle/reading.hpp"
#include "tests/case_of.hpp"

namespace {

using namespace tessera;
using namespace tessera::cases;
using tessera::testing_cases::case_of;

struct Option {
  const char* name;
  std::function<bool(const Case&)> in;
};

bool masked(const Case& c, MaskType type) { return c.mask_shape != MaskShape::none && c.mask_type == type; }

const std::vector<Option>& options() {
  static const std::vector<Option> list = {
      {"causal", [](const Case& c) { return c.align != TESSERA_ALIGN_NONE && c.right == 0; }},
      {"window", [](const Case& c) { return c.align != TESSERA_ALIGN_NONE && c.left != TESSERA_UNBOUNDED; }},
      {"boolean mask", [](const Case& c) { return masked(c, MaskType::boolean); }},
      {"additive mask", [](const Case& c) { return masked(c, MaskType::additive); }},
      {"lengths", [](const Case& c) { return c.key_lengths; }},
      {"alibi", [](const Case& c) { return c.alibi; }},
      {"softcap", [](const Case& c) { return c.softcap > 0; }},
      {"sinks", [](const Case& c) { return c.sinks; }},
      {"scale", [](const Case& c) { return c.scale != 0; }},
  };
  return list;
}

// Every kernel that a plan may choose, of whatever device this build has kernels for; rungs of the ladder are
// taken by name alone.
std::vector<const core::Kernel*> production_kernels() {
  std::vector<const core::Kernel*> list;
  for (const core::Kernel& kernel : core::kernels())
    if (kernel.rung == 0 && kernel.tolerance == 0) list.push_back(&kernel);
  return list;
}

bool takes(const core::Kernel& kernel, const Case& c) {
  core::Problem problem;
  return validated(c, &problem).ok() && core::takes(kernel, problem).ok();
}

bool is_16_bit(const Case& c) { return c.dtype != TESSERA_F32 && !core::is_8_bit(c.dtype); }

// Each pair is there for each kind; a kernel that takes the plain case of a kind must take all its pairs.
struct Kind {
  const char* plain;
  std::function<bool(const Case&)> in;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> list = {
      {"b2 h2/1 q65 k129 d64 bf16", [](const Case& c) { return is_16_bit(c) && c.queries > 16; }},
      {"b2 h4/1 q5 k129 d64 f16",
       [](const Case& c) { return is_16_bit(c) && c.queries <= 16 && c.queries > 4; }},
      {"b2 h4/1 q3 k129 d64 f16", [](const Case& c) { return is_16_bit(c) && c.queries <= 4; }},
      {"b2 h2/1 q65 k129 d64 f32", [](const Case& c) { return c.dtype == TESSERA_F32; }},
      {"b2 h2/1 q65 k129 d64 f8e4m3", [](const Case& c) { return core::is_8_bit(c.dtype); }},
      {"b2 h2/1 q65 k129 d64 bf16 cache=i8", [](const Case& c) { return c.cache != 0; }},
      {"b2 h2/1 q65 k129 d80 v64 bf16 tail=16", [](const Case& c) { return c.tail > 0 && c.cache == 0; }},
      {"b2 h2/1 q65 k129 d80 v64 bf16 tail=16 cache=i8",
       [](const Case& c) { return c.tail > 0 && c.cache != 0; }},
  };
  return list;
}

// Calls f(pair in words, holds both) for every pair of options that can be had together.
template <class F>
void for_each_pair(F f) {
  for (std::size_t a = 0; a < options().size(); ++a) {
    for (std::size_t b = a + 1; b < options().size(); ++b) {
      const Option &first = options()[a], &second = options()[b];
      if (std::string(first.name) == "boolean mask" && std::string(second.name) == "additive mask") continue;
      f(first.name + std::string(" with ") + second.name,
        [&](const Case& c) { return first.in(c) && second.in(c); });
    }
  }
}

TEST(Pairs, EveryOneIsThereForEveryKernel) {
  std::vector<Case> group = in_group("pairs");
  for (const char* more : {"fp8", "tail"})
    for (const Case& c : in_group(more)) group.push_back(c);
  ASSERT_FALSE(production_kernels().empty());
  for (const core::Kernel* kernel : production_kernels()) {
    int met = 0;
    for (const Kind& kind : kinds()) {
      const Case plain = case_of(kind.plain);
      if (!takes(*kernel, plain)) continue;
      ++met;
      for_each_pair([&](const std::string& pair, const std::function<bool(const Case&)>& both) {
        EXPECT_TRUE(std::any_of(group.begin(), group.end(),
                                [&](const Case& c) {
                                  const bool same_kind = kind.in(c) && (c.tail > 0) == (plain.tail > 0);
                                  return same_kind && both(c) && takes(*kernel, c);
                                }))
            << pair << " on " << kernel->name << ", of the kind " << kind.plain;
      });
    }
    EXPECT_GT(met, 0) << kernel->name;
  }
}

// A pair is about two options: with a third, a mistake in one could hide behind another.
TEST(Pairs, HaveNoThirdOption) {
  for (const Case& c : in_group("pairs")) {
    const auto count =
        std::count_if(options().begin(), options().end(), [&](const Option& o) { return o.in(c); });
    EXPECT_EQ(count, 2) << c.name << ": " << words(c);
  }
}

// Nothing here is cut down by `tessera verify`, which does so beyond 5e7 (cli/verify.cpp).
TEST(Generated, IsSmall) {
  for (const char* group : {"pairs", "masks"})
    for (const Case& c : in_group(group))
      EXPECT_LE(2.0 * static_cast<double>(c.batch * c.heads * c.queries) *
                    static_cast<double>(c.keys * (c.dim + c.value_dim)),
                5e7)
          << c.name;
}

// Keys in two tensors beside every option and in every kind of batch, of codes and of what the query has.
TEST(Tail, MeetsEveryOptionAndLayout) {
  const std::vector<Case> group = in_group("tail");
  const auto count = [&](const std::function<bool(const Case&)>& is) {
    return std::count_if(group.begin(), group.end(), is);
  };
  EXPECT_EQ(count([](const Case& c) { return c.tail == 0; }), 0);
  for (const Option& option : options()) {
    for (const bool paged : {false, true})
      EXPECT_GE(count([&](const Case& c) { return (c.page > 0) == paged && option.in(c); }), 3)
          << option.name;
    EXPECT_GE(count([&](const Case& c) { return c.cache != 0 && option.in(c); }), 3) << option.name;
    EXPECT_GE(count([&](const Case& c) { return c.cache == 0 && option.in(c); }), 2) << option.name;
  }
  for (const auto& [dim, tail] : {std::pair{576, 64}, {192, 64}, {80, 16}, {31, 7}})
    for (const tessera_dtype cache : {tessera_dtype{0}, tessera_dtype{TESSERA_F8E4M3},
                                      tessera_dtype{TESSERA_F8E5M2}, tessera_dtype{TESSERA_I8}})
      EXPECT_GE(count([&](const Case& c) { return c.dim == dim && c.tail == tail && c.cache == cache; }), 1)
          << dim << " " << cache;
  for (const tessera_dtype dtype : {TESSERA_F32, TESSERA_F16, TESSERA_BF16})
    for (const bool codes : {false, true})
      EXPECT_GE(count([&](const Case& c) { return c.dtype == dtype && c.append && (c.cache != 0) == codes; }),
                2)
          << dtype << codes;
  const std::function<bool(const Case&)> few[] = {
      [](const Case& c) { return c.packed && c.ragged; },
      [](const Case& c) { return c.packed && !c.ragged; },
      [](const Case& c) { return c.priors > 0; },
      [](const Case& c) { return c.output_dtype != 0; },
      [](const Case& c) { return c.transposed; },
      [](const Case& c) { return c.latent && c.append && c.cache != 0; },
      [](const Case& c) { return c.latent && c.append && c.cache == 0; },
      [](const Case& c) { return c.rope_pairs > 0 && c.rope_first == c.key_dim(); },
      [](const Case& c) { return c.append && c.rope_first > 0 && c.rope_first < c.key_dim(); },
      [](const Case& c) { return c.layout == Layout::padded; },
      [](const Case& c) { return c.layout == Layout::bshd; },
  };
  for (std::size_t n = 0; n < std::size(few); ++n) EXPECT_GE(count(few[n]), 2) << n;
}

// Rows that are added, to keys of every layout, beside every option; rope of both kinds, of some dimensions
// and of all, for rows that stand elsewhere too; and calls that only turn their queries.
TEST(Append, MeetsEveryOptionAndLayout) {
  const std::vector<Case> group = in_group("append");
  const auto count = [&](const std::function<bool(const Case&)>& is) {
    return std::count_if(group.begin(), group.end(), is);
  };
  for (const Option& option : options()) {
    EXPECT_GE(count([&](const Case& c) { return c.append && option.in(c); }), 8) << option.name;
    EXPECT_GE(count([&](const Case& c) { return c.append && c.rope_pairs > 0 && option.in(c); }), 3)
        << option.name;
    EXPECT_GE(count([&](const Case& c) { return c.append && c.page > 0 && option.in(c); }), 4) << option.name;
  }
  for (const std::int64_t page : {0, 1, 5, 16, 64})
    EXPECT_GE(count([&](const Case& c) { return c.append && c.page == page && c.rope_pairs > 0; }), 3)
        << page;
  for (const tessera_dtype dtype : {TESSERA_F32, TESSERA_F16, TESSERA_BF16})
    for (const bool interleaved : {false, true})
      EXPECT_GE(count([&](const Case& c) {
                  return c.dtype == dtype && c.rope_pairs > 0 && c.rope_interleaved == interleaved;
                }),
                3)
          << dtype << interleaved;
  const std::function<bool(const Case&)> few[] = {
      [](const Case& c) { return c.append && c.positions; },
      [](const Case& c) { return c.append && c.latent; },
      [](const Case& c) { return c.append && c.priors > 0; },
      [](const Case& c) { return c.append && c.output_dtype != 0; },
      [](const Case& c) { return c.append && c.ragged; },
      [](const Case& c) { return c.append && c.queries > c.keys; },
      [](const Case& c) { return c.append && c.queries == 1; },
      [](const Case& c) { return c.rope_pairs > 0 && 2 * c.rope_pairs < c.dim && c.rope_first > 0; },
      [](const Case& c) { return c.rope_pairs > 0 && 2 * c.rope_pairs == c.dim; },
      [](const Case& c) { return c.rope_pairs > 0 && !c.append; },
      [](const Case& c) { return c.append && c.layout == Layout::padded; },
      [](const Case& c) { return c.append && c.layout == Layout::bshd; },
      [](const Case& c) { return c.append && c.positions && c.mask_last > 0; },
      [](const Case& c) { return c.append && core::is_8_bit(c.dtype); },
  };
  for (std::size_t n = 0; n < std::size(few); ++n) EXPECT_GE(count(few[n]), 2) << n;
}

// What is timed with new rows or rope is timed without, in the same words otherwise.
TEST(Append, CostsHaveTheirTwins) {
  const std::vector<Case> group = in_group("append_costs");
  for (Case c : group) {
    if (!c.append && c.rope_pairs == 0) continue;
    c.append = c.rope_interleaved = false, c.rope_pairs = c.rope_first = 0;
    EXPECT_TRUE(std::any_of(group.begin(), group.end(), [&](const Case& x) { return words(x) == words(c); }))
        << c.name;
  }
}

TEST(Caches, CostsHaveTheirTwins) {
  const std::vector<Case> group = in_group("cache_costs");
  int of_codes = 0;
  for (Case c : group) {
    if (c.cache == 0) continue;
    ++of_codes;
    c.cache = 0, c.scales = ScaleKind::none;
    EXPECT_TRUE(std::any_of(group.begin(), group.end(), [&](const Case& x) { return words(x) == words(c); }))
        << c.name;
  }
  EXPECT_EQ(of_codes, 24);
}

enum class State { hidden, open, mixed };

// What the mask tensor alone does to the squares of 64 x 64 that kernels look at.
std::map<State, int> tiles_of(const Instance& instance) {
  const Case& c = instance.shape();
  tessera_attention p = instance.problem();
  p.mask.align = TESSERA_ALIGN_NONE;
  p.key_lengths = TESSERA_TENSOR_NONE;
  std::map<State, int> found;
  for (std::int64_t i0 = 0; i0 < c.queries; i0 += 64)
    for (std::int64_t j0 = 0; j0 < c.keys; j0 += 64) {
      std::int64_t seen = 0, all = 0;
      for (std::int64_t i = i0; i < std::min(i0 + 64, c.queries); ++i)
        for (std::int64_t j = j0; j < std::min(j0 + 64, c.keys); ++j, ++all)
          seen += oracle::visible(p, 0, 0, i, j) ? 1 : 0;
      ++found[seen == 0 ? State::hidden : seen == all ? State::open : State::mixed];
    }
  return found;
}

TEST(Masks, HaveHiddenOpenAndMixedTiles) {
  for (const MaskType type : {MaskType::boolean, MaskType::additive}) {
    std::map<State, int> found;
    for (const Case& c : in_group("masks")) {
      if (c.mask_type != type || c.mask_lowest) continue;
      for (const auto& [state, count] : tiles_of(Instance(c, Input::normal, 1))) found[state] += count;
    }
    for (const State state : {State::hidden, State::open, State::mixed})
      EXPECT_GE(found[state], 10) << static_cast<int>(type) << " " << static_cast<int>(state);
  }
}

TEST(Masks, MeetEveryLengthTypeShapeAndNeighbour) {
  std::set<std::int64_t> queries, keys;
  std::set<std::pair<MaskShape, MaskType>> shapes;
  std::set<std::tuple<tessera_dtype, MaskType, bool>> dtypes;
  std::set<std::tuple<MaskContent, MaskType, tessera_dtype, bool>> contents;
  int bands = 0, lengths = 0, grouped = 0, padded = 0;
  for (const Case& c : in_group("masks")) {
    queries.insert(c.queries), keys.insert(c.keys);
    shapes.insert({c.mask_shape, c.mask_type});
    dtypes.insert({c.dtype, c.mask_type, c.mask_lowest});
    contents.insert({c.mask_content, c.mask_type, c.mask_dtype, c.mask_lowest});
    bands += c.align != TESSERA_ALIGN_NONE, lengths += c.key_lengths, grouped += c.heads != c.kv_heads;
    padded += c.layout == Layout::padded;
  }
  for (const std::int64_t n : {63, 64, 65, 127, 128, 129, 300}) {
    EXPECT_TRUE(queries.contains(n)) << n;
    EXPECT_TRUE(keys.contains(n)) << n;
  }
  // Rows of a [queries, 1] mask hide everything or nothing; that and plain noise are in the group "options".
  for (const MaskShape shape :
       {MaskShape::keys, MaskShape::queries_keys, MaskShape::batch_keys, MaskShape::full,
        MaskShape::heads_queries_keys, MaskShape::batch_queries_keys})
    for (const MaskType type : {MaskType::boolean, MaskType::additive})
      EXPECT_TRUE(shapes.contains({shape, type})) << mask_dims(shape).name << " " << static_cast<int>(type);
  for (const tessera_dtype dtype : {TESSERA_F32, TESSERA_F16, TESSERA_BF16})
    for (const auto& [type, lowest] :
         {std::pair{MaskType::boolean, false}, {MaskType::additive, false}, {MaskType::additive, true}})
      EXPECT_TRUE(dtypes.contains({dtype, type, lowest})) << dtype << " " << static_cast<int>(type) << lowest;
  EXPECT_EQ(contents.size(), 6u * 7u - 7u);  // blocks twice with other sizes; a bias is not a pattern
  for (const int count : {bands, lengths, grouped, padded}) EXPECT_GE(count, 8);
}

// Documents of 2 among 5 keys, the last 3 of which have a query: [2 3] 4, then padding of 4 entries.
TEST(Contents, AreWhatTheWordsSay) {
  const auto seen = [](const std::string& words, std::int64_t b, std::int64_t i,
                       Input input = Input::normal) {
    const Instance x(case_of(words), input, 1);
    std::string row;
    for (std::int64_t j = 0; j < x.shape().keys; ++j)
      row += oracle::visible(x.problem(), b, 0, i, j) ? 'x' : '.';
    return row;
  };
  EXPECT_EQ(seen("q3 k5 mask=boolean:queries-keys:documents2", 0, 0), "..x..");
  EXPECT_EQ(seen("q3 k5 mask=additive:queries-keys:documents2", 0, 1), "..xx.");
  EXPECT_EQ(seen("q3 k5 mask=boolean:documents2", 0, 2), "....x");
  EXPECT_EQ(seen("q3 k5 mask=boolean:queries-keys:blocks2", 0, 0), "..xx.");
  EXPECT_EQ(seen("q3 k2 mask=boolean:queries-keys:blocks2", 0, 0), "..");  // stands before the first key
  EXPECT_EQ(seen("b4 q1 k8 mask=boolean:batch-keys:padding", 0, 0), "xxxxxxxx");
  for (std::int64_t b = 1; b < 4; ++b) {
    const std::string row = seen("b4 q1 k8 mask=boolean:batch-keys:padding", b, 0);
    EXPECT_EQ(row.find("x."), row.rfind("x."));
    EXPECT_EQ(row.substr(0, 2), "xx") << row;
  }
  EXPECT_EQ(seen("q3 k5 mask=additive:bias", 0, 1), "xxxxx");
}

// Pinned, because scripts/bench_options.py makes the same values and its test holds the same numbers.
TEST(Contents, ArePinned) {
  const Case padding = *find("padding_1k");
  const Instance x(padding, Input::normal, 1);
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < 6; ++b) {
    std::int64_t n = 0;
    while (n < padding.keys && oracle::visible(x.problem(), b, 0, 0, n)) ++n;
    lengths.push_back(n);
  }
  EXPECT_EQ(lengths, (std::vector<std::int64_t>{1024, 814, 470, 919, 1024, 335}));
  const Instance y(case_of("h2 q3 k4 mask=additive-f32:heads-queries-keys:bias"), Input::normal, 1);
  const auto* bias = static_cast<const float*>(y.problem().mask.tensor.data);
  EXPECT_EQ(bias[0], 0x1.b48dbcp-1f);
  EXPECT_EQ(bias[23], 0x1.fdcedp+0f);
}

// A row whose keys all hold the lowest finite number is no empty row: the scores are equal, because next to
// that number every dot product is lost, and the output is the mean of the values.
TEST(Lowest, ARowOfNothingElseIsAMean) {
  for (const char* type : {"additive-f32", "additive-bf16"}) {
    Instance x(case_of("b1 h1 q4 k6 d8 f32 mask=" + std::string(type) + ":queries-keys:lowest"),
               Input::hidden, 1);
    const tessera_tensor& mask = x.problem().mask.tensor;
    const double lowest = mask.dtype == TESSERA_F32 ? std::numeric_limits<float>::lowest() : -0x1.fep127;
    for (std::int64_t j = 0; j < 6; ++j) oracle::store(mask.data, mask.dtype, j, lowest);
    const oracle::Result truth = oracle::attend(x.problem());
    const oracle::Result plain = oracle::plain(x.problem());
    const auto* value = static_cast<const float*>(x.problem().value.data);
    for (std::size_t d = 0; d < 8; ++d) {
      double mean = 0;
      for (std::size_t j = 0; j < 6; ++j) mean += static_cast<double>(value[j * 8 + d]) / 6;
      EXPECT_NEAR(truth.output[d], mean, 1e-12) << type;
      EXPECT_NEAR(plain.output[d], mean, 1e-6) << type;
    }
    EXPECT_EQ(truth.lse[0], lowest) << type;
    EXPECT_EQ(plain.lse[0], lowest) << type;
  }
}

}  // namespace
