#include "cuda/serving/codes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cuda/serving/coded_dispatch.hpp"
#include "cuda/serving/dims.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::serving {
namespace {

constexpr int kMostCodedDim = kCodedHeadDims[kCodedRows - 2].dim;

int coded_row_of(const core::Problem& p) {
  if (p.kv.tail_dim > 0) return kCodedRows - 1;
  int row = 0;
  while (row + 1 < kCodedRows && std::max(p.dim, p.value_dim) > kCodedHeadDims[row].dim) ++row;
  return row;
}

core::Status coded_dims(const core::Problem& p) {
  if (p.kv.tail_dim > 0) return takes_tail(p, 1);
  const bool latent = p.dim <= kLatentDims.dim && p.value_dim <= kLatentDims.value_dim && values_in_keys(p);
  if ((p.dim <= kMostCodedDim && p.value_dim <= kMostCodedDim) || (latent && p.mixed())) return {};
  return core::unsupported(
      fmt::format("dim is {} and value dim {}; up to {} is accepted, and up to {} and {} where value.data is "
                  "key.data with its strides and query has 16 bits",
                  p.dim, p.value_dim, kMostCodedDim, kLatentDims.dim, kLatentDims.value_dim));
}

const CodedFunctions& coded_functions_for(const core::Problem& p) {
  static const auto e4m3 = coded_functions<Codes::e4m3>();
  static const auto e5m2 = coded_functions<Codes::e5m2>();
  static const auto i8 = coded_functions<Codes::i8>();
  const Codes codes = codes_of(p.kv.dtype);
  return codes == Codes::e4m3 ? e4m3 : codes == Codes::e5m2 ? e5m2 : i8;
}

// Four neighbouring elements of Q, in every row.
bool in_fours(const core::Problem& p) {
  const std::int64_t size = core::dtype_size(p.dtype);
  const auto whole = [](std::int64_t extent, std::int64_t stride) { return extent <= 1 || stride % 4 == 0; };
  return reinterpret_cast<std::uintptr_t>(p.query.data) % static_cast<std::uintptr_t>(4 * size) == 0 &&
         p.dim % 4 == 0 && whole(p.batch, p.query.batch_stride) && whole(p.heads, p.query.head_stride) &&
         whole(p.queries, p.query.row_stride);
}

}  // namespace

bool has_codes(const core::Problem& p) { return core::is_8_bit(p.kv.dtype); }

core::Status coded_tensors(const core::Problem& p) {
  if (!has_codes(p))
    return core::unsupported(
        fmt::format("key.dtype is {}; f8e4m3, f8e5m2 and i8 are accepted", core::dtype_name(p.kv.dtype)));
  if (p.dtype == TESSERA_F32)
    return core::unsupported("query.dtype is f32; f16, bf16 and the keys' own are accepted");
  if (core::Status s = coded_dims(p); !s.ok()) return s;
  if (core::Status s = within_limits(p); !s.ok()) return s;
  if (p.kv.value_column_stride != 1)
    return core::unsupported("value is transposed; this kernel takes value rows of contiguous elements");
  if (!keys_of_16_bytes(p))
    return core::unsupported(
        "rows of key or value are not aligned to 16 bytes or not a multiple of 16 elements long");
  if (p.scales.value.channel_stride != 0 && scales_differ(p, p.scales.value))
    return core::unsupported("value_scales differ by page and by channel; one of them is accepted");
  if (p.output.dtype == TESSERA_F32 && scales_differ(p, p.scales.value))
    return core::unsupported(
        "output.dtype is f32 and value_scales differ by page or block: weights times those are rounded to 16 "
        "bits");
  if (p.prior.parts > 0 && p.prior.dtype == TESSERA_F16)
    return core::unsupported("prior_output.dtype is f16; bf16 and f32 are accepted");
  return {};
}

Choice coded_choice(const core::Problem& p, int code_arch, bool few) {
  const int row = coded_row_of(p);
  const HeadDims dims = kCodedHeadDims[row];
  const CodedVariant variant = few ? CodedVariant::few : CodedVariant::more;
  Choice choice{};
  choice.dims = dims;
  choice.config = config_for_codes(code_arch, dims.dim, dims.value_dim, variant);
  choice.function = coded_functions_for(p).attend[row].of(variant);
  choice.merge = coded_functions_for(p).merge[row].of(variant);
  return choice;
}

CodedParams coded_params(const core::Problem& p, const ServingParams& params) {
  CodedParams d{};
  static_cast<ServingParams&>(d) = params;
  d.mixed = translate_mixed(p);
  d.key_by_key = scales_differ(p, p.scales.key) ? 1 : 0;
  d.value_by_key = scales_differ(p, p.scales.value) ? 1 : 0;
  d.query_quads = in_fours(p) ? 1 : 0;
  return d;
}

}  // namespace tessera::cuda::serving
