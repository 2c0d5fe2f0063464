// Attention as most people write it first: scores, softmax, product, one loop after the other. The demo
// times it beside Tessera.
#pragma once

#include <cstdint>

namespace tessera::cli {

// One head, f32, contiguous rows; scores is scratch of `keys` floats. Query i sees keys
// 0 ... i + keys - queries if causal, else all of them.
void plain_attention(const float* query, const float* key, const float* value, float* output, float* scores,
                     std::int64_t queries, std::int64_t keys, std::int64_t dim, bool causal);

}  // namespace tessera::cli
