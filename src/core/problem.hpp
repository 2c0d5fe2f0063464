// A validated attention problem, as the backends see it: every size agreed on, every default resolved,
// broadcasting expressed as zero strides. validate() makes them, so a backend checks nothing again. In parts,
// which the kernels' parameters follow (cuda/params.hpp).
#pragma once

#include <tessera/tessera.h>

#include <array>
#include <cstdint>

#include "core/status.hpp"
#include "core/tensors.hpp"

namespace tessera::core {

struct Sizes {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, dim = 0, value_dim = 0;

  std::int64_t group() const { return heads / kv_heads; }  // query heads that share one K/V head
};

// [batch, head, row] strides in elements; the innermost dimension is contiguous.
struct Tensor4 {
  void* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;

  std::int64_t offset(std::int64_t b, std::int64_t h, std::int64_t row) const {
    return b * batch_stride + h * head_stride + row * row_stride;
  }
};

// Keys and values: one dense tensor each, of which a batch entry may use a part.
struct KeysValues {
  Tensor4 key, value;
  const void* lengths = nullptr;  // keys of each batch entry that exist; null: all of them
  tessera_dtype lengths_dtype = 0;
  std::int64_t lengths_stride = 0;
};

enum class MaskKind { none, boolean, additive };

struct MaskTensor {
  MaskKind kind = MaskKind::none;
  const void* data = nullptr;
  tessera_dtype dtype = 0;                // of an additive mask: f32, f16 or bf16
  std::array<std::int64_t, 4> strides{};  // batch, head, query, key; 0 where it broadcasts
};

// Which keys a query sees. Band: position p sees keys p - left ... p + right; kUnboundedReach where a side is
// open.
struct Visibility {
  bool has_band = false;
  bool align_bottom_right = false;
  std::int64_t left = 0, right = 0;
  MaskTensor mask;
};

// A float for every head, maybe of every batch entry.
struct HeadFloats {
  const float* data = nullptr;  // may be null
  std::int64_t batch_stride = 0, head_stride = 0;

  float of(std::int64_t b, std::int64_t h) const { return data[b * batch_stride + h * head_stride]; }
};

// What is done to a score before the softmax.
struct Scoring {
  float scale = 0;
  float softcap = 0;  // 0 = none
  HeadFloats alibi_slopes, sinks;
};

struct Output {
  Tensor4 rows;
  float* lse = nullptr;                       // may be null
  std::array<std::int64_t, 3> lse_strides{};  // batch, head, query
};

struct Problem : Sizes {
  tessera_dtype dtype = 0;  // of query, key, value and output
  Tensor4 query;
  KeysValues kv;
  Visibility visibility;
  Scoring scoring;
  Output output;
  PerTensor<std::uint64_t> span_bytes;  // from a tensor's address to behind its last element; 0 if empty

  // Keys of batch entry b that exist; reads the lengths.
  std::int64_t key_length(std::int64_t b) const {
    if (kv.lengths == nullptr) return keys;
    const std::int64_t at = b * kv.lengths_stride;
    return kv.lengths_dtype == TESSERA_I32 ? static_cast<const std::int32_t*>(kv.lengths)[at]
                                           : static_cast<const std::int64_t*>(kv.lengths)[at];
  }
  // Position of query 0 on the key axis, given that batch entry's key length.
  std::int64_t position_offset(std::int64_t key_length) const {
    return visibility.align_bottom_right ? key_length - queries : 0;
  }
  // The same problem over memory elsewhere.
  void move_to(const Addresses& at);
};

// Far enough to reach any key, small enough that position + reach cannot overflow.
inline constexpr std::int64_t kUnboundedReach = std::int64_t{1} << 61;

// Checks everything that can be checked without reading tensor memory and fills *problem, which means nothing
// unless all is well.
Status validate(const tessera_attention& given, Problem* problem);

// No result shares memory with anything else of the call. Part of validate(); asked again for every new set
// of addresses.
Status check_overlap(const PerTensor<std::uint64_t>& span_bytes, const Addresses& at);
// A workspace that was given is aligned and memory of its own.
Status check_workspace(const tessera_device& device, const PerTensor<std::uint64_t>& span_bytes,
                       const Addresses& at);

// Checks the values inside key_lengths, which must be host memory.
Status validate_key_lengths(const Problem& problem);

const char* dtype_name(tessera_dtype dtype);
std::int64_t dtype_size(tessera_dtype dtype);  // 0 if unknown

}  // namespace tessera::core
