// Multiply-add and read loops; see probe.hpp. Nobody wants the multiply-adds' results, and compilers are good
// at finding that out: accumulators that begin alike become one, and one chain's time is taken for ten. So
// the instructions are written out as volatile asm, which no compiler may merge, drop or fuse, whatever its
// options.
#include "cli/probe.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace tessera::cli {
namespace {

// 64 bytes from each stream in turn, so that the hardware prefetcher follows all of them at once.
std::uint64_t read_plain(const unsigned char* data, std::size_t bytes, int streams) {
  using Vec = std::uint64_t __attribute__((vector_size(16)));
  const std::size_t part = bytes / static_cast<std::size_t>(streams);
  Vec a{}, b{}, c{}, d{};
  for (std::size_t at = 0; at < part; at += 64) {
    for (int s = 0; s < streams; ++s) {
      const auto* from = reinterpret_cast<const Vec*>(data + static_cast<std::size_t>(s) * part + at);
      a ^= from[0], b ^= from[1], c ^= from[2], d ^= from[3];
    }
  }
  a ^= b ^ c ^ d;
  return a[0] ^ a[1];
}

#if defined(__x86_64__)

// Each of the six becomes itself * x + y, which stays near 1. The operands' type says how wide the registers
// are.
#define TESSERA_SIX_CHAINS(any, a, b, c, d, e, f)                              \
  asm volatile(                                                                \
      "vfmadd213ps %7, %6, %0\n\tvfmadd213ps %7, %6, %1\n\t"                   \
      "vfmadd213ps %7, %6, %2\n\tvfmadd213ps %7, %6, %3\n\t"                   \
      "vfmadd213ps %7, %6, %4\n\tvfmadd213ps %7, %6, %5"                       \
      : "+" any(a), "+" any(b), "+" any(c), "+" any(d), "+" any(e), "+" any(f) \
      : any(x), any(y))

// Two units of four or five cycles want eight to ten chains; twelve and the two constants fit 16 registers.
__attribute__((target("avx2,fma"))) double multiply_add_avx2(std::int64_t rounds) {
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  __m256 a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
  for (std::int64_t r = 0; r < rounds; ++r) {
    TESSERA_SIX_CHAINS("x", a, b, c, d, e, f);
    TESSERA_SIX_CHAINS("x", g, h, i, j, k, l);
  }
  return static_cast<double>(rounds) * 12 * 8 * 2;
}

__attribute__((target("avx2"))) std::uint64_t read_avx2(const unsigned char* data, std::size_t bytes,
                                                        int streams) {
  const std::size_t part = bytes / static_cast<std::size_t>(streams);
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (std::size_t at = 0; at < part; at += 128) {
    for (int s = 0; s < streams; ++s) {
      const auto* from = reinterpret_cast<const __m256i*>(data + static_cast<std::size_t>(s) * part + at);
      a = _mm256_xor_si256(a, _mm256_load_si256(from));
      b = _mm256_xor_si256(b, _mm256_load_si256(from + 1));
      c = _mm256_xor_si256(c, _mm256_load_si256(from + 2));
      d = _mm256_xor_si256(d, _mm256_load_si256(from + 3));
    }
  }
  alignas(32) std::uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes),
                     _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d)));
  return lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3];
}

__attribute__((target("avx512f"))) double multiply_add_avx512(std::int64_t rounds) {
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  __m512 a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
  for (std::int64_t r = 0; r < rounds; ++r) {
    TESSERA_SIX_CHAINS("v", a, b, c, d, e, f);
    TESSERA_SIX_CHAINS("v", g, h, i, j, k, l);
  }
  return static_cast<double>(rounds) * 12 * 16 * 2;
}

#elif defined(__aarch64__)

// x * y is added to each of the six.
#define TESSERA_SIX_CHAINS(a, b, c, d, e, f)                     \
  asm volatile(                                                  \
      "fmla %0.4s, %6.4s, %7.4s\n\tfmla %1.4s, %6.4s, %7.4s\n\t" \
      "fmla %2.4s, %6.4s, %7.4s\n\tfmla %3.4s, %6.4s, %7.4s\n\t" \
      "fmla %4.4s, %6.4s, %7.4s\n\tfmla %5.4s, %6.4s, %7.4s"     \
      : "+w"(a), "+w"(b), "+w"(c), "+w"(d), "+w"(e), "+w"(f)     \
      : "w"(x), "w"(y))

// Four units of four cycles want sixteen chains.
double multiply_add_neon(std::int64_t rounds) {
  const float32x4_t x = vdupq_n_f32(0.999f), y = vdupq_n_f32(0.001f);
  float32x4_t a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
  float32x4_t m = x, n = x, o = x, p = x, q = x, s = x;
  for (std::int64_t r = 0; r < rounds; ++r) {
    TESSERA_SIX_CHAINS(a, b, c, d, e, f);
    TESSERA_SIX_CHAINS(g, h, i, j, k, l);
    TESSERA_SIX_CHAINS(m, n, o, p, q, s);
  }
  return static_cast<double>(rounds) * 18 * 4 * 2;
}

#endif

// Four floats at a time, multiply then add: what any compiler makes of a machine it knows nothing about.
// Without asm to write: each chain begins at a number that is read anew, and each end is stored.
[[maybe_unused]] double multiply_add_plain(std::int64_t rounds) {
  using Vec = float __attribute__((vector_size(16)));
  static volatile float beginning = 0.999f;
  const auto vec = [](float v) { return Vec{v, v, v, v}; };
  const Vec x = vec(beginning), y = vec(0.001f);
  Vec a = vec(beginning), b = vec(beginning), c = vec(beginning), d = vec(beginning), e = vec(beginning);
  Vec f = vec(beginning), g = vec(beginning), h = vec(beginning), i = vec(beginning), j = vec(beginning);
  for (std::int64_t r = 0; r < rounds; ++r) {
    a = a * x + y, b = b * x + y, c = c * x + y, d = d * x + y, e = e * x + y;
    f = f * x + y, g = g * x + y, h = h * x + y, i = i * x + y, j = j * x + y;
  }
  volatile Vec ends[] = {a, b, c, d, e, f, g, h, i, j};
  (void)ends;
  return static_cast<double>(rounds) * 10 * 4 * 2;
}

Probe choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f")) return {"AVX-512", multiply_add_avx512, read_avx2};
  if (avx2) return {"AVX2 + FMA", multiply_add_avx2, read_avx2};
  return {"SSE2", multiply_add_plain, read_plain};
#elif defined(__aarch64__)
  return {"NEON", multiply_add_neon, read_plain};
#else
  return {"portable", multiply_add_plain, read_plain};
#endif
}

}  // namespace

const Probe& probe() {
  static const Probe chosen = choose();
  return chosen;
}

}  // namespace tessera::cli
