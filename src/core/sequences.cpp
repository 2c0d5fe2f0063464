#include "core/sequences.hpp"

#include <fmt/format.h>

#include <limits>
#include <string_view>

#include "core/tensor_checks.hpp"

namespace tessera::core {
namespace {

Offsets offsets_of(const tessera_tensor& t) { return {t.data, t.dtype, t.strides[0]}; }

// What goes with what, before any size is looked at.
Status check_together(const tessera_attention& p) {
  const bool paged = !is_absent(p.page_table), packed = !is_absent(p.key_offsets);
  if (paged && packed)
    return invalid("page_table and key_offsets are both set: keys lie in pages or one behind the other");
  if (paged && is_absent(p.key_lengths))
    return invalid("page_table needs key_lengths: how many keys of each entry the pages hold");
  if (packed && !is_absent(p.key_lengths))
    return invalid("key_offsets and key_lengths are both set: the offsets already say where each entry ends");
  const bool output = !is_absent(p.prior_output), lse = !is_absent(p.prior_lse);
  if (output != lse) {
    return invalid(fmt::format("{} is set and {} is not: they come together",
                               output ? "prior_output" : "prior_lse", output ? "prior_lse" : "prior_output"));
  }
  if (output && is_absent(p.query_offsets))
    return invalid("prior_output needs query_offsets: it has a row for each row of [1, heads, rows, dim]");
  return {};
}

Status check_batch(const tessera_attention& p, Problem* out) {
  out->batch = p.query.shape[0];
  if (is_absent(p.query_offsets)) return {};
  if (p.query_offsets.shape[0] < 1) {
    return invalid(
        "query_offsets.shape[0] is 0; batch + 1 is accepted: where each entry begins, and where the last one "
        "ends");
  }
  out->batch = p.query_offsets.shape[0] - 1;
  out->query_offsets = offsets_of(p.query_offsets);
  out->query.batch_stride = out->output.rows.batch_stride = 0;
  return agree({{p.query, "query", 0, 1, "with query_offsets the first size"}});
}

Status check_pages(const tessera_attention& p, Problem* out) {
  const tessera_tensor& t = p.page_table;
  const std::int64_t rows = p.key.shape[2];
  if (rows < 1) return invalid("key.shape[2] is 0; a page has at least one row");
  out->kv.pages = {
      static_cast<const std::int32_t*>(t.data), t.strides[0], t.strides[1], rows, t.shape[1], p.key.shape[0]};
  if (__builtin_mul_overflow(t.shape[1], rows, &out->keys) || out->keys > kUnboundedReach) {
    return invalid(
        fmt::format("page_table.shape[1] is {}: that many pages of {} rows pass 61 bits", t.shape[1], rows));
  }
  return agree({{t, "page_table", 0, out->batch, "the batch"},
                {p.value, "value", 0, p.key.shape[0], "key's number of pages"}});
}

Status check_key_offsets(const tessera_attention& p, Problem* out) {
  out->kv.offsets = offsets_of(p.key_offsets);
  out->kv.key.batch_stride = out->kv.value.batch_stride = out->kv.tail.batch_stride = 0;
  return agree({{p.key_offsets, "key_offsets", 0, out->batch + 1, "the batch + 1"},
                {p.key, "key", 0, 1, "with key_offsets the first size"},
                {p.value, "value", 0, 1, "with key_offsets the first size"}});
}

Status check_key_lengths(const tessera_tensor& t, Problem* out) {
  if (is_absent(t)) return {};
  out->kv.lengths = t.data;
  out->kv.lengths_dtype = t.dtype;
  out->kv.lengths_stride = t.strides[0];
  return agree({{t, "key_lengths", 0, out->batch, "the batch"}});
}

}  // namespace

Status check_sequences(const tessera_attention& p, Problem* out) {
  if (Status s = check_together(p); !s.ok()) return s;
  if (Status s = check_batch(p, out); !s.ok()) return s;
  out->keys = p.key.shape[2];
  Status keys;
  if (!is_absent(p.page_table)) {
    keys = check_pages(p, out);
  } else if (!is_absent(p.key_offsets)) {
    keys = check_key_offsets(p, out);
  } else {
    const std::string_view batch = out->query_offsets ? "the batch of query_offsets" : "query's batch";
    keys = agree({{p.key, "key", 0, out->batch, batch}, {p.value, "value", 0, out->batch, batch}});
  }
  if (!keys.ok()) return keys;
  constexpr std::int64_t kMostEntries = std::numeric_limits<std::int32_t>::max();
  if (out->by_entry() && out->batch > kMostEntries) {
    return invalid(fmt::format("the batch is {}; with offsets or pages up to {} entries are accepted",
                               out->batch, kMostEntries));
  }
  return check_key_lengths(p.key_lengths, out);
}

Status check_prior(const tessera_attention& p, Problem* out) {
  const tessera_tensor &rows = p.prior_output, &lse = p.prior_lse;
  if (is_absent(rows)) return {};
  if (rows.dtype != TESSERA_F32 && rows.dtype != p.output.dtype) {
    return invalid(fmt::format("prior_output.dtype is {}; f32 or output's dtype ({}) is accepted",
                               dtype_name(rows.dtype), dtype_name(p.output.dtype)));
  }
  out->prior = {rows.shape[0],
                {rows.data, rows.strides[0], rows.strides[1], rows.strides[2]},
                rows.dtype,
                static_cast<const float*>(lse.data),
                {lse.strides[0], lse.strides[1], lse.strides[2]}};
  return agree({{rows, "prior_output", 1, out->heads, "query's number of heads"},
                {rows, "prior_output", 2, out->queries, "query's number of rows"},
                {rows, "prior_output", 3, out->value_dim, "value's head dimension"},
                {lse, "prior_lse", 0, rows.shape[0], "prior_output's number of parts"},
                {lse, "prior_lse", 1, out->heads, "query's number of heads"},
                {lse, "prior_lse", 2, out->queries, "query's number of rows"}});
}

}  // namespace tessera::core
