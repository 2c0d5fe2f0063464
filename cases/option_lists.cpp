// Two groups of the list that are too regular to be written down: every pair of options, and masks of every
// content, type and shape at lengths around tile sizes. What one case leaves open is spread over the others
// by a fixed draw, so that a list of a hundred meets most combinations; tests/unit/option_lists_test.cpp says
// which it must meet.
#include "cases/option_lists.hpp"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "cases/random.hpp"

namespace tessera::cases {
namespace {

struct OptionWords {
  std::string_view name, words;
};
constexpr OptionWords kOptionWords[] = {
    {"causal", "causal=bottom-right"},
    {"window", "align=top-left window=40,9"},
    {"boolean", "mask=boolean"},
    {"additive", "mask=additive"},
    {"lengths", "lengths"},
    {"alibi", "alibi"},
    {"softcap", "softcap=20"},
    {"sinks", "sinks"},
    {"scale", "scale=-0.2"},
};

constexpr std::string_view kShapes16[] = {"q65 k129 d64", "q129 k128 d128", "q64 k150 d256",
                                          "q127 k65 d96", "q63 k130 d72",   "q65 k129 d192"};
constexpr std::string_view kShapes32[] = {"q65 k129 d64", "q33 k65 d128", "q40 k70 d80"};
constexpr std::string_view kShapesFew[] = {"q7 k300 d128", "q5 k129 d64", "q16 k257 d128", "q5 k65 d256"};
constexpr std::string_view kShapesDecode[] = {"q3 k300 d64", "q4 k129 d128", "q1 k260 d192", "q2 k200 d256",
                                              "q3 k90 d72"};

// A fixed draw from a list, different for each case and question.
template <std::size_t N, class T>
const T& picked(const T (&list)[N], std::size_t number, std::uint64_t question) {
  return list[scramble(number * 64 + question) % N];
}

std::string both(const OptionWords& a, const OptionWords& b) {
  if (a.name == "causal" && b.name == "window") return "causal=bottom-right window=40,0";
  std::string words = fmt::format("{} {}", a.words, b.words);
  // ALiBi has to know where a query stands; this hides nothing.
  const bool aligned = a.name == "causal" || a.name == "window";
  if (b.name == "alibi" || a.name == "alibi") words += aligned ? "" : " align=bottom-right";
  return words;
}

constexpr std::string_view kSizeWords[] = {
    "b2 q63 k63 d256",  "b2 q64 k64 d128",  "b2 q65 k65 d64",  "b2 q127 k127 d64", "b2 q128 k128 d128",
    "b2 q129 k129 d96", "b1 q300 k300 d64", "b2 q65 k300 d64", "b2 q129 k64 d128", "b2 q128 k129 d64",
    "b2 q64 k127 d192", "b2 q16 k300 d128", "b1 q130 k700 d64"};
constexpr std::string_view kContentWords[] = {"documents50", "blocks64", "blocks100", "tiles64",
                                              "tiles16",     "padding",  "random"};
constexpr std::string_view kAdditiveWords[] = {"additive-f32", "additive-f16", "additive-bf16"};
constexpr std::string_view kSquareWords[] = {"queries-keys", "batch-queries-keys", "heads-queries-keys",
                                             "full"};
constexpr std::string_view kFlatWords[] = {"batch-keys", "keys", "heads-keys", "full"};
constexpr std::string_view kDtypeWords[] = {"f16", "bf16", "f32"};
constexpr std::string_view kExtraWords[] = {
    "",         " causal=bottom-right",         " align=top-left window=70,20",
    " lengths", " causal=bottom-right lengths", " sinks softcap=30"};
constexpr std::string_view kLayoutWords[] = {"", " layout=padded", " layout=bshd"};

constexpr OptionWords kBatchWords[] = {
    {"ragged", "ragged"},
    {"packed", "ragged packed"},
    {"packed_keys", "packed"},
    {"pages", "pages=16"},
    {"ragged_pages", "ragged pages=48"},
    {"prior", "ragged pages=16 prior=2"},
    {"out_f32", "ragged packed out=f32"},
};
constexpr std::string_view kServingShapes[] = {"q1 k300 d128", "q5 k129 d64", "q33 k90 d64", "q3 k65 d256",
                                               "q70 k70 d72"};

constexpr std::string_view kScaleWords[] = {
    "", " scales=tensor", " scales=head", " scales=block64", " scales=block128", " scales=channel"};
constexpr std::string_view kTransposedWords[] = {"", " transposed", " transposed precision=fast"};
constexpr std::string_view kOutputWords[] = {"", " out=f32", " out=bf16"};
constexpr std::string_view kPairShapes[] = {"q65 k129 d64", "q129 k128 d128", "q64 k150 d256"};
constexpr OptionWords kCodeShapes[] = {
    {"", "b2 h2/1 q65 k129 d64"},
    {"_wide", "b2 h2/1 q70 k200 d128"},
    {"_decode", "b2 h4/1 q1 k300 d128"},
    {"_pages", "b3 h4/2 q5 k129 d64 ragged pages=64"},
};

constexpr OptionWords kAppendWords[] = {
    {"dense", "append"},
    {"lengths", "append lengths"},
    {"ragged", "append ragged lengths"},
    {"pages_1", "append pages=1 lengths"},
    {"pages_5", "append ragged pages=5 lengths"},
    {"pages_16", "append ragged pages=16 lengths"},
    {"pages_64", "append pages=64 lengths"},
    {"prior", "append ragged pages=16 lengths prior=2"},
    {"out_f32", "append ragged pages=16 lengths out=f32"},
    {"latent", "append latent ragged pages=16 lengths"},
    {"i8", "append ragged pages=16 lengths cache=i8 scales=head"},
    {"e4m3", "append lengths cache=f8e4m3 scales=block64"},
    {"e5m2", "append ragged pages=5 lengths cache=f8e5m2 scales=channel transposed"},
    {"rope_alone", "lengths"},
};
constexpr std::string_view kAppendShapes[] = {"q1 k300 d128", "q5 k129 d64", "q33 k90 d64",  "q3 k65 d256",
                                              "q70 k70 d72",  "q40 k20 d40", "q64 k200 d128"};
constexpr std::string_view kRopeWords[] = {"", " rope=halves:16+0", " rope=interleaved:16+0",
                                           " rope=halves:12+4", " rope=interleaved:8+16"};

constexpr std::string_view kCacheWords[] = {"cache=f8e4m3", "cache=i8", "cache=f8e5m2"};
constexpr std::string_view kTurnedWords[] = {"", " transposed"};
constexpr std::string_view kWideWords[] = {"", " out=f32"};

// How the columns of keys are shared out: those of key, then those of the tail.
struct TailShape {
  std::string_view words;
  int key_dim, tail;
};
constexpr TailShape kTailShapes[] = {{"q1 k300 d576 v512", 512, 64},
                                     {"q5 k129 d192 v128", 128, 64},
                                     {"q33 k90 d80 v64", 64, 16},
                                     {"q3 k65 d31 v24", 24, 7},
                                     {"q70 k70 d96 v80", 64, 32}};
constexpr std::string_view kTailCaches[] = {"", " cache=f8e4m3", " cache=i8", " cache=f8e5m2"};

// Keys and values of 8 bits beside a wider query: every option, and every kind of batch.
std::vector<Generated> cache_list() {
  std::vector<Generated> list;
  const auto add = [&](const std::string& name, std::string_view shape, std::string_view words) {
    const std::size_t n = list.size();
    list.push_back(
        {"cache_" + name, fmt::format("{} {} {} {}{}{}{}", shape, kDtypeWords[n / 3 % 3], kCacheWords[n % 3],
                                      words, picked(kScaleWords, n, 10), picked(kTurnedWords, n, 11),
                                      words.find("out=") == words.npos ? picked(kWideWords, n, 12) : "")});
  };
  for (const OptionWords& option : kOptionWords) {
    const std::string_view align = option.name == "alibi" ? " align=bottom-right" : "";
    for (const OptionWords& shape : kCodeShapes)
      add(fmt::format("{}{}", option.name, shape.name), shape.words,
          fmt::format("{}{}", option.words, align));
  }
  for (const OptionWords& batch : kBatchWords) {
    for (const std::string_view shape : kServingShapes)
      add(fmt::format("{}_{}", batch.name, shape.substr(0, shape.find(' '))),
          fmt::format("b4 h4/2 {}", shape), batch.words);
  }
  return list;
}

// Every pair of options with inputs of 8 bits; and the same with keys and values of 8 bits alone.
std::vector<Generated> fp8_pair_list() {
  std::vector<Generated> list;
  for (std::size_t a = 0; a < std::size(kOptionWords); ++a) {
    for (std::size_t b = a + 1; b < std::size(kOptionWords); ++b) {
      const OptionWords &first = kOptionWords[a], &second = kOptionWords[b];
      if (first.name == "boolean" && second.name == "additive") continue;
      const std::size_t n = list.size();
      list.push_back(
          {fmt::format("{}_{}", first.name, second.name),
           fmt::format("b2 h2/1 {} {} {}{}", picked(kPairShapes, n, 5), n % 2 == 0 ? "f8e4m3" : "f8e5m2",
                       both(first, second), picked(kScaleWords, n, 6))});
    }
  }
  const std::size_t pairs = list.size();
  for (std::size_t n = 0; n < pairs; ++n) {
    const auto add = [&](std::string_view prefix, std::string_view dtype) {
      std::string words = list[n].words;
      words.replace(words.find(" f8"), 7, fmt::format(" {} {}", dtype, kCacheWords[n % 3]));
      list.push_back({fmt::format("{}{}", prefix, list[n].name), words});
    };
    const std::string_view dtype = kDtypeWords[n / 3 % 3];
    add("cache_", dtype);
    if (dtype == "f32") add("cache16_", "bf16");  // tensor cores take no f32 beside codes
  }
  return list;
}

}  // namespace

std::vector<Generated> pair_list() {
  std::vector<Generated> list;
  for (std::size_t a = 0; a < std::size(kOptionWords); ++a) {
    for (std::size_t b = a + 1; b < std::size(kOptionWords); ++b) {
      const OptionWords &first = kOptionWords[a], &second = kOptionWords[b];
      if (first.name == "boolean" && second.name == "additive") continue;  // there is one mask tensor
      const std::string words = both(first, second), name = fmt::format("{}_{}", first.name, second.name);
      const std::size_t n = list.size();
      const std::string_view half = n % 2 == 0 ? "f16" : "bf16", other = n % 2 == 0 ? "bf16" : "f16";
      list.push_back({name, fmt::format("b2 h2/1 {} {} {}", picked(kShapes16, n, 0), half, words)});
      list.push_back(
          {name + "_few", fmt::format("b2 h4/1 {} {} {}", picked(kShapesFew, n, 1), other, words)});
      list.push_back(
          {name + "_decode", fmt::format("b2 h4/1 {} {} {}", picked(kShapesDecode, n, 3), other, words)});
      list.push_back({name + "_f32", fmt::format("b2 h2/1 {} f32 {}", picked(kShapes32, n, 2), words)});
    }
  }
  return list;
}

std::vector<Generated> mask_list() {
  std::vector<Generated> list;
  for (const std::string_view content : kContentWords) {
    const auto add = [&](std::string_view type, std::string_view shape, std::string_view lowest) {
      const std::size_t n = list.size();
      const std::string holds = content == "random" ? "" : fmt::format(":{}", content);
      const std::string mask = fmt::format("mask={}:{}{}{}", type, shape, holds, lowest);
      list.push_back(
          {fmt::format("{}_{}_{}{}", content, type, shape, lowest.empty() ? "" : "_lowest"),
           fmt::format("{} {} {} {}{}{}", picked(kSizeWords, n, 1), n % 2 == 0 ? "h2/1" : "h2",
                       kDtypeWords[n % 3], mask, picked(kExtraWords, n, 3), picked(kLayoutWords, n, 4))});
    };
    const auto& shapes = content == "padding" ? kFlatWords : kSquareWords;
    for (const std::string_view shape : shapes) add("boolean", shape, "");
    for (const char* lowest : {"", ":lowest"})
      for (const std::string_view type : kAdditiveWords) add(type, picked(shapes, list.size(), 0), lowest);
  }
  return list;
}

std::vector<Generated> fp8_list() {
  std::vector<Generated> list;
  for (const OptionWords& option : kOptionWords) {
    for (const OptionWords& shape : kCodeShapes) {
      const std::size_t n = list.size();
      const std::string_view align = option.name == "alibi" ? " align=bottom-right" : "";
      list.push_back({fmt::format("{}{}", option.name, shape.name),
                      fmt::format("{} {} {}{}{}{}{}", shape.words, n % 3 == 2 ? "f8e5m2" : "f8e4m3",
                                  option.words, align, picked(kScaleWords, n, 7),
                                  picked(kTransposedWords, n, 8), picked(kOutputWords, n, 9))});
    }
  }
  for (Generated& pair : fp8_pair_list()) list.push_back(std::move(pair));
  for (Generated& cache : cache_list()) list.push_back(std::move(cache));
  return list;
}

std::vector<Generated> append_list() {
  std::vector<Generated> list = append_by_hand();
  for (const OptionWords& batch : kAppendWords) {
    for (const OptionWords& option : kOptionWords) {
      const bool lengths = batch.words.find("lengths") != std::string_view::npos;
      if (lengths && option.name == "lengths") continue;
      const std::size_t n = list.size();
      // New rows stand at the end of the keys.
      const std::string_view words = option.name == "window"   ? "causal=bottom-right window=40,0"
                                     : option.name == "causal" ? option.words
                                     : n % 2 == 0              ? "align=bottom-right"
                                                               : "causal=bottom-right";
      const std::string_view more = option.name == "window" || option.name == "causal" ? "" : option.words;
      std::string_view rope = picked(kRopeWords, n, 12);
      if (rope.empty() && batch.name == "rope_alone") rope = kRopeWords[1];
      const bool positions = !rope.empty() && option.name != "alibi" && n % 3 == 0;
      list.push_back(
          {fmt::format("{}_{}", batch.name, option.name),
           fmt::format("b4 h4/2 {}{} {} {} {} {}{}{}{}", picked(kAppendShapes, n, 10),
                       batch.name == "latent" ? " v40" : "", kDtypeWords[n % 3], batch.words, words, more,
                       rope, positions ? " positions" : "", picked(kLayoutWords, n, 11))});
    }
  }
  return list;
}

std::vector<Generated> tail_list() {
  std::vector<Generated> list = tail_by_hand();
  const auto add = [&](const OptionWords& batch, const OptionWords& option) {
    const std::size_t n = list.size();
    const bool packed = batch.words.find("packed") != std::string_view::npos;
    const TailShape& shape = picked(kTailShapes, n, 13);
    std::string words = fmt::format("b4 h4/2 {} tail={} {}", shape.words, shape.tail, kDtypeWords[n % 3]);
    words += fmt::format(" {} {}", batch.words, option.words);
    const std::string_view cache = kTailCaches[n / 6 % std::size(kTailCaches)];
    // V of 80 columns does not fit into a key of 64.
    const bool latent = n % 3 == 1 && shape.words.find("v80") == std::string_view::npos;
    if (latent) words += " latent";
    if (!cache.empty()) words += fmt::format("{}{}", cache, picked(kScaleWords, n, 15));
    if (!cache.empty() && !latent) words += picked(kTurnedWords, n, 16);
    const bool top_left = option.name == "window";
    if (!packed && !top_left && n % 2 == 0) words += " append";
    if (!top_left && option.name != "causal") words += " align=bottom-right";
    // Of the tail alone, or of pairs that have one element in key and one in the tail.
    if (!top_left && n % 4 < 3)
      words += n % 4 == 0 ? fmt::format(" rope=halves:{}+{}", shape.tail / 2, shape.key_dim)
                          : fmt::format(" rope={}:{}+{}", n % 4 == 1 ? "halves" : "interleaved", shape.tail,
                                        shape.key_dim - shape.tail - n % 2);
    list.push_back({fmt::format("{}_{}", batch.name, option.name),
                    fmt::format("{}{}", words, picked(kLayoutWords, n, 17))});
  };
  for (const OptionWords& option : kOptionWords) add({"dense", ""}, option);
  for (const OptionWords& batch : kBatchWords) {
    const bool packed = batch.words.find("packed") != std::string_view::npos;
    for (const OptionWords& option : kOptionWords)
      if (!packed || option.name != "lengths") add(batch, option);  // offsets say them
  }
  // Every pair of options, of codes and of what the query has.
  for (std::size_t a = 0; a < std::size(kOptionWords); ++a) {
    for (std::size_t b = a + 1; b < std::size(kOptionWords); ++b) {
      const OptionWords &first = kOptionWords[a], &second = kOptionWords[b];
      if (first.name == "boolean" && second.name == "additive") continue;
      for (const bool codes : {false, true}) {
        const std::size_t n = list.size();
        const TailShape& shape = kTailShapes[1 + n % 3];
        list.push_back(
            {fmt::format("{}_{}{}", first.name, second.name, codes ? "_codes" : ""),
             fmt::format("b2 h4/2 {} tail={} {} {} {}", shape.words, shape.tail, kDtypeWords[n / 2 % 3],
                         both(first, second), codes ? kTailCaches[1 + n / 6 % 3] : "")});
      }
    }
  }
  return list;
}

std::vector<Generated> serving_list() {
  std::vector<Generated> list;
  for (const OptionWords& batch : kBatchWords) {
    for (const OptionWords& option : kOptionWords) {
      const bool packed = batch.words.find("packed") != std::string_view::npos;
      if (packed && option.name == "lengths") continue;  // offsets say them
      const std::size_t n = list.size();
      // ALiBi has to know where a query stands; this hides nothing.
      const std::string_view align = option.name == "alibi" ? " align=bottom-right" : "";
      list.push_back({fmt::format("{}_{}", batch.name, option.name),
                      fmt::format("b4 h4/2 {} {} {} {}{}{}", picked(kServingShapes, n, 5), kDtypeWords[n % 3],
                                  batch.words, option.words, align, picked(kLayoutWords, n, 6))});
    }
  }
  return list;
}

}  // namespace tessera::cases
