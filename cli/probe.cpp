// Multiply-add and read loops; see probe.hpp. Written with intrinsics because the flags forbid the compiler
// to fuse a*b+c by itself, and with named accumulators so that they stay in registers.
#include "cli/probe.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace tessera::cli {
namespace {

// Keeps the compiler from dropping a loop whose result nobody wants.
volatile float float_sink;

constexpr int kAccumulators = 10;  // more than latency × units of any core so far

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

__attribute__((target("avx2,fma"))) double multiply_add_avx2(std::int64_t rounds) {
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  __m256 a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x;
  for (std::int64_t r = 0; r < rounds; ++r) {
    a = _mm256_fmadd_ps(a, x, y), b = _mm256_fmadd_ps(b, x, y), c = _mm256_fmadd_ps(c, x, y);
    d = _mm256_fmadd_ps(d, x, y), e = _mm256_fmadd_ps(e, x, y), f = _mm256_fmadd_ps(f, x, y);
    g = _mm256_fmadd_ps(g, x, y), h = _mm256_fmadd_ps(h, x, y), i = _mm256_fmadd_ps(i, x, y);
    j = _mm256_fmadd_ps(j, x, y);
  }
  a = _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)), _mm256_add_ps(e, f));
  a = _mm256_add_ps(_mm256_add_ps(a, _mm256_add_ps(g, h)), _mm256_add_ps(i, j));
  float_sink = _mm256_cvtss_f32(a);
  return static_cast<double>(rounds) * kAccumulators * 8 * 2;
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
  __m512 a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x;
  for (std::int64_t r = 0; r < rounds; ++r) {
    a = _mm512_fmadd_ps(a, x, y), b = _mm512_fmadd_ps(b, x, y), c = _mm512_fmadd_ps(c, x, y);
    d = _mm512_fmadd_ps(d, x, y), e = _mm512_fmadd_ps(e, x, y), f = _mm512_fmadd_ps(f, x, y);
    g = _mm512_fmadd_ps(g, x, y), h = _mm512_fmadd_ps(h, x, y), i = _mm512_fmadd_ps(i, x, y);
    j = _mm512_fmadd_ps(j, x, y);
  }
  a = _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)), _mm512_add_ps(e, f));
  a = _mm512_add_ps(_mm512_add_ps(a, _mm512_add_ps(g, h)), _mm512_add_ps(i, j));
  float lanes[16];
  _mm512_storeu_ps(lanes, a);
  float_sink = lanes[0];
  return static_cast<double>(rounds) * kAccumulators * 16 * 2;
}

#elif defined(__aarch64__)

double multiply_add_neon(std::int64_t rounds) {
  const float32x4_t x = vdupq_n_f32(0.999f), y = vdupq_n_f32(0.001f);
  float32x4_t a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x;
  // vfmaq(acc, m, n) adds m*n to acc, so the chain runs through the addend here.
  for (std::int64_t r = 0; r < rounds; ++r) {
    a = vfmaq_f32(a, x, y), b = vfmaq_f32(b, x, y), c = vfmaq_f32(c, x, y), d = vfmaq_f32(d, x, y);
    e = vfmaq_f32(e, x, y), f = vfmaq_f32(f, x, y), g = vfmaq_f32(g, x, y), h = vfmaq_f32(h, x, y);
    i = vfmaq_f32(i, x, y), j = vfmaq_f32(j, x, y);
  }
  a = vaddq_f32(vaddq_f32(vaddq_f32(a, b), vaddq_f32(c, d)), vaddq_f32(e, f));
  a = vaddq_f32(vaddq_f32(a, vaddq_f32(g, h)), vaddq_f32(i, j));
  float_sink = vgetq_lane_f32(a, 0);
  return static_cast<double>(rounds) * kAccumulators * 4 * 2;
}

#endif

// Four floats at a time, multiply then add: what any compiler makes of a machine it knows nothing about.
[[maybe_unused]] double multiply_add_plain(std::int64_t rounds) {
  using Vec = float __attribute__((vector_size(16)));
  const Vec x = {0.999f, 0.999f, 0.999f, 0.999f}, y = {0.001f, 0.001f, 0.001f, 0.001f};
  Vec a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x;
  for (std::int64_t r = 0; r < rounds; ++r) {
    a = a * x + y, b = b * x + y, c = c * x + y, d = d * x + y, e = e * x + y;
    f = f * x + y, g = g * x + y, h = h * x + y, i = i * x + y, j = j * x + y;
  }
  a += b + c + d + e + f + g + h + i + j;
  float_sink = a[0];
  return static_cast<double>(rounds) * kAccumulators * 4 * 2;
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
