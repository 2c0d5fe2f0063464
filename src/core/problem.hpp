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

// Of a batch whose entries differ in length, `queries` and `keys` are the most that one may have: all rows of
// the query tensor, all keys, or what the pages of a table hold.
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

// Where each entry of the batch begins, and behind the last one where that ends: [batch + 1]. Absent: a dense
// batch.
struct Offsets {
  const void* data = nullptr;
  tessera_dtype dtype = 0;  // i32 or i64
  std::int64_t stride = 0;

  explicit operator bool() const { return dtype != 0; }
  std::int64_t operator[](std::int64_t n) const {
    return dtype == TESSERA_I32 ? static_cast<const std::int32_t*>(data)[n * stride]
                                : static_cast<const std::int64_t*>(data)[n * stride];
  }
};

// Key j of entry b is row j % rows of page page(b, j / rows). Absent: no pages.
struct PageTable {
  const std::int32_t* data = nullptr;
  std::int64_t batch_stride = 0, stride = 0;
  std::int64_t rows = 0;       // of a page
  std::int64_t per_entry = 0;  // pages that the table has room for
  std::int64_t count = 0;      // pages that there are

  explicit operator bool() const { return rows > 0; }
  std::int64_t page(std::int64_t b, std::int64_t n) const { return data[b * batch_stride + n * stride]; }
  bool has(std::int64_t page) const { return page >= 0 && page < count; }
};

// Keys and values: one dense tensor each, of which a batch entry may use a part; or the keys of all entries
// one behind the other; or a pool of pages. A batch stride is then 0, or a page's.
struct KeysValues {
  tessera_dtype dtype = 0;  // of both: the query's, or of 8 bits beside a query of 16 or 32
  Tensor4 key, value;
  Tensor4 tail;               // further columns of key, in the query's dtype and unscaled
  std::int64_t tail_dim = 0;  // of the query's `dim` columns, the last: in the tail. 0: key has all
  std::int64_t value_column_stride = 1;  // 1 unless value is transposed: then its row stride is 1
  const void* lengths = nullptr;         // keys of each batch entry that exist; null: all of them
  tessera_dtype lengths_dtype = 0;
  std::int64_t lengths_stride = 0;
  Offsets offsets;
  PageTable pages;
};

enum class MaskKind { none, boolean, additive };

struct MaskTensor {
  MaskKind kind = MaskKind::none;
  const void* data = nullptr;
  tessera_dtype dtype = 0;                // of an additive mask: f32, f16 or bf16
  std::array<std::int64_t, 4> strides{};  // batch, head, query, key; 0 where it broadcasts
  // Its columns are the last `columns` keys of an entry, and those before them are visible; else column j is
  // key j.
  bool last_keys = false;
  std::int64_t columns = 0;

  // The key that column 0 stands for, given the entry's key length; below 0 where there are more columns.
  std::int64_t first_key(std::int64_t key_length) const { return last_keys ? key_length - columns : 0; }
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

// What the codes of an 8-bit tensor are multiplied by, by the coordinates in which it is stored: element
// [outer, head, row, d] by at(outer, head, row, d), outer being the batch entry or the page. Strides are 0
// where a scale serves all; absent scales are 1.
struct Scales {
  const float* data = nullptr;
  std::int64_t outer_stride = 0, head_stride = 0, block_stride = 0, channel_stride = 0;
  std::int64_t rows = 0;  // of a block; 0: all
  std::int64_t first_row =
      0;  // of the tensor: where row 0 of this problem stands (Problem::entry of packed rows)

  explicit operator bool() const { return data != nullptr; }
  std::int64_t block(std::int64_t row) const { return rows > 0 ? (first_row + row) / rows : 0; }
  float at(std::int64_t outer, std::int64_t head, std::int64_t row, std::int64_t d) const {
    if (data == nullptr) return 1.0f;
    return data[outer * outer_stride + head * head_stride + block(row) * block_stride + d * channel_stride];
  }
};
struct TensorScales {
  Scales query, key, value;
};

struct Output {
  Tensor4 rows;
  tessera_dtype dtype = 0;                    // the query's, or f32; beside an 8-bit query f16, bf16 or f32
  float* lse = nullptr;                       // may be null
  std::array<std::int64_t, 3> lse_strides{};  // batch, head, query
};

// Results over other keys, taken in before the keys: each part as if it were one more key.
struct Prior {
  std::int64_t parts = 0;
  Tensor4 rows;             // the batch stride is that of a part
  tessera_dtype dtype = 0;  // f32 or the output's
  const float* lse = nullptr;
  std::array<std::int64_t, 3> lse_strides{};  // part, head, query
};

// Pair j of a row's dimensions is first + j and first + pairs + j, or first + 2j and its neighbour.
struct Rope {
  const float *cos = nullptr, *sin = nullptr;  // [positions, pairs]
  std::int64_t cos_stride = 0, sin_stride = 0, positions = 0, pairs = 0, first = 0;
  bool interleaved = false;

  explicit operator bool() const { return pairs > 0; }
};

// What is done before attention, in memory that the kernels then see as if it had always been so: new rows
// are stored in key and value, and turned on the way, as a copy of the query is (core/append.hpp).
struct Append {
  bool stores = false;        // new keys
  bool stores_value = false;  // and values, unless those lie in key
  Tensor4 key, value;         // as the query lies, with kv_heads heads
  Rope rope;
  // Of each row in the tables of rope; without a dtype: where its query stands.
  const void* positions = nullptr;
  tessera_dtype positions_dtype = 0;
  std::int64_t positions_batch_stride = 0, positions_stride = 0;

  explicit operator bool() const { return stores || rope; }
  // Of row `row` of the query tensor.
  std::int64_t position(std::int64_t b, std::int64_t row) const {
    const std::int64_t at = b * positions_batch_stride + row * positions_stride;
    return positions_dtype == TESSERA_I32 ? static_cast<const std::int32_t*>(positions)[at]
                                          : static_cast<const std::int64_t*>(positions)[at];
  }
};

// Dense: every entry has `queries` rows and `keys` keys. With query_offsets the rows of all entries lie one
// behind the other, and the batch strides of query, output, lse and the mask are 0.
struct Problem : Sizes {
  tessera_dtype dtype = 0;  // of the query
  Tensor4 query;
  Offsets query_offsets;
  KeysValues kv;
  Visibility visibility;
  Scoring scoring;
  Prior prior;
  Output output;
  TensorScales scales;              // of 8-bit inputs
  tessera_precision precision = 0;  // with an 8-bit query
  Append append;
  PerTensor<std::uint64_t> span_bytes;  // from a tensor's address to behind its last element; 0 if empty

  // Whether keys and values have a dtype of their own.
  bool mixed() const { return kv.dtype != dtype; }
  // Columns of key itself: `dim` less those of its tail.
  std::int64_t key_dim() const { return dim - kv.tail_dim; }
  // Whether entries may differ in what only memory says: then each is worked out as if it were alone.
  bool by_entry() const { return query_offsets || kv.offsets || kv.pages; }
  // Rows of one head, of all entries together.
  std::int64_t all_rows() const { return query_offsets ? queries : batch * queries; }

  // What follows reads lengths and offsets.
  std::int64_t rows_of(std::int64_t b) const {
    return query_offsets ? query_offsets[b + 1] - query_offsets[b] : queries;
  }
  // Keys of batch entry b that exist.
  std::int64_t key_length(std::int64_t b) const {
    if (kv.offsets) return kv.offsets[b + 1] - kv.offsets[b];
    if (kv.lengths == nullptr) return keys;
    const std::int64_t at = b * kv.lengths_stride;
    return kv.lengths_dtype == TESSERA_I32 ? static_cast<const std::int32_t*>(kv.lengths)[at]
                                           : static_cast<const std::int64_t*>(kv.lengths)[at];
  }
  // Position of query 0 on the key axis, given that batch entry's key length and rows.
  std::int64_t position_offset(std::int64_t key_length, std::int64_t rows) const {
    return visibility.align_bottom_right ? key_length - rows : 0;
  }
  std::int64_t position_offset(std::int64_t key_length) const { return position_offset(key_length, queries); }
  // Batch entry b as a dense problem of its own, but for the pages, of which it keeps its part of the table.
  Problem entry(std::int64_t b) const;
  // The same problem over memory elsewhere.
  void move_to(const Addresses& at);
};

// Far enough to reach any key, small enough that position + reach cannot overflow.
inline constexpr std::int64_t kUnboundedReach = std::int64_t{1} << 61;

// Checks everything that can be checked without reading tensor memory and fills *problem, which means nothing
// unless all is well.
Status validate(const tessera_attention& given, Problem* problem);

// No result shares memory with anything else of the call; key and value are results where rows are stored in
// them, and may lie between each other's rows. Part of validate(); asked again for every new set of
// addresses.
Status check_overlap(const tessera_attention& given, const PerTensor<std::uint64_t>& span_bytes);
// A workspace that was given is aligned and memory of its own.
Status check_workspace(const tessera_device& device, const PerTensor<std::uint64_t>& span_bytes,
                       const Addresses& at);

// Checks the values inside lengths, offsets and the page table, which must be host memory. Entries of the
// table are looked at only where a key needs them that some row sees.
Status validate_contents(const Problem& problem);

// Whether it has one byte, and query, key and value may have scales.
inline bool is_8_bit(tessera_dtype dtype) {
  return dtype == TESSERA_F8E4M3 || dtype == TESSERA_F8E5M2 || dtype == TESSERA_I8;
}
const char* dtype_name(tessera_dtype dtype);
std::int64_t dtype_size(tessera_dtype dtype);  // 0 if unknown

}  // namespace tessera::core
