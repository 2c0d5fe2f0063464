#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <string_view>

#include "core/problem.hpp"
#include "core/tensor_checks.hpp"

namespace tessera::core {
namespace {

struct Ranges {
  ByteRange query, key, value, output, lse, mask, key_lengths, alibi_slopes, sinks;
};

Tensor4 view(const tessera_tensor& t) { return {t.data, t.strides[0], t.strides[1], t.strides[2]}; }

Status check_main_tensors(const tessera_attention& p, Ranges* ranges) {
  const std::initializer_list<tessera_dtype> floats = {TESSERA_F32, TESSERA_F16, TESSERA_BF16};
  const TensorRule query{"query", "[batch, heads, queries, dim]", 4, 4, floats};
  const TensorRule key{"key", "[batch, kv_heads, keys, dim]", 4, 4, floats};
  const TensorRule value{"value", "[batch, kv_heads, keys, value_dim]", 4, 4, floats};
  const TensorRule output{"output", "[batch, heads, queries, value_dim]", 4, 4, floats};
  if (Status s = check_tensor(query, p.query, &ranges->query); !s.ok()) return s;
  if (Status s = check_tensor(key, p.key, &ranges->key); !s.ok()) return s;
  if (Status s = check_tensor(value, p.value, &ranges->value); !s.ok()) return s;
  if (Status s = check_tensor(output, p.output, &ranges->output); !s.ok()) return s;
  const auto same_dtype = [&](std::string_view name, const tessera_tensor& t) {
    if (t.dtype == p.query.dtype) return Status{};
    return invalid(
        fmt::format("{}.dtype is {}, but query.dtype is {}: query, key, value and output share one dtype",
                    name, dtype_name(t.dtype), dtype_name(p.query.dtype)));
  };
  if (Status s = same_dtype("key", p.key); !s.ok()) return s;
  if (Status s = same_dtype("value", p.value); !s.ok()) return s;
  return same_dtype("output", p.output);
}

// One size that two tensors must agree on.
Status agree(std::string_view name, const tessera_tensor& t, int d, std::int64_t want,
             std::string_view meaning) {
  if (t.shape[d] == want) return {};
  return invalid(fmt::format("{}.shape[{}] is {}, but {} is {}", name, d, t.shape[d], meaning, want));
}

Status check_head_dim(std::string_view name, std::int64_t dim) {
  if (dim >= 1 && dim <= TESSERA_MAX_HEAD_DIM) return {};
  return invalid(fmt::format("{}.shape[3] is {}; a head dimension from 1 to {} is accepted", name, dim,
                             TESSERA_MAX_HEAD_DIM));
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
  for (Status s : {
           agree("key", p.key, 0, p.query.shape[0], "query's batch"),
           agree("key", p.key, 3, p.query.shape[3], "query's head dimension"),
           agree("value", p.value, 0, p.query.shape[0], "query's batch"),
           agree("value", p.value, 1, kv_heads, "key's number of heads"),
           agree("value", p.value, 2, p.key.shape[2], "key's number of keys"),
           agree("output", p.output, 0, p.query.shape[0], "query's batch"),
           agree("output", p.output, 1, heads, "query's number of heads"),
           agree("output", p.output, 2, p.query.shape[2], "query's number of queries"),
           agree("output", p.output, 3, p.value.shape[3], "value's head dimension"),
       }) {
    if (!s.ok()) return s;
  }
  return {};
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
  out->scale = no_scale                        ? 1.0f / std::sqrt(static_cast<float>(out->dim))
               : p.scale == TESSERA_SCALE_ZERO ? 0.0f
                                               : p.scale;
  out->softcap = p.softcap;
  return {};
}

Status check_band(const tessera_mask& mask, Problem* out) {
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

Status check_mask_tensor(const tessera_tensor& t, Ranges* ranges, Problem* out) {
  if (is_absent(t)) return {};
  const TensorRule rule{"mask.tensor",
                        "broadcasting to [batch, heads, queries, keys]",
                        1,
                        4,
                        {TESSERA_BOOL, TESSERA_F32, TESSERA_F16, TESSERA_BF16}};
  if (Status s = check_tensor(rule, t, &ranges->mask); !s.ok()) return s;
  const std::int64_t full[4] = {out->batch, out->heads, out->queries, out->keys};
  constexpr std::string_view kNames[4] = {"batch", "heads", "queries", "keys"};
  out->mask = {t.dtype == TESSERA_BOOL ? MaskKind::boolean : MaskKind::additive, t.data, t.dtype, {}};
  for (int d = 0; d < t.rank; ++d) {
    const auto target = static_cast<std::size_t>(4 - t.rank + d);
    if (t.shape[d] != 1 && t.shape[d] != full[target]) {
      return invalid(fmt::format("mask.tensor.shape[{}] is {}; 1 or {} ({}) is accepted", d, t.shape[d],
                                 full[target], kNames[target]));
    }
    out->mask.strides[target] = t.shape[d] == 1 ? 0 : t.strides[d];
  }
  return {};
}

Status check_lse(const tessera_tensor& t, Ranges* ranges, Problem* out) {
  if (is_absent(t)) return {};
  const TensorRule rule{"lse", "[batch, heads, queries]", 3, 3, {TESSERA_F32}, false};
  if (Status s = check_tensor(rule, t, &ranges->lse); !s.ok()) return s;
  for (Status s : {agree("lse", t, 0, out->batch, "query's batch"),
                   agree("lse", t, 1, out->heads, "query's number of heads"),
                   agree("lse", t, 2, out->queries, "query's number of queries")}) {
    if (!s.ok()) return s;
  }
  out->lse = static_cast<float*>(t.data);
  out->lse_strides = {t.strides[0], t.strides[1], t.strides[2]};
  return check_written_once("lse", t);
}

Status check_per_head(const tessera_attention& p, Ranges* ranges, Problem* out) {
  if (!is_absent(p.key_lengths)) {
    const TensorRule rule{"key_lengths", "[batch]", 1, 1, {TESSERA_I32, TESSERA_I64}, false};
    if (Status s = check_tensor(rule, p.key_lengths, &ranges->key_lengths); !s.ok()) return s;
    if (Status s = agree("key_lengths", p.key_lengths, 0, out->batch, "query's batch"); !s.ok()) return s;
    out->key_lengths = p.key_lengths.data;
    out->key_lengths_dtype = p.key_lengths.dtype;
    out->key_lengths_stride = p.key_lengths.strides[0];
  }
  if (!is_absent(p.alibi_slopes)) {
    const tessera_tensor& t = p.alibi_slopes;
    const TensorRule rule{"alibi_slopes", "[heads] or [batch, heads]", 1, 2, {TESSERA_F32}, false};
    if (Status s = check_tensor(rule, t, &ranges->alibi_slopes); !s.ok()) return s;
    if (Status s = agree("alibi_slopes", t, t.rank - 1, out->heads, "query's number of heads"); !s.ok())
      return s;
    if (t.rank == 2) {
      if (Status s = agree("alibi_slopes", t, 0, out->batch, "query's batch"); !s.ok()) return s;
    }
    if (p.mask.align == TESSERA_ALIGN_NONE && (out->queries != out->keys || out->key_lengths != nullptr)) {
      return invalid(
          "alibi_slopes need mask.align (top-left or bottom-right) to place the queries on the key axis, "
          "because "
          "queries and keys may differ in number here");
    }
    out->alibi_slopes = static_cast<const float*>(t.data);
    out->alibi_head_stride = t.strides[t.rank - 1];
    out->alibi_batch_stride = t.rank == 2 ? t.strides[0] : 0;
  }
  if (!is_absent(p.sinks)) {
    const TensorRule rule{"sinks", "[heads]", 1, 1, {TESSERA_F32}, false};
    if (Status s = check_tensor(rule, p.sinks, &ranges->sinks); !s.ok()) return s;
    if (Status s = agree("sinks", p.sinks, 0, out->heads, "query's number of heads"); !s.ok()) return s;
    out->sinks = static_cast<const float*>(p.sinks.data);
    out->sinks_stride = p.sinks.strides[0];
  }
  return {};
}

// What is written may not share memory with anything else of the call.
Status check_overlap(const Ranges& r) {
  const struct {
    std::string_view name;
    const ByteRange& range;
  } inputs[] = {{"query", r.query},
                {"key", r.key},
                {"value", r.value},
                {"mask.tensor", r.mask},
                {"key_lengths", r.key_lengths},
                {"alibi_slopes", r.alibi_slopes},
                {"sinks", r.sinks}};
  const auto clash = [](std::string_view a, std::string_view b) {
    return invalid(fmt::format("{} overlaps {} in memory; results need memory of their own", a, b));
  };
  for (const auto& input : inputs) {
    if (r.output.overlaps(input.range)) return clash("output", input.name);
    if (r.lse.overlaps(input.range)) return clash("lse", input.name);
  }
  if (r.lse.overlaps(r.output)) return clash("lse", "output");
  return {};
}

}  // namespace

Status validate(const tessera_attention& p, Problem* problem) {
  Ranges ranges;
  if (Status s = check_main_tensors(p, &ranges); !s.ok()) return s;
  if (Status s = check_shapes(p); !s.ok()) return s;
  if (Status s = check_written_once("output", p.output); !s.ok()) return s;

  Problem out;
  out.batch = p.query.shape[0];
  out.heads = p.query.shape[1];
  out.queries = p.query.shape[2];
  out.dim = p.query.shape[3];
  out.kv_heads = p.key.shape[1];
  out.keys = p.key.shape[2];
  out.value_dim = p.value.shape[3];
  out.dtype = p.query.dtype;
  out.query = view(p.query);
  out.key = view(p.key);
  out.value = view(p.value);
  out.output = view(p.output);

  if (Status s = check_scalars(p, &out); !s.ok()) return s;
  if (Status s = check_band(p.mask, &out); !s.ok()) return s;
  if (Status s = check_mask_tensor(p.mask.tensor, &ranges, &out); !s.ok()) return s;
  if (Status s = check_lse(p.lse, &ranges, &out); !s.ok()) return s;
  if (Status s = check_per_head(p, &ranges, &out); !s.ok()) return s;
  if (Status s = check_overlap(ranges); !s.ok()) return s;
  *problem = out;
  return {};
}

Status validate_key_lengths(const Problem& problem) {
  if (problem.key_lengths == nullptr) return {};
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t length = problem.key_length(b);
    if (length < 0 || length > problem.keys) {
      return invalid(fmt::format("key_lengths[{}] is {}; 0 to {} (the number of keys) is accepted", b, length,
                                 problem.keys));
    }
  }
  return {};
}

const char* dtype_name(tessera_dtype dtype) {
  switch (dtype) {
    case TESSERA_F32:
      return "f32";
    case TESSERA_F16:
      return "f16";
    case TESSERA_BF16:
      return "bf16";
    case TESSERA_F8E4M3:
      return "f8e4m3";
    case TESSERA_F8E5M2:
      return "f8e5m2";
    case TESSERA_BOOL:
      return "bool";
    case TESSERA_I32:
      return "i32";
    case TESSERA_I64:
      return "i64";
    default:
      return nullptr;
  }
}

std::int64_t dtype_size(tessera_dtype dtype) {
  switch (dtype) {
    case TESSERA_F32:
    case TESSERA_I32:
      return 4;
    case TESSERA_F16:
    case TESSERA_BF16:
      return 2;
    case TESSERA_F8E4M3:
    case TESSERA_F8E5M2:
    case TESSERA_BOOL:
      return 1;
    case TESSERA_I64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace tessera::core
