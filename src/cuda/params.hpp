// What every kernel receives: one plain struct, passed by value. No host headers here or in anything a
// kernel includes, so that nvcc and NVRTC both take it.
#pragma once

#include "cuda/tile/divide.hpp"

namespace tessera::cuda {

// Strides in elements; the innermost dimension is contiguous.
struct Strides {
  long long batch, head, row;
};

enum class MaskTensorKind : int { none, boolean, additive_f32, additive_f16, additive_bf16 };

struct Params {
  const void* query;  // [batch, heads, queries, dim]
  const void* key;    // [batch, kv_heads, keys, dim]
  const void* value;  // [batch, kv_heads, keys, value_dim]
  void* output;       // [batch, heads, queries, value_dim]
  float* lse;         // [batch, heads, queries] or null
  Strides query_strides, key_strides, value_strides, output_strides, lse_strides;

  int batch, heads, kv_heads, queries, keys, dim, value_dim;
  int group;           // heads / kv_heads
  tile::Divider pack;  // query heads that share a block's rows: group where K/V loads are shared, else 1

  float scale;
  float scale_log2;  // scale * log2(e)
  float softcap;     // 0 = none

  // Position p sees keys p - left ... p + right. Open sides hold kFarAway.
  int left, right;
  int align_bottom_right;

  MaskTensorKind mask_kind;
  const void* mask;
  long long mask_strides[4];  // batch, head, query, key; 0 where it broadcasts

  const int* key_lengths_i32;  // at most one of the two is set
  const long long* key_lengths_i64;
  long long key_lengths_stride;
  const float* alibi_slopes;
  long long alibi_batch_stride, alibi_head_stride;
  const float* sinks;
  long long sinks_stride;

  int longest_first;  // the last row tile sees most keys: start with it
};

// Beyond any key, and p + kFarAway still fits an int for lengths under 2^30.
inline constexpr int kFarAway = 1 << 30;
inline constexpr int kMaxLength = (1 << 30) - 1;

}  // namespace tessera::cuda
