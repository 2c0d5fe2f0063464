#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "core/append.hpp"
#include "core/problem.hpp"
#include "core/scales.hpp"
#include "core/sequences.hpp"
#include "core/tensor_checks.hpp"

namespace tessera::core {
namespace {

struct DtypeTraits {
  const char* name;
  std::int64_t size;
};
// By their numbers in tessera.h.
constexpr DtypeTraits kDtypes[] = {{nullptr, 0},  {"f32", 4},  {"f16", 2}, {"bf16", 2}, {"f8e4m3", 1},
                                   {"f8e5m2", 1}, {"bool", 1}, {"i32", 4}, {"i64", 8},  {"i8", 1}};

const DtypeTraits& traits_of(tessera_dtype dtype) {
  return kDtypes[dtype > 0 && dtype < static_cast<tessera_dtype>(std::size(kDtypes)) ? dtype : 0];
}

constexpr tessera_dtype kInputs[] = {TESSERA_F32, TESSERA_F16, TESSERA_BF16, TESSERA_F8E4M3, TESSERA_F8E5M2};
constexpr tessera_dtype kKeys[] = {TESSERA_F32,    TESSERA_F16,    TESSERA_BF16,
                                   TESSERA_F8E4M3, TESSERA_F8E5M2, TESSERA_I8};
constexpr tessera_dtype kFloats[] = {TESSERA_F32, TESSERA_F16, TESSERA_BF16};
constexpr tessera_dtype kMasks[] = {TESSERA_BOOL, TESSERA_F32, TESSERA_F16, TESSERA_BF16};
constexpr tessera_dtype kFloat[] = {TESSERA_F32};
constexpr tessera_dtype kWhole[] = {TESSERA_I32, TESSERA_I64};
constexpr tessera_dtype kPages[] = {TESSERA_I32};

const TensorRule& rule_of(TensorId id) {
  static const PerTensor<TensorRule> rules = {{{
      {"[batch, heads, queries, dim]", 4, 4, kInputs},
      {"[batch, kv_heads, keys, dim]", 4, 4, kKeys},
      {"[batch, kv_heads, keys, value_dim]", 4, 4, kKeys, true, true},
      {"[batch, heads, queries, value_dim]", 4, 4, kFloats},
      {"[batch, heads, queries]", 3, 3, kFloat, false},
      {"broadcasting to [batch, heads, queries, keys]", 1, 4, kMasks},
      {"[batch]", 1, 1, kWhole, false},
      {"[heads] or [batch, heads]", 1, 2, kFloat, false},
      {"[heads]", 1, 1, kFloat, false},
      {"[batch + 1]", 1, 1, kWhole, false},
      {"[batch + 1]", 1, 1, kWhole, false},
      {"[batch, n]", 2, 2, kPages, false},
      {"[parts, heads, rows, value_dim]", 4, 4, kFloats},
      {"[parts, heads, rows]", 3, 3, kFloat, false},
      {"[batch or 1, heads or 1, blocks or 1, 1]", 4, 4, kFloat, false},
      {"[batch or 1, kv_heads or 1, blocks or 1, 1]", 4, 4, kFloat, false},
      {"[batch or 1, kv_heads or 1, blocks or 1, 1 or value_dim]", 4, 4, kFloat, false},
      {"[batch, kv_heads, queries, dim]", 4, 4, kInputs},
      {"[batch, kv_heads, queries, value_dim]", 4, 4, kInputs},
      {"[positions, n]", 2, 2, kFloat},
      {"[positions, n]", 2, 2, kFloat},
      {"[batch, queries], or [rows] with query_offsets", 1, 2, kWhole, false},
      {"[batch, kv_heads, keys, tail]", 4, 4, kFloats},
  }}};
  return rules[id];
}

Tensor4 view(const tessera_tensor& t) { return {t.data, t.strides[0], t.strides[1], t.strides[2]}; }

Status check_dtypes(const tessera_attention& p) {
  if (p.key.dtype != p.query.dtype && (!is_8_bit(p.key.dtype) || is_8_bit(p.query.dtype))) {
    return invalid(fmt::format(
        "key.dtype is {}, but query.dtype is {}: query's dtype is accepted, or f8e4m3, f8e5m2 and i8 "
        "beside a query of f32, f16 or bf16",
        dtype_name(p.key.dtype), dtype_name(p.query.dtype)));
  }
  if (p.value.dtype == p.key.dtype) return {};
  return invalid(fmt::format("value.dtype is {}, but key.dtype is {}: key and value share one dtype",
                             dtype_name(p.value.dtype), dtype_name(p.key.dtype)));
}

// Every tensor for itself; the first four are not optional.
Status check_tensors(const tessera_attention& p, Problem* out) {
  Status status;
  for_each_tensor(p, [&](const TensorField& field, const tessera_tensor& t) {
    if (!status.ok() || (field.id > TensorId::output && is_absent(t))) return;
    status = check_tensor(field.name, rule_of(field.id), t, &out->span_bytes[field.id]);
  });
  if (!status.ok()) return status;
  if (Status s = check_dtypes(p); !s.ok()) return s;
  if (p.output.dtype == p.query.dtype || p.output.dtype == TESSERA_F32 || is_8_bit(p.query.dtype)) return {};
  return invalid(fmt::format("output.dtype is {}, but query.dtype is {}: query's dtype or f32 is accepted",
                             dtype_name(p.output.dtype), dtype_name(p.query.dtype)));
}

Status check_head_dim(std::string_view name, std::int64_t dim) {
  if (dim >= 1 && dim <= TESSERA_MAX_HEAD_DIM) return {};
  return invalid(fmt::format("{}.shape[3] is {}; a head dimension from 1 to {} is accepted", name, dim,
                             TESSERA_MAX_HEAD_DIM));
}

// Key and its tail together have as many columns as the query.
Status check_key_dims(const tessera_attention& p) {
  const tessera_tensor& tail = p.key_tail;
  const std::int64_t dim = p.query.shape[3];
  if (is_absent(tail)) return agree({{p.key, "key", 3, dim, "query's head dimension"}});
  if (is_8_bit(p.query.dtype)) {
    return invalid(
        fmt::format("key_tail is set, but query.dtype is {}: f32, f16 and bf16 are accepted with it",
                    dtype_name(p.query.dtype)));
  }
  if (tail.dtype != p.query.dtype) {
    return invalid(fmt::format("key_tail.dtype is {}, but query.dtype is {}: the tail has query's dtype",
                               dtype_name(tail.dtype), dtype_name(p.query.dtype)));
  }
  for (const auto& [name, t] :
       {std::pair<std::string_view, const tessera_tensor&>{"key", p.key}, {"key_tail", tail}}) {
    if (t.shape[3] < 1)
      return invalid(fmt::format("{}.shape[3] is 0; 1 or more is accepted beside {}", name,
                                 name == "key" ? "key_tail" : "key"));
  }
  if (dim - p.key.shape[3] != tail.shape[3]) {
    return invalid(fmt::format(
        "key.shape[3] is {} and key_tail.shape[3] is {}, but query's head dimension is {}: that is "
        "what they have together",
        p.key.shape[3], tail.shape[3], dim));
  }
  return agree({{tail, "key_tail", 0, p.key.shape[0], "key's first size"},
                {tail, "key_tail", 1, p.key.shape[1], "key's number of heads"},
                {tail, "key_tail", 2, p.key.shape[2], "key's number of rows"}});
}

Status check_shapes(const tessera_attention& p) {
  const std::int64_t heads = p.query.shape[1];
  const std::int64_t kv_heads = p.key.shape[1];
  if (Status s = check_head_dim("query", p.query.shape[3]); !s.ok()) return s;
  if (Status s = check_head_dim("value", p.value.shape[3]); !s.ok()) return s;
  if (heads < 1) return invalid("query.shape[1] is 0; at least one head is needed");
  if (kv_heads < 1) return invalid("key.shape[1] is 0; at least one head is needed");
  if (heads % kv_heads != 0) {
    return invalid(
        fmt::format("key.shape[1] is {}, but query has {} heads: the query heads must be a multiple of the "
                    "key/value heads",
                    kv_heads, heads));
  }
  if (Status s = check_key_dims(p); !s.ok()) return s;
  return agree({{p.value, "value", 1, kv_heads, "key's number of heads"},
                {p.value, "value", 2, p.key.shape[2], "key's number of keys"},
                {p.output, "output", 0, p.query.shape[0], "query's batch"},
                {p.output, "output", 1, heads, "query's number of heads"},
                {p.output, "output", 2, p.query.shape[2], "query's number of queries"},
                {p.output, "output", 3, p.value.shape[3], "value's head dimension"}});
}

Status check_scalars(const tessera_attention& p, Problem* out) {
  if (!std::isfinite(p.scale)) {
    return invalid(fmt::format("scale is {}; a finite number is accepted (0 means 1/sqrt(dim))", p.scale));
  }
  // Bits, because a thread that flushes subnormals takes them for 0 when it compares.
  const bool no_scale = (std::bit_cast<std::uint32_t>(p.scale) & 0x7fffffffu) == 0;
  if (!std::isfinite(p.softcap) || p.softcap < 0) {
    return invalid(
        fmt::format("softcap is {}; a finite number of 0 or more is accepted (0 means none)", p.softcap));
  }
  out->scoring.scale = no_scale                        ? 1.0f / std::sqrt(static_cast<float>(out->dim))
                       : p.scale == TESSERA_SCALE_ZERO ? 0.0f
                                                       : p.scale;
  out->scoring.softcap = p.softcap;
  return {};
}

Status check_band(const tessera_mask& mask, Visibility* out) {
  if (mask.align < TESSERA_ALIGN_NONE || mask.align > TESSERA_ALIGN_BOTTOM_RIGHT) {
    return invalid(
        fmt::format("mask.align is {}; accepted: 0 (none), 1 (top-left), 2 (bottom-right)", mask.align));
  }
  const auto side = [](std::string_view name, std::int64_t keys) {
    if (keys >= TESSERA_UNBOUNDED) return Status{};
    return invalid(fmt::format("mask.{} is {}; 0 or more, or -1 for unbounded, is accepted", name, keys));
  };
  if (Status s = side("left", mask.left); !s.ok()) return s;
  if (Status s = side("right", mask.right); !s.ok()) return s;
  if (mask.align == TESSERA_ALIGN_NONE && (mask.left > 0 || mask.right > 0)) {
    return invalid(fmt::format(
        "mask.left is {} and mask.right is {}, but mask.align is none: a window needs top-left (1) or "
        "bottom-right (2)",
        mask.left, mask.right));
  }
  const auto reach = [](std::int64_t keys) {
    return keys == TESSERA_UNBOUNDED ? kUnboundedReach : std::min(keys, kUnboundedReach);
  };
  out->align_bottom_right = mask.align == TESSERA_ALIGN_BOTTOM_RIGHT;
  out->left = reach(mask.left);
  out->right = reach(mask.right);
  out->has_band =
      mask.align != TESSERA_ALIGN_NONE && (mask.left != TESSERA_UNBOUNDED || mask.right != TESSERA_UNBOUNDED);
  return {};
}

Status check_mask_tensor(const tessera_mask& given, Problem* out) {
  const tessera_tensor& t = given.tensor;
  const bool last_keys = given.tensor_align == TESSERA_ALIGN_BOTTOM_RIGHT;
  if (given.tensor_align != TESSERA_ALIGN_NONE && !last_keys) {
    return invalid(
        fmt::format("mask.tensor_align is {}; accepted: 0 (none), 2 (bottom-right)", given.tensor_align));
  }
  if (is_absent(t) && last_keys)
    return invalid("mask.tensor_align is 2 (bottom-right), but there is no mask.tensor");
  if (is_absent(t)) return {};
  const std::int64_t entries = out->query_offsets ? 1 : out->batch;
  const std::int64_t full[4] = {entries, out->heads, out->queries, out->keys};
  constexpr std::string_view kNames[4] = {"batch", "heads", "queries", "keys"};
  MaskTensor& mask = out->visibility.mask;
  mask.kind = t.dtype == TESSERA_BOOL ? MaskKind::boolean : MaskKind::additive;
  mask.data = t.data;
  mask.dtype = t.dtype;
  mask.last_keys = last_keys;
  mask.columns = last_keys ? t.shape[t.rank - 1] : out->keys;
  for (int d = 0; d < t.rank; ++d) {
    const auto target = static_cast<std::size_t>(4 - t.rank + d);
    if (target == 3 && last_keys) {
      mask.strides[target] = t.strides[d];
      continue;
    }
    if (t.shape[d] != 1 && t.shape[d] != full[target]) {
      return invalid(fmt::format("mask.tensor.shape[{}] is {}; 1 or {} ({}) is accepted", d, t.shape[d],
                                 full[target], kNames[target]));
    }
    mask.strides[target] = t.shape[d] == 1 ? 0 : t.strides[d];
  }
  return {};
}

Status check_lse(const tessera_attention& p, Problem* out) {
  const tessera_tensor& t = p.lse;
  if (is_absent(t)) return {};
  out->output.lse = static_cast<float*>(t.data);
  out->output.lse_strides = {out->query_offsets ? 0 : t.strides[0], t.strides[1], t.strides[2]};
  return agree({{t, "lse", 0, p.query.shape[0], "query's batch"},
                {t, "lse", 1, out->heads, "query's number of heads"},
                {t, "lse", 2, out->queries, "query's number of queries"}});
}

Status check_head_floats(std::string_view name, const tessera_tensor& t, const Sizes& sizes,
                         HeadFloats* out) {
  if (is_absent(t)) return {};
  const int last = t.rank - 1;
  if (Status s = agree({{t, name, last, sizes.heads, "query's number of heads"}}); !s.ok()) return s;
  *out = {static_cast<const float*>(t.data), last == 1 ? t.strides[0] : 0, t.strides[last]};
  return last == 1 ? agree({{t, name, 0, sizes.batch, "the batch"}}) : Status{};
}

Status check_alibi(const tessera_attention& p, Problem* out) {
  if (Status s = check_head_floats("alibi_slopes", p.alibi_slopes, *out, &out->scoring.alibi_slopes); !s.ok())
    return s;
  if (is_absent(p.alibi_slopes) || p.mask.align != TESSERA_ALIGN_NONE) return {};
  if (out->queries == out->keys && out->kv.lengths == nullptr && !out->by_entry()) return {};
  return invalid(
      "alibi_slopes need mask.align (top-left or bottom-right) to place the queries on the key axis, because "
      "queries and keys may differ in number here");
}

}  // namespace

Status validate(const tessera_attention& p, Problem* problem) {
  Problem& out = *problem;
  out = {};
  if (Status s = check_tensors(p, &out); !s.ok()) return s;
  if (Status s = check_shapes(p); !s.ok()) return s;

  out.heads = p.query.shape[1];
  out.queries = p.query.shape[2];
  out.dim = p.query.shape[3];
  out.kv_heads = p.key.shape[1];
  out.value_dim = p.value.shape[3];
  out.dtype = p.query.dtype;
  out.kv.dtype = p.key.dtype;
  out.query = view(p.query);
  out.kv.key = view(p.key);
  out.kv.value = view(p.value);
  if (!is_absent(p.key_tail)) {
    out.kv.tail = view(p.key_tail);
    out.kv.tail_dim = p.key_tail.shape[3];
  }
  if (p.value.shape[3] > 1) out.kv.value_column_stride = std::max<std::int64_t>(p.value.strides[3], 1);
  out.output.rows = view(p.output);
  out.output.dtype = p.output.dtype;

  if (Status s = check_sequences(p, &out); !s.ok()) return s;  // the batch and its keys
  if (Status s = check_scalars(p, &out); !s.ok()) return s;
  if (Status s = check_scales(p, &out); !s.ok()) return s;
  if (Status s = check_band(p.mask, &out.visibility); !s.ok()) return s;
  if (Status s = check_mask_tensor(p.mask, &out); !s.ok()) return s;
  if (Status s = check_lse(p, &out); !s.ok()) return s;
  if (Status s = check_prior(p, &out); !s.ok()) return s;
  if (Status s = check_alibi(p, &out); !s.ok()) return s;
  if (Status s = check_head_floats("sinks", p.sinks, out, &out.scoring.sinks); !s.ok()) return s;
  if (Status s = check_append(p, &out); !s.ok()) return s;
  if (Status s = check_written_once("output", p.output); !s.ok()) return s;
  if (Status s = check_written_once("lse", p.lse); !s.ok()) return s;
  return check_overlap(p, out.span_bytes);
}

Status check_overlap(const tessera_attention& p, const PerTensor<std::uint64_t>& span_bytes) {
  const Addresses at = addresses_of(p);
  const auto begin = [&](TensorId id) { return reinterpret_cast<std::uintptr_t>(at[id]); };
  const auto end = [&](TensorId id) { return begin(id) + span_bytes[id]; };
  for (const TensorField& each : kTensorFields.values) {
    if (begin(each.id) > UINTPTR_MAX - span_bytes[each.id])
      return invalid(fmt::format("{} reaches beyond the address space", each.name));
  }
  const auto written = [&](const TensorField& field) { return is_written(field, span_bytes); };
  const auto is_cache = [](TensorId id) {
    return id == TensorId::key || id == TensorId::value || id == TensorId::key_tail;
  };
  for (const TensorField& result : kTensorFields.values) {
    if (!written(result) || span_bytes[result.id] == 0) continue;
    for (const TensorField& other : kTensorFields.values) {
      if (other.id == result.id || span_bytes[other.id] == 0) continue;
      if (is_cache(result.id) && is_cache(other.id)) continue;  // check_append_memory
      if (begin(result.id) < end(other.id) && begin(other.id) < end(result.id)) {
        // Of two results, the optional one is named first.
        const bool swap = written(other) && other.id > result.id;
        return invalid(fmt::format("{} overlaps {} in memory; results need memory of their own",
                                   (swap ? other : result).name, (swap ? result : other).name));
      }
    }
  }
  return check_append_memory(p, span_bytes);
}

Status check_workspace(const tessera_device& device, const PerTensor<std::uint64_t>& span_bytes,
                       const Addresses& at) {
  constexpr std::uintptr_t kAlignment = 256;
  const auto begin = reinterpret_cast<std::uintptr_t>(device.workspace);
  if (begin % kAlignment != 0) {
    return invalid(fmt::format("device.workspace is {}; a multiple of {} is accepted",
                               fmt::ptr(device.workspace), kAlignment));
  }
  for (const TensorField& field : kTensorFields.values) {
    const auto tensor = reinterpret_cast<std::uintptr_t>(at[field.id]);
    if (begin < tensor + span_bytes[field.id] && tensor < begin + device.workspace_bytes)
      return invalid(fmt::format("device.workspace overlaps {} in memory", field.name));
  }
  return {};
}

const char* dtype_name(tessera_dtype dtype) { return traits_of(dtype).name; }
std::int64_t dtype_size(tessera_dtype dtype) { return traits_of(dtype).size; }

}  // namespace tessera::core
