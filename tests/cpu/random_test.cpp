// Thousands of small random cases against the oracle: shapes, strides, dtypes, options and inputs, every
// kernel that runs here. A failure is made smaller before it is printed, with the command to run it again.
#include "random_case.hpp"
#include "support.hpp"

namespace {

using namespace tessera::cases;
using namespace tessera::testing_cpu;

constexpr int kCases = 4000;
constexpr int kMostFailures = 5;  // enough to see a pattern

TEST(Random, EveryKernelAgreesWithTheOracle) {
  const std::uint64_t seed = test_seed();
  const Random random(seed, 1);
  const std::vector<tessera_device> devices = kernels_here();
  ASSERT_FALSE(devices.empty());
  const int count = scaled(kCases);
  fmt::print("TESSERA_TEST_SEED={}, {} cases x {} kernels\n", seed, count, devices.size());

  int failures = 0;
  double worst = 0;
  for (int n = 0; n < count && failures < kMostFailures; ++n) {
    const auto number = static_cast<std::uint64_t>(n);
    const Case c = random_case(random, number);
    const Input input = all_inputs()[random.word(number << 8 | 255) % all_inputs().size()];
    Instance instance(c, input, number);
    const Expected expected = expect(instance);
    for (const tessera_device& device : devices) {
      const Verdict v = judge(instance, expected, device);
      worst = std::max(worst, v.worst_ratio);
      if (v.passed) continue;
      ++failures;
      const Case small =
          smallest_failing(c, [&](const Case& x) { return !judge(x, input, number, device).passed; });
      const Verdict least = judge(small, input, number, device);
      ADD_FAILURE() << device.kernel << ": " << v.why << "\n  reproduce: " << v.reproduce
                    << "\nsmaller: " << least.why << "\n  reproduce: " << least.reproduce;
    }
  }
  fmt::print("worst error {:.2f} of its bound\n", worst);
}

// The smaller case must still be one that fails, and the least such case must be found for a simple fault.
TEST(SmallestFailing, FindsTheLeastCase) {
  const Case start = case_of("b3 h6/2 q40 k90 d64 f16 causal=top-left mask=additive sinks layout=padded");
  const Case least = smallest_failing(start, [](const Case& c) { return c.keys >= 17 && c.sinks; });
  EXPECT_EQ(words(least), "b1 h1 q0 k17 d1 v1 f32 sinks");
}

// The sequence has to reach every option, or the big test above says less than it seems to.
TEST(RandomCases, CoverEveryOption) {
  const Random random(test_seed(), 1);
  int band = 0, window = 0, boolean = 0, additive = 0, lengths = 0, alibi = 0, sinks = 0, softcap = 0,
      scale = 0, grouped = 0, padded = 0, tall = 0, decode = 0, no_keys = 0, ragged = 0, packed = 0,
      pages = 0, priors = 0, wide = 0, last = 0, codes = 0, caches = 0, scales = 0, transposed = 0,
      append = 0, latent = 0, halves = 0, interleaved = 0, partial = 0, positions = 0;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    const Case c = random_case(random, n);
    std::string error;
    ASSERT_TRUE(parse(words(c), &error).has_value()) << words(c) << " : " << error;
    band += c.align != TESSERA_ALIGN_NONE;
    window += c.left > 0;
    boolean += c.mask_shape != MaskShape::none && c.mask_type == MaskType::boolean;
    additive += c.mask_shape != MaskShape::none && c.mask_type == MaskType::additive;
    lengths += c.key_lengths;
    alibi += c.alibi;
    sinks += c.sinks;
    softcap += c.softcap > 0;
    scale += c.scale != 0;
    grouped += c.heads > c.kv_heads;
    padded += c.layout == Layout::padded;
    tall += c.queries > c.keys;
    decode += c.queries == 1;
    no_keys += c.keys == 0;
    ragged += c.ragged;
    packed += c.packed;
    pages += c.page > 0;
    priors += c.priors > 0;
    wide += c.output_dtype == TESSERA_F32;
    last += c.mask_last > 0;
    codes += c.dtype == TESSERA_F8E4M3;
    caches += c.cache != 0;
    scales += c.scales != ScaleKind::none;
    transposed += c.transposed;
    append += c.append;
    latent += c.latent;
    halves += c.rope_pairs > 0 && !c.rope_interleaved;
    interleaved += c.rope_interleaved;
    partial += c.rope_pairs > 0 && 2 * c.rope_pairs < c.dim;
    positions += c.positions;
  }
  for (int seen :
       {band, window, boolean, additive, lengths, alibi,  sinks,  softcap,    scale,  grouped, padded,
        tall, decode, ragged,  pages,    codes,   caches, scales, transposed, append, halves,  interleaved}) {
    EXPECT_GT(seen, 50);
  }
  for (int seen : {packed, priors, wide, last, latent, partial, positions}) EXPECT_GT(seen, 20);
  EXPECT_GT(no_keys, 2);
}

}  // namespace
