#include "cuda/translate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "cuda/tile/softmax.hpp"

namespace tessera::cuda {
namespace {

Strides strides_of(const core::Tensor4& t) { return {t.batch_stride, t.head_stride, t.row_stride}; }
Tensor tensor(const core::Tensor4& t) { return {t.data, strides_of(t)}; }

Offsets offsets(const core::Offsets& o) { return {o.data, o.stride, o.dtype == TESSERA_I64 ? 1 : 0}; }

Pages pages(const core::PageTable& t) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();  // tables are of i32
  return {.table = t.data,
          .batch_stride = t.batch_stride,
          .stride = t.stride,
          .rows = tile::make_divider(static_cast<int>(std::min(t.rows, kMost))),
          .count = static_cast<int>(std::min(t.count, kMost))};
}

Priors priors(const core::Prior& prior) {
  return {.parts = static_cast<int>(prior.parts),
          .f32 = prior.dtype == TESSERA_F32 ? 1 : 0,
          .data = prior.rows.data,
          .lse = prior.lse,
          .strides = strides_of(prior.rows),
          .lse_strides = {prior.lse_strides[0], prior.lse_strides[1], prior.lse_strides[2]}};
}

// A band's reach as the kernels hold it; anything longer than a sequence can be is "far away".
int reach(const core::Problem& problem, std::int64_t keys_away) {
  return problem.visibility.has_band ? static_cast<int>(std::min<std::int64_t>(keys_away, kFarAway))
                                     : kFarAway;
}

// Of the polynomials for tanh(y) / y - 1, in y^2: minimax fits to 3.9e-8 and 3.0e-8 where |y| is small, and
// less small.
void set_small(ScoreUnits* units) {
  constexpr float kSmall = 0.35f, kMiddle = 0.75f;
  constexpr float k3[] = {-0.3333267f, 0.13300022f, -0.049160194f},
                  k5[] = {-0.3333308f, 0.13326761f, -0.053403117f, 0.019692075f, -0.00478928f};
  const float square = units->cap_in * units->cap_in;
  units->cap_small = kSmall / units->cap_in;
  units->cap_middle = kMiddle / units->cap_in;
  float power = square;
  for (int i = 0; i < 5; ++i, power *= square) {
    if (i < 3) units->cap_3[i] = k3[i] * power;
    units->cap_5[i] = k5[i] * power;
  }
}

// Scores stay dot products where dividing by the scale cannot overflow what counts; else they are exponents
// of 2, or, where a tiny softcap would overflow those, parts of it.
ScoreUnits units_of(const core::Scoring& scoring) {
  constexpr float kMost = 0x1p20f, kMostCap = 0x1p8f;
  const float scale = scoring.scale, softcap = scoring.softcap;
  const auto fits = [&](float unit) { return softcap == 0 || unit <= softcap * kMostCap; };
  ScoreUnits units{};
  if (scale >= 1 / kMost && scale <= kMost && fits(scale)) {
    units = {.factor = scale * tile::kLog2E, .first = 1.0f, .bias = 1.0f / scale};
  } else if (fits(1.0f)) {
    units = {.factor = 1.0f, .first = scale * tile::kLog2E, .bias = tile::kLog2E};
  } else {
    // A quotient that overflows would make NaN of a dot product of 0; past the largest number all are at the
    // cap anyway.
    constexpr float kLargest = std::numeric_limits<float>::max();
    units = {.factor = softcap * tile::kLog2E,
             .first = std::clamp(scale / softcap, -kLargest, kLargest),
             .bias = 1.0f / softcap};
  }
  if (softcap > 0) {
    units.cap_out = softcap * units.bias;
    units.cap_in = 1.0f / units.cap_out;
    set_small(&units);
  }
  units.least_bias = -1e38f / std::max(units.bias, 1.5f);
  return units;
}

MaskTensorKind mask_kind(const core::MaskTensor& mask) {
  if (mask.kind == core::MaskKind::none) return MaskTensorKind::none;
  if (mask.kind == core::MaskKind::boolean) return MaskTensorKind::boolean;
  return mask.dtype == TESSERA_F32   ? MaskTensorKind::additive_f32
         : mask.dtype == TESSERA_F16 ? MaskTensorKind::additive_f16
                                     : MaskTensorKind::additive_bf16;
}

core::Status dims_within(const core::Problem& p, int most_dim) {
  if (p.dim > most_dim || p.value_dim > most_dim) {
    return core::unsupported(
        fmt::format("dim is {} and value dim {}; up to {} is accepted", p.dim, p.value_dim, most_dim));
  }
  return within_limits(p);
}

}  // namespace

core::Status dense_batch(const core::Problem& p) {
  const auto refuse = [](std::string_view field) {
    return core::unsupported(fmt::format("{} is set; this kernel takes dense batches without it", field));
  };
  if (p.query_offsets) return refuse("query_offsets");
  if (p.kv.offsets) return refuse("key_offsets");
  if (p.kv.pages) return refuse("page_table");
  if (p.prior.parts > 0) return refuse("prior_output");
  return p.visibility.mask.last_keys ? refuse("mask.tensor_align") : core::Status{};
}

core::Status dense_only(const core::Problem& p) {
  if (core::Status s = dense_batch(p); !s.ok()) return s;
  if (p.output.dtype == p.dtype) return {};
  return core::unsupported(fmt::format("output.dtype is {}; this kernel takes query's alone ({})",
                                       core::dtype_name(p.output.dtype), core::dtype_name(p.dtype)));
}

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
  return dims_within(p, most_dim);
}

core::Status f32_tensor_cores_take(const core::Problem& p, int most_dim) {
  if (p.dtype != TESSERA_F32)
    return core::unsupported(fmt::format("dtype is {}; f32 is accepted", core::dtype_name(p.dtype)));
  if (core::Status s = dense_only(p); !s.ok()) return s;
  return dims_within(p, most_dim);
}

Element element_of(tessera_dtype dtype) {
  return dtype == TESSERA_F32      ? Element::f32
         : dtype == TESSERA_BF16   ? Element::bf16
         : dtype == TESSERA_F8E4M3 ? Element::e4m3
         : dtype == TESSERA_F8E5M2 ? Element::e5m2
                                   : Element::f16;
}

Codes codes_of(tessera_dtype dtype) {
  return dtype == TESSERA_F8E4M3 ? Codes::e4m3 : dtype == TESSERA_F8E5M2 ? Codes::e5m2 : Codes::i8;
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
  p.scoring = {.scale = problem.scoring.scale,
               .scale_log2 = problem.scoring.scale * tile::kLog2E,
               .softcap = problem.scoring.softcap};
  p.visibility.left = reach(problem, problem.visibility.left);
  p.visibility.right = reach(problem, problem.visibility.right);
  p.visibility.align_bottom_right = problem.visibility.align_bottom_right ? 1 : 0;
  p.visibility.mask_kind = mask_kind(problem.visibility.mask);
  p.visibility.mask = problem.visibility.mask.data;
  std::copy(problem.visibility.mask.strides.begin(), problem.visibility.mask.strides.end(),
            p.visibility.mask_strides);
  p.visibility.mask_last_keys = problem.visibility.mask.last_keys ? 1 : 0;
  p.visibility.mask_columns = narrow(std::min<std::int64_t>(problem.visibility.mask.columns, kFarAway));
  if (problem.kv.lengths_dtype == TESSERA_I32)
    p.kv.lengths_i32 = static_cast<const int*>(problem.kv.lengths);
  else
    p.kv.lengths_i64 = static_cast<const long long*>(problem.kv.lengths);
  p.kv.lengths_stride = problem.kv.lengths_stride;
  p.kv.key = tensor(problem.kv.key);
  p.kv.value = tensor(problem.kv.value);
  p.kv.offsets = offsets(problem.kv.offsets);
  if (problem.kv.pages) p.kv.pages = pages(problem.kv.pages);
  p.query_offsets = offsets(problem.query_offsets);
  if (problem.prior.parts > 0) p.priors = priors(problem.prior);
  p.per_head = {.alibi_slopes = problem.scoring.alibi_slopes.data,
                .alibi_batch_stride = problem.scoring.alibi_slopes.batch_stride,
                .alibi_head_stride = problem.scoring.alibi_slopes.head_stride,
                .sinks = problem.scoring.sinks.data,
                .sinks_stride = problem.scoring.sinks.head_stride};
  p.longest_first = later_rows_see_more(problem) ? 1 : 0;
  p.output = {.data = problem.output.rows.data,
              .strides = strides_of(problem.output.rows),
              .lse_strides = {problem.output.lse_strides[0], problem.output.lse_strides[1],
                              problem.output.lse_strides[2]},
              .lse = problem.output.lse,
              .f32 = problem.output.dtype == TESSERA_F32 ? 1 : 0};
  p.units = units_of(problem.scoring);
  return p;
}

void place(Params* p, const core::Addresses& at) {
  using core::TensorId;
  p->query.data = at[TensorId::query];
  p->kv.key.data = at[TensorId::key];
  p->kv.value.data = at[TensorId::value];
  void* const lengths = at[TensorId::key_lengths];
  if (p->kv.lengths_i32 != nullptr) p->kv.lengths_i32 = static_cast<const int*>(lengths);
  if (p->kv.lengths_i64 != nullptr) p->kv.lengths_i64 = static_cast<const long long*>(lengths);
  p->visibility.mask = at[TensorId::mask];
  p->per_head.alibi_slopes = static_cast<const float*>(at[TensorId::alibi_slopes]);
  p->per_head.sinks = static_cast<const float*>(at[TensorId::sinks]);
  p->query_offsets.data = at[TensorId::query_offsets];
  p->kv.offsets.data = at[TensorId::key_offsets];
  p->kv.pages.table = static_cast<const int*>(at[TensorId::page_table]);
  p->priors.data = at[TensorId::prior_output];
  p->priors.lse = static_cast<const float*>(at[TensorId::prior_lse]);
  p->output.data = at[TensorId::output];
  p->output.lse = static_cast<float*>(at[TensorId::lse]);
}

Coded translate_coded(const core::Problem& p) {
  const auto scales = [](const core::Scales& s) {
    constexpr int kAll = 31;  // rows are fewer than 2^31
    return Scales{s.data,           s.outer_stride,
                  s.head_stride,    s.block_stride,
                  s.channel_stride, s.rows > 0 ? std::countr_zero(static_cast<std::uint64_t>(s.rows)) : kAll};
  };
  return {scales(p.scales.query),
          scales(p.scales.key),
          scales(p.scales.value),
          scales(p.scales.value),
          p.kv.value_column_stride,
          p.output.dtype == TESSERA_F32    ? OutputKind::f32
          : p.output.dtype == TESSERA_BF16 ? OutputKind::bf16
                                           : OutputKind::f16};
}

Tail translate_tail(const core::Problem& p) {
  const core::Tensor4& tail = p.kv.tail;
  if (p.kv.tail_dim == 0) return {};
  return {{tail.data, {tail.batch_stride, tail.head_stride, tail.row_stride}}, static_cast<int>(p.key_dim())};
}

Mixed translate_mixed(const core::Problem& p) {
  const QueryKind query = p.dtype == TESSERA_F32    ? QueryKind::f32
                          : p.dtype == TESSERA_F16  ? QueryKind::f16
                          : p.dtype == TESSERA_BF16 ? QueryKind::bf16
                                                    : QueryKind::codes;
  return {translate_coded(p), query};
}

void place(Coded* coded, const core::Addresses& at) {
  using core::TensorId;
  coded->query.data = static_cast<const float*>(at[TensorId::query_scales]);
  coded->key.data = static_cast<const float*>(at[TensorId::key_scales]);
  coded->value.data = coded->values_left.data = static_cast<const float*>(at[TensorId::value_scales]);
}

void set_params(runtime::Step* step, const core::Problem& problem, int pack) {
  step->set_params(translate(problem, pack));
  step->place = [](void* params, const core::Addresses& at, void*) {
    place(static_cast<Params*>(params), at);
    return core::Status{};
  };
}

// A stride along a dimension of one element is never used, and frameworks set it to anything.
namespace {

bool lies_in_16_bytes(const core::Tensor4& t, tessera_dtype dtype, std::int64_t outer, std::int64_t heads,
                      std::int64_t rows, std::int64_t row_elements) {
  const std::int64_t size = core::dtype_size(dtype);
  const auto aligned = [&](std::int64_t extent, std::int64_t stride) {
    return extent <= 1 || stride * size % 16 == 0;
  };
  return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && row_elements * size % 16 == 0 &&
         aligned(outer, t.batch_stride) && aligned(heads, t.head_stride) && aligned(rows, t.row_stride);
}

}  // namespace

bool rows_of_16_bytes(const core::Problem& p, const core::Tensor4& t, std::int64_t outer, std::int64_t heads,
                      std::int64_t rows, std::int64_t row_elements) {
  return lies_in_16_bytes(t, p.dtype, outer, heads, rows, row_elements);
}

bool keys_of_16_bytes(const core::Problem& p) {
  const std::int64_t outer = p.kv.pages ? p.kv.pages.count : p.batch;
  return lies_in_16_bytes(p.kv.key, p.kv.dtype, outer, p.kv_heads, p.keys, p.key_dim()) &&
         lies_in_16_bytes(p.kv.value, p.kv.dtype, outer, p.kv_heads, p.keys, p.value_dim);
}

bool queries_of_16_bytes(const core::Problem& p) {
  return rows_of_16_bytes(p, p.query, p.batch, p.heads, p.queries, p.dim);
}

bool rows_of_16_bytes(const core::Problem& p) {
  return keys_of_16_bytes(p) && queries_of_16_bytes(p) &&
         rows_of_16_bytes(p, p.output.rows, p.batch, p.heads, p.queries, p.value_dim);
}

bool plain_scores(const core::Problem& p) {
  return p.scoring.softcap == 0 && p.scoring.alibi_slopes.data == nullptr &&
         p.visibility.mask.kind == core::MaskKind::none;
}

bool later_rows_see_more(const core::Problem& p) {
  return p.visibility.has_band && p.visibility.right < kFarAway && p.visibility.left >= p.keys;
}

bool scales_differ(const core::Problem& p, const core::Scales& scales) {
  return scales && (scales.block_stride != 0 || (p.kv.pages && scales.outer_stride != 0));
}
bool scales_differ(const core::Problem& p) {
  return scales_differ(p, p.scales.key) || scales_differ(p, p.scales.value);
}

std::string padding_words(const core::Sizes& p, int dim, int value_dim) {
  if (dim == p.dim && value_dim == p.value_dim) return "";
  return fmt::format(", head dims padded to {} and {}", dim, value_dim);
}

}  // namespace tessera::cuda
