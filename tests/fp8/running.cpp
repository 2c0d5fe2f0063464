// See running.hpp.
#include "tests/fp8/running.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "oracle/plain_fp8.hpp"

namespace tessera::fp8 {
namespace {

constexpr std::int64_t kTile = 128, kDepth = 32;  // keys, and those of one instruction
constexpr float kWeightScale = 256;

// A row under way. Both sums are of P * 2^8 and the codes of V.
struct State {
  std::vector<float> unpromoted, promoted;
  float largest = -std::numeric_limits<float>::infinity(), sum = 0;
};

// One instruction for every 32 keys.
float add_products(float accumulator, const float* weights, const float* values) {
  for (std::int64_t k = 0; k < kTile; k += kDepth)
    accumulator = oracle::short_sum(accumulator, {{weights + k, kDepth}, TESSERA_F8E4M3},
                                    {{values + k, kDepth}, TESSERA_F8E4M3});
  return accumulator;
}

void add_tile(const oracle::Codes& codes, std::int64_t first, std::int64_t last, const float* weights,
              State* state) {
  const std::size_t columns = state->promoted.size();
  for (std::size_t d = 0; d < columns; ++d) {
    float column[kTile] = {};
    for (std::int64_t j = first; j < last; ++j)
      column[j - first] = codes.value[static_cast<std::size_t>(j) * columns + d];
    state->unpromoted[d] = add_products(state->unpromoted[d], weights, column);
    state->promoted[d] += add_products(0, weights, column);
  }
}

void take_tile(const tessera_attention& p, const oracle::Codes& codes, std::span<const float> query,
               const oracle::Row& row, std::int64_t first, State* state) {
  const std::int64_t last = std::min(first + kTile, p.key.shape[2]);
  const auto scale = oracle::scale_of<float>(p);
  float scores[kTile], weights[kTile] = {};
  float largest = state->largest;
  for (std::int64_t j = first; j < last; ++j) {
    scores[j - first] = scale * oracle::short_score(p, codes, query, row, j, false);
    largest = std::max(largest, scores[j - first]);
  }
  const float factor = std::exp(state->largest - largest);
  state->largest = largest;
  state->sum *= factor;
  for (float& a : state->unpromoted) a *= factor;
  for (float& a : state->promoted) a *= factor;
  for (std::int64_t j = first; j < last; ++j) {
    const float weight = std::exp(scores[j - first] - largest);
    state->sum += weight;
    weights[j - first] =
        static_cast<float>(oracle::round_to(TESSERA_F8E4M3, static_cast<double>(kWeightScale * weight)));
  }
  add_tile(codes, first, last, weights, state);
}

}  // namespace

Running running(const tessera_attention& p, std::span<const oracle::Row> rows) {
  const oracle::Sizes n(p);
  const auto columns = static_cast<std::size_t>(n.value_dim);
  oracle::Codes codes;
  Running out;
  for (const oracle::Row& row : rows) {
    codes.load_for(p, n, row);
    const std::vector<float> query = oracle::codes_of_query(p, row);
    State state{std::vector<float>(columns), std::vector<float>(columns)};
    for (std::int64_t tile = (p.key.shape[2] - 1) / kTile; tile >= 0; --tile)
      take_tile(p, codes, query, row, tile * kTile, &state);
    const oracle::Stored values = oracle::stored_key(p, p.value, row.batch, codes.kv_head, 0);
    for (std::size_t d = 0; d < columns; ++d) {
      const float scale = oracle::scale_at(p, p.value_scales, values, static_cast<std::int64_t>(d)) /
                          kWeightScale / state.sum;
      out.unpromoted.push_back(static_cast<double>(state.unpromoted[d] * scale));
      out.promoted.push_back(static_cast<double>(state.promoted[d] * scale));
    }
  }
  return out;
}

}  // namespace tessera::fp8
