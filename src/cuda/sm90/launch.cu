// Host code, but nvcc's: what the kernels receive is declared beside device functions.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "cuda/runtime/runtime.hpp"
#include "cuda/sm90/dispatch.hpp"
#include "cuda/sm90/launch.hpp"
#include "cuda/sm90/make_schedule.hpp"
#include "cuda/sm90/mask_params.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/tensors.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm90 {
namespace {

constexpr std::size_t kRows = std::size(kHeadDims);

// One Functions per row of kHeadDims.
template <Element kElement, std::size_t... I>
std::array<Functions, kRows> functions_of(std::index_sequence<I...>) {
  return {functions<kElement, kHeadDims[I].dim, kHeadDims[I].value_dim>()...};
}

}  // namespace

const void* function_for(const core::Problem& p, const Tiling& tiling, Variant variant) {
  static const auto of_f16 = functions_of<Element::f16>(std::make_index_sequence<kRows>());
  static const auto of_bf16 = functions_of<Element::bf16>(std::make_index_sequence<kRows>());
  std::size_t row = 0;
  while (kHeadDims[row].dim != tiling.dim || kHeadDims[row].value_dim != tiling.value_dim) ++row;
  return (p.dtype == TESSERA_BF16 ? of_bf16 : of_f16)[row].of(variant);
}

const void* widened_function_for(const core::Problem& p, const Tiling& tiling) {
  const auto of = [&]<Element kElement>() {
    return tiling.dim == 64    ? widened_function<kElement, 64>()
           : tiling.dim == 128 ? widened_function<kElement, 128>()
                               : widened_function<kElement, 256>();
  };
  return p.dtype == TESSERA_BF16 ? of.template operator()<Element::bf16>()
                                 : of.template operator()<Element::f16>();
}

namespace {

core::Status move_maps(TensorMap* query, TensorMap* key, TensorMap* value, const core::Addresses& at) {
  const runtime::Runtime& cuda = runtime::current();
  if (core::Status s = cuda.move_map(query, at[core::TensorId::query]); !s.ok()) return s;
  if (core::Status s = cuda.move_map(key, at[core::TensorId::key]); !s.ok()) return s;
  return cuda.move_map(value, at[core::TensorId::value]);
}

core::Status place(void* params, const core::Addresses& at, void*) {
  auto& p = *static_cast<Sm90Params*>(params);
  place(&p.problem, at);
  return move_maps(&p.query, &p.key, &p.value, at);
}
core::Status place_with_strips(void* params, const core::Addresses& at, void* workspace) {
  if (core::Status s = place(params, at, workspace); !s.ok()) return s;
  TensorMap* const strips = static_cast<StripParams*>(params)->strips;
  return move_maps(&strips[0], &strips[1], &strips[2], at);
}
core::Status place_with_mask(void* params, const core::Addresses& at, void* workspace) {
  if (core::Status s = place(params, at, workspace); !s.ok()) return s;
  return place_mask(static_cast<Sm90MaskParams*>(params), at, workspace);
}

// The parameters that the variant takes, and who places addresses in them.
core::Status set_params(const core::Problem& p, const Choice& choice, const mask::Layout& layout,
                        const BoxedTensors& boxes, const Sm90Params& params, int gpu, runtime::Step* out) {
  out->place = place;
  if (choice.tiling.strips) {
    StripParams more{};
    static_cast<Sm90Params&>(more) = params;
    for (std::size_t i = 0; i < boxes.strips.size(); ++i)
      if (core::Status s = runtime::current().encode(boxes.strips[i], gpu, &more.strips[i]); !s.ok())
        return s;
    out->set_params(more);
    out->place = place_with_strips;
  } else if (choice.variant == Variant::general) {
    Sm90MaskParams more{};
    static_cast<Sm90Params&>(more) = params;
    if (p.visibility.mask.kind != core::MaskKind::none) {
      if (core::Status s = add_mask(p, choice.tiling, layout, gpu, &more); !s.ok()) return s;
      out->place = place_with_mask;
    }
    out->set_params(more);
  } else {
    out->set_params(params);
  }
  return {};
}

}  // namespace

core::Status place_mask(Sm90MaskParams* params, const core::Addresses& at, void* workspace) {
  Sm90MaskParams& p = *params;
  mask::place(&p.problem.mask_tiles, workspace);
  p.dealt = reinterpret_cast<int*>(static_cast<char*>(workspace) + reinterpret_cast<std::intptr_t>(p.dealt));
  if (p.box_keys == 0) return {};
  void* const mask = p.copy_at == 0 ? at[core::TensorId::mask] : static_cast<char*>(workspace) + p.copy_at;
  return runtime::current().move_map(&p.mask, mask);
}

core::Status add_mask(const core::Problem& p, const Tiling& tiling, const mask::Layout& layout, int gpu,
                      Sm90MaskParams* out) {
  const core::MaskTensor& mask = p.visibility.mask;
  const bool boolean = mask.kind == core::MaskKind::boolean;
  const auto bits = static_cast<int>(boolean ? 1 : 8 * core::dtype_size(mask.dtype));
  out->problem.mask_tiles = mask::tiles_of(layout);
  out->slot_bytes = tiling.rows * tiling.keys * bits / 8;
  while (2 << out->slot_bits <= kMostMaskSlots &&
         tiling.mask_bytes >= (2 << out->slot_bits) * out->slot_bytes)
    ++out->slot_bits;
  out->dealt = reinterpret_cast<int*>(layout.dealt_at);  // an offset until placed
  if (boolean) return {};
  out->box_keys = 128 * 8 / bits;
  out->moves[0] = layout.rows == 1 ? 0 : 1;
  out->moves[1] = layout.heads == 1 ? 0 : 1;
  out->moves[2] = layout.batch == 1 ? 0 : 1;
  out->copy_at = layout.copy_row == 0 ? 0 : layout.copy_at;
  return runtime::current().encode(mask_box(p, layout, tiling.rows), gpu, &out->mask);
}

bool in_build() { return true; }

core::Status make_step(const core::Problem& p, const Choice& choice, const mask::Layout& layout, int gpu,
                       runtime::Step* out) {
  Sm90Params params{};
  params.problem = translate(p, 1);
  params.schedule =
      make_schedule(static_cast<int>(choice.row_tiles), static_cast<int>(p.heads), static_cast<int>(p.batch),
                    choice.blocks * choice.tiling.teams, choice.unequal && layout.dealt_at == 0,
                    layout.heads > 1 && layout.batch == 1);
  params.group = tile::make_divider(static_cast<int>(p.group()));
  const BoxedTensors boxes = boxes_of(p, choice.tiling);
  const runtime::Runtime& cuda = runtime::current();
  if (core::Status s = cuda.encode(boxes.query, gpu, &params.query); !s.ok()) return s;
  if (core::Status s = cuda.encode(boxes.key, gpu, &params.key); !s.ok()) return s;
  if (core::Status s = cuda.encode(boxes.value, gpu, &params.value); !s.ok()) return s;
  out->kernel = "sm90";
  out->pdl = true;
  out->function = function_for(p, choice.tiling, choice.variant);
  if (core::Status s = set_params(p, choice, layout, boxes, params, gpu, out); !s.ok()) return s;
  if (splits_keys(choice.variant)) {
    out->grid[0] = static_cast<unsigned>(choice.row_tiles);
    out->grid[1] = static_cast<unsigned>(p.heads);
    out->grid[2] = static_cast<unsigned>(p.batch);
  } else {
    out->grid[0] = static_cast<unsigned>(choice.blocks);
  }
  out->threads = static_cast<unsigned>(choice.tiling.threads);
  out->shared_bytes = static_cast<unsigned>(choice.tiling.shared_bytes);
  return {};
}

}  // namespace tessera::cuda::sm90
