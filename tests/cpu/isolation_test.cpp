// What must not matter at all, bit for bit: keys a query does not see, neighbours in the batch, the number
// of threads, and other calls running at the same time.
#include <cmath>
#include <limits>
#include <thread>

#include "support.hpp"

namespace {

using namespace tessera::cases;
using namespace tessera::testing_cpu;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kSeeds = 8;

std::int64_t key_length(const tessera_attention& p, std::int64_t b) {
  const tessera_tensor& t = p.key_lengths;
  if (t.data == nullptr) return p.key.shape[2];
  return t.dtype == TESSERA_I64 ? static_cast<const std::int64_t*>(t.data)[b]
                                : static_cast<const std::int32_t*>(t.data)[b];
}

// The definition of tessera.h again, for the masks used below.
bool sees(const tessera_attention& p, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
  const std::int64_t length = key_length(p, b);
  const std::int64_t at = p.mask.align == TESSERA_ALIGN_BOTTOM_RIGHT ? i + length - p.query.shape[2] : i;
  if (j >= length) return false;
  if (p.mask.align != TESSERA_ALIGN_NONE && p.mask.left >= 0 && j < at - p.mask.left) return false;
  if (p.mask.align != TESSERA_ALIGN_NONE && p.mask.right >= 0 && j > at + p.mask.right) return false;
  const tessera_tensor& t = p.mask.tensor;  // full shape only
  if (t.data == nullptr) return true;
  const std::int64_t m = offset(t, b, h, i) + j;
  if (t.dtype == TESSERA_BOOL) return static_cast<const unsigned char*>(t.data)[m] != 0;
  return tessera::oracle::load(t.data, t.dtype, m) != -kInf;
}

// Overwrites key j everywhere and compares every row that does not see it.
void expect_unseen(const Case& c, std::uint64_t seed, const tessera_device& device, std::int64_t j,
                   double key_value, double value_value, int* rows_compared) {
  Instance before(c, Input::normal, seed), after(c, Input::normal, seed);
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t h = 0; h < c.kv_heads; ++h) {
      set_row(after.problem().key, b, h, j, key_value);
      set_row(after.problem().value, b, h, j, value_value);
    }
  }
  attend(before, device);
  attend(after, device);
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t h = 0; h < c.heads; ++h) {
      for (std::int64_t i = 0; i < c.queries; ++i) {
        if (sees(before.problem(), b, h, i, j)) continue;
        ASSERT_EQ(row_bits(before, b, h, i), row_bits(after, b, h, i))
            << words(c) << " on " << device.kernel << ", seed " << seed << ": row " << b << "," << h << ","
            << i << " does not see key " << j << ", yet changed when it became " << key_value << " and "
            << value_value;
        ++*rows_compared;
      }
    }
  }
}

TEST(Isolation, HiddenKeysChangeNothing) {
  int rows = 0;
  for (const char* words :
       {"b1 h2 q40 k40 d64 f32 causal=top-left", "b1 h2 q20 k70 d32 f16 causal=bottom-right",
        "b1 h2 q100 k100 d40 f32 causal=top-left window=10,0",
        "b1 h2 q70 k70 d64 bf16 align=bottom-right window=3,5", "b1 h2 q70 k150 d33 bf16 causal=bottom-right",
        "b4 h4/2 q9 k130 d64 f32 lengths", "b4 h4/2 q1 k300 d64 f16 lengths",
        "b2 h2 q33 k33 d64 f32 mask=boolean", "b2 h8/2 q2 k200 d64 f16 mask=boolean",
        "b2 h2 q33 k33 d64 f32 mask=additive", "b1 h8/2 q3 k150 d64 f16 mask=additive",
        "b2 h2 q3 k300 d5 v2 f32 causal=bottom-right", "b4 h2/1 q2 k130 d8 v3 f16 lengths",
        "b1 h2 q4 k50 d1 bf16 align=bottom-right window=9,3",
        "b1 h2 q40 k70 d64 f8e4m3 scales=block64 causal=bottom-right",
        "b4 h4/2 q1 k300 d64 f8e5m2 scales=channel lengths", "b2 h2 q3 k90 d8 v3 f8e4m3 mask=boolean",
        "b4 h2 q17 k50 d64 f32 causal=bottom-right lengths sinks"}) {
    const Case c = case_of(words);
    for (const tessera_device& device : kernels_here()) {
      for (int n = 0; n < scaled(kSeeds); ++n) {
        const auto seed = static_cast<std::uint64_t>(n);
        const std::int64_t j = n % 3 == 0 ? c.keys - 1 : n % 3 == 1 ? c.keys / 2 : n % c.keys;
        const double values[][2] = {{1e4, -1e4}, {kNan, kNan}, {kInf, -kInf}, {-kInf, kNan}, {1e-39, 1e-30}};
        for (const auto& v : values) {
          expect_unseen(c, seed, device, j, v[0], v[1], &rows);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  fmt::print("{} rows compared\n", rows);
  EXPECT_GT(rows, 100);
}

TEST(Isolation, NeighboursInTheBatchChangeNothing) {
  for (const char* words : {"b3 h4/2 q33 k70 d64 f32", "b3 h8/2 q1 k900 d64 f16", "b3 h4/1 q6 k200 d80 bf16",
                            "b3 h4/1 q6 k200 d80 f8e4m3 scales=block64",
                            "b3 h2 q65 k65 d64 f32 causal=top-left sinks layout=bshd"}) {
    const Case c = case_of(words);
    for (const tessera_device& device : kernels_here()) {
      Instance before(c, Input::normal, 1), after(c, Input::normal, 1);
      for (double poison : {0.0, 1e4, kNan}) {
        for (std::int64_t h = 0; h < c.kv_heads; ++h) {
          for (std::int64_t j = 0; j < c.keys; ++j) {
            set_row(after.problem().key, 1, h, j, poison);
            set_row(after.problem().value, 1, h, j, poison);
          }
        }
        for (std::int64_t h = 0; h < c.heads; ++h) set_row(after.problem().query, 1, h, 0, poison);
        attend(before, device);
        attend(after, device);
        for (std::int64_t b : {0, 2}) {
          for (std::int64_t h = 0; h < c.heads; ++h) {
            for (std::int64_t i = 0; i < c.queries; ++i) {
              ASSERT_EQ(row_bits(before, b, h, i), row_bits(after, b, h, i))
                  << words << " on " << device.kernel;
            }
          }
        }
      }
    }
  }
}

// A sequence computed by itself: the same memory, a batch of one.
TEST(Isolation, AloneGivesTheSameBitsAsInABatch) {
  for (const char* words :
       {"b5 h4/2 q33 k70 d64 f32", "b7 h8/2 q1 k2500 d64 f16", "b3 h4/1 q6 k4500 d80 bf16",
        "b4 h2 q300 k65 d64 f32 causal=bottom-right sinks", "b9 h1 q1 k1 d8 f32"}) {
    const Case c = case_of(words);
    for (const tessera_device& device : kernels_here()) {
      Instance batch(c, Input::normal, 4), alone(c, Input::normal, 4);
      attend(batch, device);
      alone.poison_outputs();
      for (std::int64_t b = 0; b < c.batch; ++b) {
        tessera_attention one = alone.problem();
        for (tessera_tensor* t : {&one.query, &one.key, &one.value, &one.output, &one.lse}) {
          const auto bytes = static_cast<std::int64_t>(tessera_dtype_size(t->dtype));
          t->data = static_cast<char*>(t->data) + b * t->strides[0] * bytes;
          t->shape[0] = 1;
        }
        ASSERT_EQ(attend_with_library(one, device), "");
      }
      EXPECT_EQ(batch.output_bytes(), alone.output_bytes()) << words << " on " << device.kernel;
    }
  }
}

TEST(Isolation, ThreadCountsChangeNothing) {
  for (const char* words :
       {"b2 h4/2 q70 k130 d64 f32", "b1 h8/2 q1 k5000 d64 f16", "b1 h2/1 q5 k3000 d128 f32",
        "b1 h1 q300 k300 d64 bf16 causal=bottom-right", "b3 h2 q33 k90 d40 f32 lengths sinks mask=additive",
        "b3 h2/1 q2 k5000 d4 v7 f32", "b1 h4/2 q70 k5000 d64 f8e4m3 scales=block128 transposed",
        "b1 h8/2 q1 k5000 d64 f8e5m2 scales=channel", "b2 h2 q90 k2 d64 f32", "b1 h3 q57 k130 d24 f32"}) {
    for (tessera_device device : kernels_here()) {
      Instance instance(case_of(words), Input::normal, 2);
      device.threads = 1;
      attend(instance, device);
      const std::vector<unsigned char> one = instance.output_bytes();
      for (std::int32_t threads : {0, 2, 3, 4, 7, 16, 61}) {
        device.threads = threads;
        attend(instance, device);
        ASSERT_EQ(instance.output_bytes(), one)
            << words << " on " << device.kernel << " with " << threads << " threads";
      }
    }
  }
}

// Many callers at once, each with its own shape and thread count, again and again.
TEST(Isolation, ConcurrentCallsGiveTheSameBits) {
  const std::vector<const char*> all_words = {"b1 h4/2 q33 k70 d64 f32",
                                              "b1 h8/2 q1 k2000 d64 f16",
                                              "b1 h2 q65 k65 d64 bf16 causal=top-left",
                                              "b2 h4/1 q4 k300 d80 f32",
                                              "b2 h2 q20 k90 d64 f16 lengths",
                                              "b1 h3 q50 k50 d40 f32 mask=additive sinks"};
  for (const tessera_device& kernel : kernels_here()) {
    std::vector<std::vector<unsigned char>> alone;
    for (const char* words : all_words) {
      Instance instance(case_of(words), Input::normal, 6);
      attend(instance, kernel);
      alone.push_back(instance.output_bytes());
    }
    constexpr std::size_t kCallers = 8;
    std::vector<std::string> complaints(kCallers);
    std::vector<std::thread> callers;
    for (std::size_t caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back([&, caller] {
        tessera_device device = kernel;
        device.threads = static_cast<std::int32_t>(caller % 4);
        for (int round = 0; round < scaled(40); ++round) {
          const std::size_t which = (caller + static_cast<std::size_t>(round)) % all_words.size();
          Instance instance(case_of(all_words[which]), Input::normal, 6);
          instance.poison_outputs();
          complaints[caller] = attend_with_library(instance.problem(), device);
          if (complaints[caller].empty() && instance.output_bytes() != alone[which]) {
            complaints[caller] = fmt::format("{} gave other bits than alone", all_words[which]);
          }
          if (!complaints[caller].empty()) return;
        }
      });
    }
    for (std::thread& t : callers) t.join();
    for (const std::string& complaint : complaints) EXPECT_EQ(complaint, "") << kernel.kernel;
  }
}

}  // namespace
