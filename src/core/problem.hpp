// A validated attention problem, as the backends see it: every size agreed on, every default resolved,
// broadcasting expressed as zero strides. Only validate() makes one, so a backend checks nothing again.
#pragma once

#include <tessera/tessera.h>

#include <array>
#include <cstdint>

#include "core/status.hpp"

namespace tessera::core {

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

enum class MaskKind { none, boolean, additive };

struct MaskTensor {
  MaskKind kind = MaskKind::none;
  const void* data = nullptr;
  tessera_dtype dtype = 0;                // of an additive mask: f32, f16 or bf16
  std::array<std::int64_t, 4> strides{};  // batch, head, query, key; 0 where it broadcasts
};

struct Problem {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, dim = 0, value_dim = 0;
  tessera_dtype dtype = 0;  // of query, key, value and output

  Tensor4 query, key, value, output;
  float* lse = nullptr;  // may be null
  std::array<std::int64_t, 3> lse_strides{};

  float scale = 0;
  float softcap = 0;  // 0 = none

  // Band: position p sees keys p - left ... p + right; kUnboundedReach where a side is open.
  bool has_band = false;
  bool align_bottom_right = false;
  std::int64_t left = 0, right = 0;
  MaskTensor mask;

  const void* key_lengths = nullptr;  // may be null
  tessera_dtype key_lengths_dtype = 0;
  std::int64_t key_lengths_stride = 0;
  const float* alibi_slopes = nullptr;  // may be null
  std::int64_t alibi_batch_stride = 0, alibi_head_stride = 0;
  const float* sinks = nullptr;  // may be null
  std::int64_t sinks_stride = 0;

  std::int64_t group() const { return heads / kv_heads; }  // query heads that share one K/V head

  // Keys of batch entry b that exist; reads key_lengths.
  std::int64_t key_length(std::int64_t b) const {
    if (key_lengths == nullptr) return keys;
    const std::int64_t at = b * key_lengths_stride;
    return key_lengths_dtype == TESSERA_I32 ? static_cast<const std::int32_t*>(key_lengths)[at]
                                            : static_cast<const std::int64_t*>(key_lengths)[at];
  }
  // Position of query 0 on the key axis, given that batch entry's key length.
  std::int64_t position_offset(std::int64_t key_length) const {
    return align_bottom_right ? key_length - queries : 0;
  }
};

// Far enough to reach any key, small enough that position + reach cannot overflow.
inline constexpr std::int64_t kUnboundedReach = std::int64_t{1} << 61;

// Checks everything that can be checked without reading tensor memory and fills *problem.
Status validate(const tessera_attention& given, Problem* problem);

// Checks the values inside key_lengths, which must be host memory.
Status validate_key_lengths(const Problem& problem);

const char* dtype_name(tessera_dtype dtype);
std::int64_t dtype_size(tessera_dtype dtype);  // 0 if unknown

}  // namespace tessera::core
