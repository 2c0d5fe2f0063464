// Host code, but nvcc's: what the kernels receive is declared beside device functions.
#include <array>
#include <utility>

#include "cuda/mask/plan.hpp"
#include "cuda/runtime/runtime.hpp"
#include "cuda/sm90/make_schedule.hpp"
#include "cuda/sm90/mask_params.hpp"
#include "cuda/sm90/tensors.hpp"
#include "cuda/sm90_fp8/dispatch.hpp"
#include "cuda/sm90_fp8/launch.hpp"
#include "cuda/sm90_fp8/params.hpp"
#include "cuda/sm90_fp8/values.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm90_fp8 {
namespace {

constexpr std::size_t kRows = std::size(kHeadDims);

template <sm90::Codes kCodes, std::size_t... I>
std::array<Functions, kRows> functions_of(std::index_sequence<I...>) {
  return {functions<kCodes, kHeadDims[I].dim, kHeadDims[I].value_dim>()...};
}

const void* function_for(const Choice& choice) {
  static const auto of_e4m3 = functions_of<sm90::Codes::e4m3>(std::make_index_sequence<kRows>());
  static const auto of_e5m2 = functions_of<sm90::Codes::e5m2>(std::make_index_sequence<kRows>());
  std::size_t row = 0;
  while (kHeadDims[row].dim != choice.config.dim) ++row;
  return (choice.config.codes == sm90::Codes::e4m3 ? of_e4m3 : of_e5m2)[row].of(choice.variant);
}

core::Status place_all(sm90::Sm90Params* p, sm90::CodedPart* more, const core::Addresses& at, char* memory) {
  using core::TensorId;
  cuda::place(&p->problem, at);
  cuda::place(&more->coded, at);
  if (more->scales_at >= 0)
    more->coded.values_left.data = reinterpret_cast<const float*>(memory + more->scales_at);
  const runtime::Runtime& cuda = runtime::current();
  if (core::Status s = cuda.move_map(&p->query, at[TensorId::query]); !s.ok()) return s;
  if (core::Status s = cuda.move_map(&p->key, at[TensorId::key]); !s.ok()) return s;
  return cuda.move_map(&p->value, memory + more->values_at);
}
core::Status place(void* params, const core::Addresses& at, void* workspace) {
  auto& p = *static_cast<sm90::CodedParams*>(params);
  return place_all(&p, &p, at, static_cast<char*>(workspace));
}
core::Status place_with_mask(void* params, const core::Addresses& at, void* workspace) {
  auto& p = *static_cast<sm90::CodedMaskParams*>(params);
  if (core::Status s = place_all(&p, &p, at, static_cast<char*>(workspace)); !s.ok()) return s;
  return sm90::place_mask(&p, at, workspace);
}

core::Status encode_maps(const core::Problem& p, const Choice& c, const ValuesLayout& values, int gpu,
                         sm90::Sm90Params* out) {
  const sm90::Extents queries{p.batch, p.heads, p.queries}, keys{p.batch, p.kv_heads, p.keys};
  const int rows = c.config.keys;
  const runtime::Runtime& cuda = runtime::current();
  if (core::Status s = cuda.encode(sm90::box_of(p.dtype, p.query, p.dim, queries, 64), gpu, &out->query);
      !s.ok())
    return s;
  if (core::Status s = cuda.encode(sm90::box_of(p.dtype, p.kv.key, p.dim, keys, rows), gpu, &out->key);
      !s.ok())
    return s;
  return cuda.encode(sm90::box_of(TESSERA_F16, values_tensor(p, values), p.value_dim, keys, rows), gpu,
                     &out->value);
}

sm90::CodedPart coded_part(const core::Problem& p, const ValuesLayout& values) {
  sm90::CodedPart part{translate_coded(p), values.at, -1};
  if (values.scale_bytes > 0) {
    part.scales_at = values.scales_at;
    part.coded.values_left = {nullptr, p.kv_heads, 1, 0, 0, part.coded.query.shift};
  }
  return part;
}

// In place of the tensor's own: one for each batch entry and head.
template <class Params>
Params joined(const sm90::Sm90Params& params, const sm90::CodedPart& part) {
  Params all{};
  static_cast<sm90::Sm90Params&>(all) = params;
  static_cast<sm90::CodedPart&>(all) = part;
  return all;
}

}  // namespace

bool in_build() { return true; }

core::Status add_steps(const core::Problem& p, const Choice& c, int gpu, Steps* steps) {
  mask::Layout layout;
  if (c.variant == Variant::general) {
    layout = mask::layout_of(p, true, c.total);
    if (core::Status s = mask::make_pass(p, layout, true, &steps->add()); !s.ok()) return s;
    steps->add_workspace(layout.bytes);
  }
  ValuesLayout values = values_layout(p);
  values.at = steps->add_workspace(values.bytes);
  if (values.scale_bytes > 0) values.scales_at = steps->add_workspace(values.scale_bytes);
  make_values(p, values, &steps->add());
  sm90::Sm90Params params{};
  params.problem = translate(p, 1);
  params.schedule =
      sm90::make_schedule(static_cast<int>(c.row_tiles), static_cast<int>(p.heads), static_cast<int>(p.batch),
                          c.blocks, c.unequal && layout.dealt_at == 0, layout.heads > 1 && layout.batch == 1);
  params.group = tile::make_divider(static_cast<int>(p.group()));
  if (core::Status s = encode_maps(p, c, values, gpu, &params); !s.ok()) return s;
  const sm90::CodedPart part = coded_part(p, values);
  runtime::Step& step = steps->add();
  step.kernel = "sm90_fp8";
  step.pdl = true;
  step.function = function_for(c);
  if (c.variant == Variant::general) {
    auto all = joined<sm90::CodedMaskParams>(params, part);
    sm90::Tiling tiling{};
    tiling.rows = c.config.rows();
    tiling.keys = c.config.keys;
    tiling.mask_bytes = c.config.mask_bytes;
    if (core::Status s = sm90::add_mask(p, tiling, layout, gpu, &all); !s.ok()) return s;
    step.set_params(all);
    step.place = place_with_mask;
  } else {
    step.set_params(joined<sm90::CodedParams>(params, part));
    step.place = place;
  }
  step.grid[0] = static_cast<unsigned>(c.blocks);
  step.threads = static_cast<unsigned>(c.config.threads());
  step.shared_bytes = static_cast<unsigned>(c.config.shared_bytes());
  return {};
}

}  // namespace tessera::cuda::sm90_fp8
