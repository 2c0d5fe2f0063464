// One visibility, said in several ways: as a boolean mask, an additive one, a band, key lengths, broadcast or
// written out. Where the order of additions is the same the bits must be, whatever tiles were skipped or left
// unmasked.
#include <algorithm>
#include <functional>
#include <limits>

#include "cases/random.hpp"
#include "support.hpp"

namespace {

using namespace tessera::cases;
using namespace tessera::testing_cpu;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Sees = std::function<bool(std::int64_t head, std::int64_t query, std::int64_t key)>;

// What a mask may look like: whole tiles hidden, whole tiles open, and borders inside of tiles and vectors.
struct Pattern {
  const char* name;
  Sees sees;
};

std::vector<Pattern> patterns(const Case& c) {
  const std::int64_t n = c.keys;
  const Random random(7, 7);
  return {
      {"documents", [n](auto, auto i, auto j) { return i * 3 / n == j * 3 / n; }},
      {"causal", [](auto, auto i, auto j) { return j <= i; }},
      {"padding", [n](auto, auto, auto j) { return j < n * 2 / 3; }},
      {"left padding", [n](auto, auto, auto j) { return j >= n / 2; }},
      {"one key", [](auto, auto i, auto j) { return j == i * 7 % 50; }},
      {"a head each", [](auto h, auto, auto j) { return (j / 40 + h) % 2 == 0; }},
      {"random", [random, n](auto, auto i,
                             auto j) { return random.below(static_cast<std::uint64_t>(i * n + j), 5) != 0; }},
      {"open", [](auto, auto, auto) { return true; }},
      {"some rows empty", [](auto, auto i, auto j) { return i % 3 != 0 && j % 90 < 45; }},
  };
}

void set_mask(Instance& x, const Sees& sees) {
  const tessera_tensor& t = x.problem().mask.tensor;
  std::int64_t shape[4] = {1, 1, 1, 1}, strides[4] = {};
  std::copy(t.shape, t.shape + t.rank, shape + 4 - t.rank);
  std::copy(t.strides, t.strides + t.rank, strides + 4 - t.rank);
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t i = 0; i < shape[2]; ++i)
        for (std::int64_t j = 0; j < shape[3]; ++j) {
          const std::int64_t at = b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3];
          const bool visible = sees(h, i, j);
          if (t.dtype == TESSERA_BOOL) {
            // Any byte but 0 is true.
            static_cast<unsigned char*>(t.data)[at] = static_cast<unsigned char>(visible ? 1 + j % 255 : 0);
          } else {
            tessera::oracle::store(t.data, t.dtype, at, visible ? 0.0 : -kInf);
          }
        }
  x.accept_inputs();
}

Instance masked(const std::string& words, const char* mask, const Sees& sees) {
  Instance x(case_of(words + " mask=" + mask), Input::normal, 5);
  set_mask(x, sees);
  return x;
}

std::vector<unsigned char> bits_of(Instance& x, const tessera_device& device) {
  attend(x, device);
  return x.output_bytes();
}

// Head dims whose scale is a power of two: scaling first or last is the same then. Prefill, few rows, decode
// with split keys, grouped heads, lengths that end inside a tile, a vector and a word.
const std::vector<std::string> kShapes = {
    "b1 h2 q130 k130 d64 f32",     "b1 h4/2 q40 k500 d16 f32",   "b2 h2 q33 k300 d64 bf16",
    "b1 h2 q250 k250 d64 v32 f16", "b1 h8/2 q1 k700 d64 f32",    "b1 h2 q6 k5000 d64 f32",
    "b1 h3 q18 k31 d64 f32",       "b2 h2 q20 k20 d4 v8 f32",    "b1 h1 q2 k9 d256 f32",
    "b1 h2/1 q10 k260 d64 bf16",   "b1 h2 q100 k129 d16 v3 f32",
};

TEST(Masks, BooleanIsAdditive) {
  for (const std::string& words : kShapes) {
    for (const Pattern& pattern : patterns(case_of(words))) {
      Instance boolean = masked(words, "boolean", pattern.sees);
      Instance additive = masked(words, "additive", pattern.sees);
      for (const tessera_device& device : kernels_here()) {
        ASSERT_EQ(bits_of(boolean, device), bits_of(additive, device))
            << words << ", " << pattern.name << " on " << device.kernel;
      }
    }
  }
}

// With rows in lanes the keys lie in tiles at fixed borders, however the visible ones are named.
TEST(Masks, BooleanIsBandAndKeyLengths) {
  for (const char* const words : {"b1 h2 q300 k300 d64 f32", "b1 h2/1 q100 k260 d40 bf16",
                                  "b1 h2 q137 k400 d128 f32", "b2 h2 q33 k250 d3 v70 f16"}) {
    const Case c = case_of(words);
    struct Said {
      const char* words;
      Sees sees;
    };
    const std::int64_t shift = c.keys - c.queries, length = c.keys * 2 / 3;
    const Said said[] = {
        {"causal=top-left", [](auto, auto i, auto j) { return j <= i; }},
        {"causal=bottom-right", [=](auto, auto i, auto j) { return j <= i + shift; }},
        {"align=top-left window=20,9", [](auto, auto i, auto j) { return i - 20 <= j && j <= i + 9; }},
        {"align=bottom-right window=3,150",
         [=](auto, auto i, auto j) { return i + shift - 3 <= j && j <= i + shift + 150; }},
        {"lengths", [=](auto, auto, auto j) { return j < length; }},
    };
    for (const Said& one : said) {
      Instance mask = masked(words, "boolean", one.sees);
      Instance plain(case_of(std::string(words) + " " + one.words), Input::normal, 5);
      const tessera_tensor& lengths = plain.problem().key_lengths;
      for (std::int64_t b = 0; lengths.data != nullptr && b < c.batch; ++b) {
        if (lengths.dtype == TESSERA_I32)
          static_cast<std::int32_t*>(lengths.data)[b] = static_cast<std::int32_t>(length);
        if (lengths.dtype == TESSERA_I64) static_cast<std::int64_t*>(lengths.data)[b] = length;
      }
      plain.accept_inputs();
      for (const tessera_device& device : kernels_here()) {
        ASSERT_EQ(bits_of(mask, device), bits_of(plain, device))
            << words << ", " << one.words << " on " << device.kernel;
      }
    }
  }
}

// A mask that broadcasts is the mask written out.
TEST(Masks, BroadcastIsWrittenOut) {
  for (const char* type : {"boolean", "additive"}) {
    for (const char* const words :
         {"b1 h4/2 q40 k500 d40 f32", "b2 h2 q5 k150 d64 bf16", "b1 h2 q70 k70 d3 f16"}) {
      const Case c = case_of(words);
      for (const Pattern& pattern : patterns(c)) {
        if (std::string_view(pattern.name) == "a head each") continue;
        const Sees first_row = [&](auto, auto, auto j) { return pattern.sees(0, c.queries / 2, j); };
        Instance full = masked(words, type, pattern.sees);
        Instance shared = masked(words, (std::string(type) + ":queries-keys").c_str(), pattern.sees);
        Instance rows = masked(words, type, first_row);
        Instance row = masked(words, (std::string(type) + ":keys").c_str(), first_row);
        // One element for all keys of a query.
        const Sees first_key = [&](auto, auto i, auto) { return pattern.sees(0, i, c.keys / 2); };
        Instance columns = masked(words, type, first_key);
        Instance column = masked(words, type, first_key);
        column.problem().mask.tensor.shape[3] = 1;
        for (const tessera_device& device : kernels_here()) {
          const std::string where = fmt::format("{} {}, {} on {}", type, words, pattern.name, device.kernel);
          const auto expected = bits_of(full, device);
          ASSERT_EQ(bits_of(shared, device), expected) << where;
          ASSERT_EQ(bits_of(column, device), bits_of(columns, device)) << where;
          ASSERT_EQ(bits_of(row, device), bits_of(rows, device)) << where;
        }
      }
    }
  }
}

// A tile may be skipped for a row because its neighbours see nothing of it either: the row must not notice.
TEST(Masks, OtherRowsChangeNothing) {
  for (const char* type : {"boolean", "additive"}) {
    for (const std::string& words : kShapes) {
      const Case c = case_of(words);
      for (const Pattern& pattern : patterns(c)) {
        const std::int64_t row = c.queries / 2;
        Instance same = masked(words, type, pattern.sees);
        Instance alone = masked(
            words, type, [&](auto h, auto i, auto j) { return i == row && h == 0 && pattern.sees(h, i, j); });
        Instance among = masked(
            words, type, [&](auto h, auto i, auto j) { return i != row || h != 0 || pattern.sees(h, i, j); });
        for (const tessera_device& device : kernels_here()) {
          for (Instance* x : {&same, &alone, &among}) attend(*x, device);
          for (std::int64_t b = 0; b < c.batch; ++b) {
            const auto expected = row_bits(same, b, 0, row);
            ASSERT_EQ(row_bits(alone, b, 0, row), expected)
                << type << " " << words << ", " << pattern.name << " on " << device.kernel;
            ASSERT_EQ(row_bits(among, b, 0, row), expected)
                << type << " " << words << ", " << pattern.name << " on " << device.kernel;
          }
        }
      }
    }
  }
}

// Whatever a hidden key holds, in a tile that is skipped or in one that is visited.
TEST(Masks, GarbageUnderTheMaskChangesNothing) {
  const double garbage[][2] = {{kNan, kNan}, {kInf, -kInf}, {-kInf, kInf}, {kNan, 1.0}, {1.0, kNan}};
  for (const char* type : {"boolean", "additive"}) {
    for (const std::string& words : kShapes) {
      const Case c = case_of(words);
      const Sees sees = [&](auto, auto, auto j) { return (j < c.keys / 2 && j % 3 != 0) || j == 1; };
      Instance clean = masked(words, type, sees), dirty = masked(words, type, sees);
      for (const auto& values : garbage) {
        for (std::int64_t b = 0; b < c.batch; ++b)
          for (std::int64_t h = 0; h < c.kv_heads; ++h)
            for (std::int64_t j = 0; j < c.keys; ++j) {
              if (sees(0, 0, j)) continue;
              set_row(dirty.problem().key, b, h, j, values[0]);
              set_row(dirty.problem().value, b, h, j, values[1]);
            }
        dirty.accept_inputs();
        for (const tessera_device& device : kernels_here()) {
          ASSERT_EQ(bits_of(clean, device), bits_of(dirty, device))
              << type << " " << words << " on " << device.kernel << ": " << values[0] << ", " << values[1];
        }
      }
    }
  }
}

}  // namespace
