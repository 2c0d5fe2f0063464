#include "core/problem.hpp"

namespace tessera::core {
namespace {

void advance(Tensor4* t, tessera_dtype dtype, std::int64_t elements) {
  if (t->data != nullptr) t->data = static_cast<char*>(t->data) + elements * dtype_size(dtype);
}

// Null stays null: of a tensor without elements there is nothing to point at.
template <class T>
void advance(T** data, std::int64_t elements) {
  if (*data != nullptr) *data += elements;
}

// `row`: where row 0 of an entry stands in its tensor.
void advance(Scales* scales, std::int64_t outer, std::int64_t row) {
  advance(&scales->data, outer * scales->outer_stride);
  scales->first_row += row;
}

}  // namespace

Problem Problem::entry(std::int64_t b) const {
  Problem e = *this;
  e.batch = 1;
  e.queries = rows_of(b);
  e.keys = key_length(b);
  const std::int64_t first_row = query_offsets ? query_offsets[b] : 0;
  const std::int64_t first_key = kv.offsets ? kv.offsets[b] : 0;
  advance(&e.query, dtype, query.offset(b, 0, first_row));
  advance(&e.scales.query, b, first_row);
  advance(&e.output.rows, output.dtype, output.rows.offset(b, 0, first_row));
  advance(&e.output.lse, b * output.lse_strides[0] + first_row * output.lse_strides[2]);
  advance(&e.prior.rows, prior.dtype, prior.rows.offset(0, 0, first_row));
  advance(&e.prior.lse, first_row * prior.lse_strides[2]);
  advance(&e.scoring.alibi_slopes.data, b * scoring.alibi_slopes.batch_stride);
  const MaskTensor& mask = visibility.mask;
  if (mask.data != nullptr) {
    const std::int64_t elements = b * mask.strides[0] + first_row * mask.strides[2];
    e.visibility.mask.data = static_cast<const char*>(mask.data) + elements * dtype_size(mask.dtype);
  }
  if (kv.pages) {
    advance(&e.kv.pages.data, b * kv.pages.batch_stride);
    if (kv.pages.count == 0) e.keys = 0;  // then no row sees a key: validate_contents
  } else {
    advance(&e.kv.key, kv.dtype, kv.key.offset(b, 0, first_key));
    advance(&e.kv.value, kv.dtype, kv.value.offset(b, 0, first_key));
    advance(&e.kv.tail, dtype, kv.tail.offset(b, 0, first_key));
    advance(&e.scales.key, b, first_key);
    advance(&e.scales.value, b, first_key);
  }
  e.query_offsets = e.kv.offsets = {};
  e.kv.lengths = nullptr;
  return e;
}

void Problem::move_to(const Addresses& at) {
  query.data = at[TensorId::query];
  query_offsets.data = at[TensorId::query_offsets];
  kv.key.data = at[TensorId::key];
  kv.value.data = at[TensorId::value];
  kv.tail.data = at[TensorId::key_tail];
  kv.lengths = at[TensorId::key_lengths];
  kv.offsets.data = at[TensorId::key_offsets];
  kv.pages.data = static_cast<const std::int32_t*>(at[TensorId::page_table]);
  visibility.mask.data = at[TensorId::mask];
  scoring.alibi_slopes.data = static_cast<const float*>(at[TensorId::alibi_slopes]);
  scoring.sinks.data = static_cast<const float*>(at[TensorId::sinks]);
  prior.rows.data = at[TensorId::prior_output];
  prior.lse = static_cast<const float*>(at[TensorId::prior_lse]);
  scales.query.data = static_cast<const float*>(at[TensorId::query_scales]);
  scales.key.data = static_cast<const float*>(at[TensorId::key_scales]);
  scales.value.data = static_cast<const float*>(at[TensorId::value_scales]);
  append.key.data = at[TensorId::new_key];
  append.value.data = at[TensorId::new_value];
  append.rope.cos = static_cast<const float*>(at[TensorId::rope_cos]);
  append.rope.sin = static_cast<const float*>(at[TensorId::rope_sin]);
  append.positions = at[TensorId::positions];
  output.rows.data = at[TensorId::output];
  output.lse = static_cast<float*>(at[TensorId::lse]);
}

}  // namespace tessera::core
