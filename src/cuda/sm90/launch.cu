// Host code, but nvcc's: what the kernels receive is declared beside device functions.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "cuda/runtime/kept.hpp"
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

struct Maps {
  TensorMap query, key, value;
};

std::uint64_t hash_of(const BoxedTensors& t) {
  std::uint64_t hash = 0;
  const auto mix = [&](std::uint64_t word) { hash = (hash ^ word) * 0x9e3779b97f4a7c15; };
  for (const runtime::BoxedTensor* each : {&t.query, &t.key, &t.value}) {
    mix(reinterpret_cast<std::uintptr_t>(each->data));
    mix(each->extents[1] << 8 ^ each->box_rows);
  }
  return hash >> 32;
}

core::Status encode(const BoxedTensors& t, Maps* maps) {
  if (core::Status s = runtime::encode(t.query, &maps->query); !s.ok()) return s;
  if (core::Status s = runtime::encode(t.key, &maps->key); !s.ok()) return s;
  return runtime::encode(t.value, &maps->value);
}

// A map says where a tensor is and what shape it has, nothing of what is in it: the same tensors, the same
// maps. Calls that repeat, as those of a model's layers do, do not ask the driver again.
core::Status maps_of(const BoxedTensors& tensors, const Maps** maps) {
  constexpr std::size_t kPlaces = 16;
  thread_local runtime::Kept<BoxedTensors, Maps, kPlaces> kept;
  return kept.find(
      tensors, hash_of(tensors), [&](Maps* made) { return encode(tensors, made); }, maps);
}

}  // namespace

bool in_build() { return true; }

core::Status launch(const core::Problem& p, const Choice& choice, const tessera_device& device) {
  const Maps* maps = nullptr;
  if (core::Status s = maps_of(boxes_of(p, choice.tiling), &maps); !s.ok()) return s;
  Sm90Params params{maps->query,
                    maps->key,
                    maps->value,
                    translate(p, 1),
                    make_schedule(static_cast<int>(choice.row_tiles), static_cast<int>(p.heads),
                                  static_cast<int>(p.batch), choice.blocks, choice.unequal),
                    tile::make_divider(static_cast<int>(p.group()))};
  runtime::Launch run;
  run.kernel = "sm90";
  run.starts_early = true;
  run.function = function_for(p.dtype == TESSERA_BF16, choice);
  if (splits_keys(choice.variant)) {
    run.grid[0] = static_cast<unsigned>(choice.row_tiles);
    run.grid[1] = static_cast<unsigned>(p.heads);
    run.grid[2] = static_cast<unsigned>(p.batch);
  } else {
    run.grid[0] = static_cast<unsigned>(choice.blocks);
  }
  run.threads = static_cast<unsigned>(choice.tiling.threads);
  run.shared_bytes = static_cast<unsigned>(choice.tiling.shared_bytes);
  return runtime::launch(run, &params, device);
}

}  // namespace tessera::cuda::sm90
