// Host code, but nvcc's: what the kernels receive is declared beside device functions.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "cuda/runtime/runtime.hpp"
#include "cuda/sm90/dispatch.hpp"
#include "cuda/sm90/launch.hpp"
#include "cuda/sm90/make_schedule.hpp"
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

const void* function_for(bool bf16, const Choice& choice) {
  static const auto of_f16 = functions_of<Element::f16>(std::make_index_sequence<kRows>());
  static const auto of_bf16 = functions_of<Element::bf16>(std::make_index_sequence<kRows>());
  std::size_t row = 0;
  while (kHeadDims[row].dim != choice.tiling.dim || kHeadDims[row].value_dim != choice.tiling.value_dim)
    ++row;
  return (bf16 ? of_bf16 : of_f16)[row].of(choice.variant);
}

core::Status move_maps(TensorMap* query, TensorMap* key, TensorMap* value, const core::Addresses& at) {
  const runtime::Runtime& cuda = runtime::current();
  if (core::Status s = cuda.move_map(query, at[core::TensorId::query]); !s.ok()) return s;
  if (core::Status s = cuda.move_map(key, at[core::TensorId::key]); !s.ok()) return s;
  return cuda.move_map(value, at[core::TensorId::value]);
}

core::Status place(void* params, const core::Addresses& at) {
  auto& p = *static_cast<Sm90Params*>(params);
  place(&p.problem, at);
  return move_maps(&p.query, &p.key, &p.value, at);
}
core::Status place_with_strips(void* params, const core::Addresses& at) {
  if (core::Status s = place(params, at); !s.ok()) return s;
  TensorMap* const strips = static_cast<StripParams*>(params)->strips;
  return move_maps(&strips[0], &strips[1], &strips[2], at);
}

}  // namespace

bool in_build() { return true; }

core::Status make_step(const core::Problem& p, const Choice& choice, int gpu, runtime::Step* out) {
  StripParams params{};
  params.problem = translate(p, 1);
  params.schedule =
      make_schedule(static_cast<int>(choice.row_tiles), static_cast<int>(p.heads), static_cast<int>(p.batch),
                    choice.blocks * choice.tiling.teams, choice.unequal);
  params.group = tile::make_divider(static_cast<int>(p.group()));
  const BoxedTensors boxes = boxes_of(p, choice.tiling);
  const runtime::Runtime& cuda = runtime::current();
  if (core::Status s = cuda.encode(boxes.query, gpu, &params.query); !s.ok()) return s;
  if (core::Status s = cuda.encode(boxes.key, gpu, &params.key); !s.ok()) return s;
  if (core::Status s = cuda.encode(boxes.value, gpu, &params.value); !s.ok()) return s;
  out->kernel = "sm90";
  out->pdl = true;
  out->function = function_for(p.dtype == TESSERA_BF16, choice);
  if (choice.tiling.strips) {
    for (std::size_t i = 0; i < boxes.strips.size(); ++i)
      if (core::Status s = cuda.encode(boxes.strips[i], gpu, &params.strips[i]); !s.ok()) return s;
    out->set_params(params);
    out->place = place_with_strips;
  } else {
    out->set_params(static_cast<const Sm90Params&>(params));
    out->place = place;
  }
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
