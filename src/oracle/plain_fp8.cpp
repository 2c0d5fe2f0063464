// See plain_fp8.hpp. The one thing here that is no definition but a measurement is short_sum.
#include "oracle/plain_fp8.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace tessera::oracle {
namespace {

constexpr std::size_t kDepth = 32;  // products of one instruction
constexpr int kFractionBits = 13;   // that a term keeps beside the largest one
constexpr int kNone = std::numeric_limits<int>::min();
constexpr std::int64_t kTile = 128;     // keys whose P V is summed before it is promoted to float
constexpr float kWeightScale = 256.0f;  // P is at most 1, the largest e4m3 number is 448

// The exponent of an 8-bit number that is not zero, as its code has it. As a float it is normal, so its field
// there is what ilogb would say, several times as fast.
int exponent(float number, tessera_dtype dtype) {
  if (!std::isfinite(number)) return 0;
  const auto field = static_cast<int>(std::bit_cast<std::uint32_t>(number) >> 23 & 0xff);
  return std::max(field - 127, dtype == TESSERA_F8E4M3 ? -6 : -14);
}

// As many numbers from `first` on as there are, `count` at most.
CodeSpan part_of(const CodeSpan& all, std::size_t first, std::size_t count) {
  const std::size_t begin = std::min(first, all.numbers.size());
  return {all.numbers.subspan(begin, std::min(count, all.numbers.size() - begin)), all.dtype};
}

std::vector<float> codes_of(const tessera_attention& p, const tessera_tensor& t, std::int64_t b,
                            std::int64_t h) {
  return matrix<float>(p, t, tessera_tensor{}, b, h);
}

}  // namespace

// The products, which are exact, and the accumulator are aligned to the largest exponent e among them: each
// is cut off toward zero to a multiple of 2^(e - 13), they are added, and the sum is cut to 13 fraction bits
// of its own. The exponent of a product is that of its factors together, so its significand may reach 4; a
// subnormal number has the exponent of the least normal one. Infinities and NaN take part as in any sum.
float short_sum(float accumulator, const CodeSpan& a, const CodeSpan& b) {
  const auto c = static_cast<double>(accumulator);
  double products[kDepth], plain = c;
  int largest = c == 0 ? kNone : std::ilogb(c);
  for (std::size_t i = 0; i < a.numbers.size(); ++i) {
    products[i] = static_cast<double>(a.numbers[i]) * static_cast<double>(b.numbers[i]);
    plain += products[i];
    if (products[i] != 0)
      largest = std::max(largest, exponent(a.numbers[i], a.dtype) + exponent(b.numbers[i], b.dtype));
  }
  if (!std::isfinite(plain)) return static_cast<float>(plain);
  if (largest == kNone) return 0;
  const double per_unit = std::ldexp(1.0, kFractionBits - largest);
  auto units = static_cast<std::int64_t>(c * per_unit);  // toward zero
  for (std::size_t i = 0; i < a.numbers.size(); ++i)
    units += static_cast<std::int64_t>(products[i] * per_unit);
  const auto magnitude = static_cast<std::uint64_t>(std::abs(units));
  const int beyond = std::max(0, static_cast<int>(std::bit_width(magnitude)) - (kFractionBits + 1));
  const double kept = static_cast<double>(magnitude >> beyond << beyond) / per_unit;
  return static_cast<float>(units < 0 ? -kept : kept);
}

float short_dot(const CodeSpan& a, const CodeSpan& b) {
  float sum = 0;
  for (std::size_t first = 0; first < a.numbers.size(); first += kDepth)
    sum = short_sum(sum, part_of(a, first, kDepth), part_of(b, first, kDepth));
  return sum;
}

float ada_dot(const CodeSpan& a, const CodeSpan& b) {
  float sum = 0;
  for (std::size_t first = 0; first < a.numbers.size(); first += kDepth) {
    const CodeSpan x = part_of(a, first, kDepth), y = part_of(b, first, kDepth);
    const float half = short_sum(0, part_of(x, 0, kDepth / 2), part_of(y, 0, kDepth / 2));
    sum += short_sum(half, part_of(x, kDepth / 2, kDepth), part_of(y, kDepth / 2, kDepth));
  }
  return sum;
}

void Codes::load_for(const tessera_attention& p, const Sizes& n, const Row& row) {
  const std::int64_t wanted = row.head / (n.heads / n.kv_heads);
  if (batch == row.batch && kv_head == wanted) return;
  batch = row.batch;
  kv_head = wanted;
  key = codes_of(p, p.key, batch, kv_head);
  value = codes_of(p, p.value, batch, kv_head);
}

std::vector<float> codes_of_query(const tessera_attention& p, const Row& row) {
  std::vector<float> out(static_cast<std::size_t>(p.query.shape[3]));
  read_row(p, p.query, tessera_tensor{}, stored_query(p, row), out.data());
  return out;
}

float short_score(const tessera_attention& p, const Codes& codes, std::span<const float> query_codes,
                  const Row& row, std::int64_t j, bool by_ada) {
  const std::size_t dim = query_codes.size();
  const float* const key_codes = codes.key.data() + static_cast<std::size_t>(j) * dim;
  const CodeSpan of_query = {query_codes, p.query.dtype}, of_key = {{key_codes, dim}, p.key.dtype};
  const float dot = by_ada ? ada_dot(of_query, of_key) : short_dot(of_query, of_key);
  const Stored key = stored_key(p, p.key, row.batch, codes.kv_head, j);
  return dot * scale_at(p, p.query_scales, stored_query(p, row), 0) * scale_at(p, p.key_scales, key, 0);
}

void add_fast(const tessera_attention& p, const Sizes& n, const Codes& codes, const Row& row,
              std::span<const Weighted> weights, std::vector<float>* output) {
  const auto stored = [&](std::int64_t j) { return stored_key(p, p.value, row.batch, codes.kv_head, j); };
  const auto scale_place = [&](std::int64_t j) {
    return p.value_scales.data == nullptr ? 0 : scale_index(p, p.value_scales, stored(j), 0);
  };
  for (std::size_t first = 0, last = 0; first < weights.size(); first = last) {
    // Keys of one tile that share their scales; zeros stand for the others.
    const std::int64_t tile = weights[first].key / kTile, place = scale_place(weights[first].key);
    float rounded[kTile] = {};
    for (last = first; last < weights.size(); ++last) {
      const auto [j, weight] = weights[last];
      if (j / kTile != tile || scale_place(j) != place) break;
      rounded[j % kTile] =
          static_cast<float>(round_to(TESSERA_F8E4M3, static_cast<double>(kWeightScale * weight)));
    }
    for (std::int64_t d = 0; d < n.value_dim; ++d) {
      float column[kTile] = {};
      for (std::size_t i = first; i < last; ++i) {
        const std::int64_t j = weights[i].key;
        column[j % kTile] = codes.value[static_cast<std::size_t>(j * n.value_dim + d)];
      }
      const float scale = scale_at(p, p.value_scales, stored(weights[first].key), d) / kWeightScale;
      (*output)[static_cast<std::size_t>(d)] +=
          short_dot({rounded, TESSERA_F8E4M3}, {column, p.value.dtype}) * scale;
    }
  }
}

}  // namespace tessera::oracle
