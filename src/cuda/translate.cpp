#include "cuda/translate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cuda/tile/softmax.hpp"

namespace tessera::cuda {
namespace {

Strides strides_of(const core::Tensor4& t) { return {t.batch_stride, t.head_stride, t.row_stride}; }

// A band's reach as the kernels hold it; anything longer than a sequence can be is "far away".
int reach(const core::Problem& problem, std::int64_t keys_away) {
  return problem.visible.has_band ? static_cast<int>(std::min<std::int64_t>(keys_away, kFarAway)) : kFarAway;
}

MaskTensorKind mask_kind(const core::MaskTensor& mask) {
  if (mask.kind == core::MaskKind::none) return MaskTensorKind::none;
  if (mask.kind == core::MaskKind::boolean) return MaskTensorKind::boolean;
  return mask.dtype == TESSERA_F32   ? MaskTensorKind::additive_f32
         : mask.dtype == TESSERA_F16 ? MaskTensorKind::additive_f16
                                     : MaskTensorKind::additive_bf16;
}

// A stride along a dimension of one element is never used, and frameworks set it to anything.
bool rows_of_16_bytes(const core::Problem& p, const core::Tensor4& t, std::int64_t heads, std::int64_t rows,
                      std::int64_t row_elements) {
  const std::int64_t size = core::dtype_size(p.dtype);
  const auto aligned = [&](std::int64_t extent, std::int64_t stride) {
    return extent <= 1 || stride * size % 16 == 0;
  };
  return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && row_elements * size % 16 == 0 &&
         aligned(p.batch, t.batch_stride) && aligned(heads, t.head_stride) && aligned(rows, t.row_stride);
}

}  // namespace

core::Status within_limits(const core::Problem& p) {
  constexpr std::int64_t kMostBlocks = 65535;  // of a grid's second and third dimension
  if (p.queries > kMaxLength || p.keys > kMaxLength || p.queries * p.group() > kMaxLength) {
    return core::unsupported(
        fmt::format("queries is {} (times {} heads that share K and V) and keys is {}; the "
                    "CUDA kernels take up to {}",
                    p.queries, p.group(), p.keys, kMaxLength));
  }
  if (p.heads > kMostBlocks || p.batch > kMostBlocks) {
    return core::unsupported(
        fmt::format("batch is {} and heads is {}; the CUDA kernels take up to {} of each", p.batch, p.heads,
                    kMostBlocks));
  }
  return {};
}

core::Status tensor_cores_take(const core::Problem& p, int most_dim) {
  if (p.dtype != TESSERA_F16 && p.dtype != TESSERA_BF16) {
    return core::unsupported(
        fmt::format("dtype is {}; f16 and bf16 are accepted", core::dtype_name(p.dtype)));
  }
  if (p.dim > most_dim || p.value_dim > most_dim) {
    return core::unsupported(
        fmt::format("dim is {} and value dim {}; up to {} is accepted", p.dim, p.value_dim, most_dim));
  }
  return within_limits(p);
}

Params translate(const core::Problem& problem, int pack) {
  Params p{};
  p.query = problem.query.data;
  p.key = problem.kv.key.data;
  p.value = problem.kv.value.data;
  p.output = problem.out.rows.data;
  p.lse = problem.out.lse;
  p.query_strides = strides_of(problem.query);
  p.key_strides = strides_of(problem.kv.key);
  p.value_strides = strides_of(problem.kv.value);
  p.output_strides = strides_of(problem.out.rows);
  p.lse_strides = {problem.out.lse_strides[0], problem.out.lse_strides[1], problem.out.lse_strides[2]};
  p.batch = static_cast<int>(problem.batch);
  p.heads = static_cast<int>(problem.heads);
  p.kv_heads = static_cast<int>(problem.kv_heads);
  p.queries = static_cast<int>(problem.queries);
  p.keys = static_cast<int>(problem.keys);
  p.dim = static_cast<int>(problem.dim);
  p.value_dim = static_cast<int>(problem.value_dim);
  p.group = static_cast<int>(problem.group());
  p.pack = tile::make_divider(pack);
  p.scale = problem.scoring.scale;
  p.scale_log2 = problem.scoring.scale * tile::kLog2E;
  p.softcap = problem.scoring.softcap;
  p.left = reach(problem, problem.visible.left);
  p.right = reach(problem, problem.visible.right);
  p.align_bottom_right = problem.visible.align_bottom_right ? 1 : 0;
  p.mask_kind = mask_kind(problem.visible.mask);
  p.mask = problem.visible.mask.data;
  std::copy(problem.visible.mask.strides.begin(), problem.visible.mask.strides.end(), p.mask_strides);
  if (problem.kv.lengths_dtype == TESSERA_I32)
    p.key_lengths_i32 = static_cast<const int*>(problem.kv.lengths);
  else
    p.key_lengths_i64 = static_cast<const long long*>(problem.kv.lengths);
  p.key_lengths_stride = problem.kv.lengths_stride;
  p.alibi_slopes = problem.scoring.alibi_slopes.data;
  p.alibi_batch_stride = problem.scoring.alibi_slopes.batch_stride;
  p.alibi_head_stride = problem.scoring.alibi_slopes.head_stride;
  p.sinks = problem.scoring.sinks.data;
  p.sinks_stride = problem.scoring.sinks.head_stride;
  p.longest_first = later_rows_see_more(problem) ? 1 : 0;
  return p;
}

void place(Params* p, const core::Addresses& at) {
  using core::TensorId;
  p->query = at[TensorId::query];
  p->key = at[TensorId::key];
  p->value = at[TensorId::value];
  p->output = at[TensorId::output];
  p->lse = static_cast<float*>(at[TensorId::lse]);
  p->mask = at[TensorId::mask];
  if (p->key_lengths_i32 != nullptr) p->key_lengths_i32 = static_cast<const int*>(at[TensorId::key_lengths]);
  if (p->key_lengths_i64 != nullptr)
    p->key_lengths_i64 = static_cast<const long long*>(at[TensorId::key_lengths]);
  p->alibi_slopes = static_cast<const float*>(at[TensorId::alibi_slopes]);
  p->sinks = static_cast<const float*>(at[TensorId::sinks]);
}

void set_params(runtime::Step* step, const core::Problem& problem, int pack) {
  step->set_params(translate(problem, pack));
  step->place = [](void* params, const core::Addresses& at) {
    place(static_cast<Params*>(params), at);
    return core::Status{};
  };
}

bool rows_of_16_bytes(const core::Problem& p) {
  return rows_of_16_bytes(p, p.query, p.heads, p.queries, p.dim) &&
         rows_of_16_bytes(p, p.kv.key, p.kv_heads, p.keys, p.dim) &&
         rows_of_16_bytes(p, p.kv.value, p.kv_heads, p.keys, p.value_dim) &&
         rows_of_16_bytes(p, p.out.rows, p.heads, p.queries, p.value_dim);
}

bool plain_scores(const core::Problem& p) {
  return p.scoring.softcap == 0 && p.scoring.alibi_slopes.data == nullptr &&
         p.visible.mask.kind == core::MaskKind::none;
}

bool later_rows_see_more(const core::Problem& p) {
  return p.visible.has_band && p.visible.right < kFarAway && p.visible.left >= p.keys;
}

std::string padding_words(const core::Sizes& p, int dim, int value_dim) {
  if (dim == p.dim && value_dim == p.value_dim) return "";
  return fmt::format(", head dims padded to {} and {}", dim, value_dim);
}

}  // namespace tessera::cuda
