// The plain implementation that the demo compares with; see plain_attention.hpp. No tricks on purpose, and
// none against it either: contiguous rows, single precision, the maximum subtracted as one must.
#include "cli/plain_attention.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::cli {

void plain_attention(const float* query, const float* key, const float* value, float* output, float* scores,
                     std::int64_t queries, std::int64_t keys, std::int64_t dim, bool causal) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (std::int64_t i = 0; i < queries; ++i) {
    const std::int64_t visible = causal ? std::clamp<std::int64_t>(i + keys - queries + 1, 0, keys) : keys;
    float largest = -INFINITY;
    for (std::int64_t j = 0; j < visible; ++j) {
      float dot = 0;
      for (std::int64_t d = 0; d < dim; ++d) dot += query[i * dim + d] * key[j * dim + d];
      scores[j] = dot * scale;
      largest = std::max(largest, scores[j]);
    }
    float sum = 0;
    for (std::int64_t j = 0; j < visible; ++j) {
      scores[j] = std::exp(scores[j] - largest);
      sum += scores[j];
    }
    float* row = output + i * dim;
    std::fill(row, row + dim, 0.0f);
    for (std::int64_t j = 0; j < visible; ++j) {
      const float weight = scores[j] / sum;
      for (std::int64_t d = 0; d < dim; ++d) row[d] += weight * value[j * dim + d];
    }
  }
}

}  // namespace tessera::cli
