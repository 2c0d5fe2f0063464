// What every kernel receives: a problem in parts, passed by value. No host headers here or in anything a
// kernel includes, so that nvcc and NVRTC both take it. Kernels ask tile::Sequence for lengths, not `sizes`.
#pragma once

#include "cuda/tile/divide.hpp"

namespace tessera::cuda {

// Strides in elements; the innermost dimension is contiguous.
struct Strides {
  long long batch, head, row;
};
struct Tensor {
  const void* data;
  Strides strides;
};

struct Sizes {
  int batch, heads, kv_heads, queries, keys, dim, value_dim;
  int group;  // heads / kv_heads
};

struct Scoring {
  float scale;
  float scale_log2;  // scale * log2(e)
  float softcap;     // 0 = none
};

enum class MaskTensorKind : int { none, boolean, additive_f32, additive_f16, additive_bf16 };

// Position p sees keys p - left ... p + right. Open sides hold kFarAway.
struct Visibility {
  int align_bottom_right;
  MaskTensorKind mask_kind;
  int left, right;
  const void* mask;
  long long mask_strides[4];  // batch, head, query, key; 0 where it broadcasts
};

// Every sequence has as many rows, of which the first are keys.
struct KeysAndValues {
  const int* lengths_i32;  // keys of each sequence; at most one of the two is set
  const long long* lengths_i64;
  long long lengths_stride;
  Tensor key;    // [batch, kv_heads, keys, dim]
  Tensor value;  // [batch, kv_heads, keys, value_dim]
};

// What scores have that belong to a head.
struct PerHead {
  const float* alibi_slopes;
  long long alibi_batch_stride, alibi_head_stride;
  const float* sinks;
  long long sinks_stride;
};

struct Outputs {
  void* data;  // [batch, heads, queries, value_dim]
  Strides strides, lse_strides;
  float* lse;  // [batch, heads, queries] or null
};

// In this order what the kernels load together lies side by side.
struct Params {
  Tensor query;  // [batch, heads, queries, dim]
  Sizes sizes;
  tile::Divider pack;  // query heads that share a block's rows: group where K/V loads are shared, else 1
  Scoring scoring;
  Visibility visibility;
  KeysAndValues kv;
  PerHead per_head;
  int longest_first;  // the last row tile sees most keys: start with it
  Outputs output;
};

// Beyond any key, and p + kFarAway still fits an int for lengths under 2^30.
inline constexpr int kFarAway = 1 << 30;
inline constexpr int kMaxLength = (1 << 30) - 1;

}  // namespace tessera::cuda
