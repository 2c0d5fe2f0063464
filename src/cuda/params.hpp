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
  int mask_last_keys;         // its columns are an entry's last `mask_columns` keys; else column j is key j
  int mask_columns;
};

// Where each entry of the batch begins, and behind the last one where that ends: [batch + 1]. Null: a dense
// batch.
struct Offsets {
  const void* data;
  long long stride;
  int wide;  // i64, else i32
};

// Key j of an entry is row j % rows of page table[j / rows].
struct Pages {
  const int* table;  // null: no pages
  long long batch_stride, stride;
  tile::Divider rows;  // of a page
  int count;           // pages that there are
};

// Of a dense batch every sequence has as many rows, of which the first are keys.
struct KeysAndValues {
  const int* lengths_i32;  // keys of each sequence; at most one of the two is set
  const long long* lengths_i64;
  long long lengths_stride;
  Tensor key;    // [batch, kv_heads, keys, dim]; [1, kv_heads, all keys, dim]; [pages, kv_heads, rows, dim]
  Tensor value;  // the same with value_dim
  Offsets offsets;
  Pages pages;
};

// Results over other keys, each taken in as if it were one more key.
struct Priors {
  int parts;
  int f32;                       // else the output's element
  const void* data;              // [parts, heads, rows, value_dim]
  const float* lse;              // [parts, heads, rows]
  Strides strides, lse_strides;  // batch: a part's
};

// What scores have that belong to a head.
struct PerHead {
  const float* alibi_slopes;
  long long alibi_batch_stride, alibi_head_stride;
  const float* sinks;
  long long sinks_stride;
};

// How options enter a score while it is kept in a unit of its own: times `factor` it is the exponent of 2.
// Where the scale allows, that unit is the dot product's, so that scores need not be scaled one by one.
struct ScoreUnits {
  float factor = 1;
  float first = 1;                      // dot products are multiplied by this to be in that unit
  float bias = 1;                       // what is added to a score is multiplied by this
  float cap_in = 0, cap_out = 0;        // softcap: cap_out * tanh(cap_in * score)
  float cap_small = 0, cap_middle = 0;  // to these sizes of a score it is a polynomial: see tile/options.hpp
  float cap_3[3] = {}, cap_5[5] = {};
  float least_bias = 0;  // finite ones below are taken for this: they would overflow
};

// A mask tensor looked at beforehand (mask/pass.hpp), in granules of 64 rows and one key tile. Granule g of a
// row of key tiles is batch_stride * batch + head_stride * head + row_stride * (query / 64).
struct MaskTiles {
  const unsigned char* states;  // of every granule: tile::MaskState
  const void* bits;             // of a boolean mask: a granule's rows, a bit for every key
  int tiles;                    // of a row of key tiles
  int batch_stride, head_stride, row_stride;
};

struct Outputs {
  void* data;  // [batch, heads, queries, value_dim]
  Strides strides, lse_strides;
  float* lse;  // [batch, heads, queries] or null
  int f32;     // beside inputs of 16 bits: not rounded to them
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
  ScoreUnits units;
  MaskTiles mask_tiles;
  Offsets query_offsets;  // query, output and lse are [1, heads, all rows, ...]
  Priors priors;
};

// Beyond any key, and p + kFarAway still fits an int for lengths under 2^30.
inline constexpr int kFarAway = 1 << 30;
inline constexpr int kMaxLength = (1 << 30) - 1;

}  // namespace tessera::cuda
