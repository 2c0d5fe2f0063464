#include "cuda/translate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cuda/tile/softmax.hpp"

namespace tessera::cuda {
namespace {

Strides strides_of(const core::Tensor4& t) { return {t.batch_stride, t.head_stride, t.row_stride}; }
Tensor tensor(const core::Tensor4& t) { return {t.data, strides_of(t)}; }

// A band's reach as the kernels hold it; anything longer than a sequence can be is "far away".
int reach(const core::Problem& problem, std::int64_t keys_away) {
  return problem.has_band ? static_cast<int>(std::min<std::int64_t>(keys_away, kFarAway)) : kFarAway;
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

Element element_of(tessera_dtype dtype) {
  return dtype == TESSERA_F32 ? Element::f32 : dtype == TESSERA_BF16 ? Element::bf16 : Element::f16;
}

Params translate(const core::Problem& problem, int pack) {
  const auto narrow = [](std::int64_t n) { return static_cast<int>(n); };
  Params p{};
  p.query = tensor(problem.query);
  p.sizes = {.batch = narrow(problem.batch),
             .heads = narrow(problem.heads),
             .kv_heads = narrow(problem.kv_heads),
             .queries = narrow(problem.queries),
             .keys = narrow(problem.keys),
             .dim = narrow(problem.dim),
             .value_dim = narrow(problem.value_dim),
             .group = narrow(problem.group())};
  p.pack = tile::make_divider(pack);
  p.scoring = {
      .scale = problem.scale, .scale_log2 = problem.scale * tile::kLog2E, .softcap = problem.softcap};
  p.visibility.left = reach(problem, problem.left);
  p.visibility.right = reach(problem, problem.right);
  p.visibility.align_bottom_right = problem.align_bottom_right ? 1 : 0;
  p.visibility.mask_kind = mask_kind(problem.mask);
  p.visibility.mask = problem.mask.data;
  std::copy(problem.mask.strides.begin(), problem.mask.strides.end(), p.visibility.mask_strides);
  if (problem.key_lengths_dtype == TESSERA_I32)
    p.kv.lengths_i32 = static_cast<const int*>(problem.key_lengths);
  else
    p.kv.lengths_i64 = static_cast<const long long*>(problem.key_lengths);
  p.kv.lengths_stride = problem.key_lengths_stride;
  p.kv.key = tensor(problem.key);
  p.kv.value = tensor(problem.value);
  p.per_head = {.alibi_slopes = problem.alibi_slopes,
                .alibi_batch_stride = problem.alibi_batch_stride,
                .alibi_head_stride = problem.alibi_head_stride,
                .sinks = problem.sinks,
                .sinks_stride = problem.sinks_stride};
  p.longest_first = later_rows_see_more(problem) ? 1 : 0;
  p.output = {.data = problem.output.data,
              .strides = strides_of(problem.output),
              .lse_strides = {problem.lse_strides[0], problem.lse_strides[1], problem.lse_strides[2]},
              .lse = problem.lse};
  return p;
}

bool rows_of_16_bytes(const core::Problem& p) {
  return rows_of_16_bytes(p, p.query, p.heads, p.queries, p.dim) &&
         rows_of_16_bytes(p, p.key, p.kv_heads, p.keys, p.dim) &&
         rows_of_16_bytes(p, p.value, p.kv_heads, p.keys, p.value_dim) &&
         rows_of_16_bytes(p, p.output, p.heads, p.queries, p.value_dim);
}

bool plain_scores(const core::Problem& p) {
  return p.softcap == 0 && p.alibi_slopes == nullptr && p.mask.kind == core::MaskKind::none;
}

bool later_rows_see_more(const core::Problem& p) {
  return p.has_band && p.right < kFarAway && p.left >= p.keys;
}

std::string padding_words(const core::Problem& p, int dim, int value_dim) {
  if (dim == p.dim && value_dim == p.value_dim) return "";
  return fmt::format(", head dims padded to {} and {}", dim, value_dim);
}

}  // namespace tessera::cuda
