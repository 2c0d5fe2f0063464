#include "cuda/sm80/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "cuda/runtime/runtime.hpp"
#include "cuda/sm80/dispatch.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm80 {
namespace {

constexpr std::size_t kRows = std::size(kHeadDims);

// One Functions per row of kHeadDims.
template <Element kElement, std::size_t... I>
std::array<Functions, kRows> functions_of(std::index_sequence<I...>) {
  return {functions<kElement, kHeadDims[I].dim, kHeadDims[I].value_dim>()...};
}

const void* function_for(const core::Problem& p, Variant variant) {
  static const auto f16 = functions_of<Element::f16>(std::make_index_sequence<kRows>());
  static const auto bf16 = functions_of<Element::bf16>(std::make_index_sequence<kRows>());
  const HeadDims dims = padded_dims(p);
  const auto* const found = std::find_if(std::begin(kHeadDims), std::end(kHeadDims), [&](const HeadDims& d) {
    return d.dim == dims.dim && d.value_dim == dims.value_dim;
  });
  const auto index = static_cast<std::size_t>(found - std::begin(kHeadDims));
  return (p.dtype == TESSERA_BF16 ? bf16 : f16)[index].of(variant);
}

core::Status supports(const core::Problem& p) {
  if (p.dtype != TESSERA_F16 && p.dtype != TESSERA_BF16) {
    return core::unsupported(
        fmt::format("dtype is {}; f16 and bf16 are accepted", core::dtype_name(p.dtype)));
  }
  const int most = kHeadDims[kRows - 1].dim;
  if (p.dim > most || p.value_dim > most) {
    return core::unsupported(
        fmt::format("dim is {} and value dim {}; up to {} is accepted", p.dim, p.value_dim, most));
  }
  return within_limits(p);
}

std::int64_t blocks(const core::Problem& p, const Config& c) {
  return (p.queries * p.group() + c.rows() - 1) / c.rows() * p.kv_heads * p.batch;
}

core::Launch geometry(const core::Problem& p, const tessera_device& device) {
  core::Launch launch;
  std::string why;
  const runtime::Gpu* const gpu = runtime::find_gpu(device.index, &why);
  if (gpu == nullptr) return launch;
  const Variant variant = variant_for(p, gpu->arch, gpu->sms);
  const HeadDims dims = padded_dims(p);
  const Config c = config_for(code_arch_of(gpu->arch), dims.dim, dims.value_dim, variant);
  launch.work_items = blocks(p, c);
  launch.threads = c.threads();
  launch.reason =
      fmt::format("{} variant: blocks of {} rows, {} keys at a time{}{}{}",
                  variant == Variant::plain   ? "plain"
                  : variant == Variant::small ? "small"
                                              : "general",
                  c.rows(), c.tile_keys(),
                  c.key_splits > 1 ? fmt::format(" shared by {} groups of warps", c.key_splits) : "",
                  p.group() > 1 ? fmt::format(", {} heads share their K and V", p.group()) : "",
                  padding_words(p, dims.dim, dims.value_dim));
  return launch;
}

core::Status launch(const core::Problem& p, const tessera_device& device, const core::Launch&) {
  std::string why;
  const runtime::Gpu* const gpu = runtime::find_gpu(device.index, &why);
  if (gpu == nullptr) return {TESSERA_DEVICE_UNAVAILABLE, why};
  const Variant variant = variant_for(p, gpu->arch, gpu->sms);
  const HeadDims dims = padded_dims(p);
  runtime::Launch run;
  run.kernel = "sm80";
  run.function = function_for(p, variant);
  // What the code in this process was compiled for: on a GPU newer than this build it comes from PTX.
  const int arch = runtime::code_arch(run.function, device.index);
  const Config c = config_for(arch, dims.dim, dims.value_dim, variant);
  run.starts_early = pdl(arch);
  run.grid[0] = static_cast<unsigned>((p.queries * p.group() + c.rows() - 1) / c.rows());
  run.grid[1] = static_cast<unsigned>(p.kv_heads);
  run.grid[2] = static_cast<unsigned>(p.batch);
  run.threads = static_cast<unsigned>(c.threads());
  run.shared_bytes = static_cast<unsigned>(c.shared_bytes());
  Params params = translate(p, static_cast<int>(p.group()));
  return runtime::launch(run, &params, device);
}

}  // namespace

HeadDims padded_dims(const core::Problem& p) {
  for (const HeadDims& d : kHeadDims) {
    if (p.dim <= d.dim && p.value_dim <= d.value_dim) return d;
  }
  return kHeadDims[kRows - 1];
}

// Too few blocks of the plain variant to give every SM one: smaller blocks, more of them.
Variant variant_for(const core::Problem& p, int arch, int sms) {
  if (!rows_of_16_bytes(p) || !plain_scores(p) || p.scale <= 0) return Variant::general;
  const HeadDims dims = padded_dims(p);
  if (!has_small(dims.dim)) return Variant::plain;
  const Config plain = config_for(code_arch_of(arch), dims.dim, dims.value_dim, Variant::plain);
  return blocks(p, plain) < sms ? Variant::small : Variant::plain;
}

Tiling tiling_for(const core::Problem& p, int arch, Variant variant) {
  const HeadDims dims = padded_dims(p);
  const Config c = config_for(code_arch_of(arch), dims.dim, dims.value_dim, variant);
  return {c.rows(), blocks(p, c)};
}

core::Kernel production_row() {
  core::Kernel row{};
  row.name = "sm80";
  row.summary =
      "production: mma.sync and cp.async, fused softmax in registers; f16 and bf16, head dims to 256";
  row.supports = supports;
  row.geometry = geometry;
  row.launch = launch;
  row.budget = {255, 227 * 1024, 64};  // docs/sm80.md, "Registers"
  row.symbol = "sm80::attend<";
  return row;
}

}  // namespace tessera::cuda::sm80
