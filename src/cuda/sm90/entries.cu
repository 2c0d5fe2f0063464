// Host code, but for the kernel that lists row tiles.
#include "cuda/estimate.hpp"
#include "cuda/sm90/choose.hpp"
#include "cuda/sm90/entries.hpp"
#include "cuda/sm90/launch.hpp"
#include "cuda/sm90/list_entries.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/tensors.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm90 {
namespace {

__global__ void __launch_bounds__(kListThreads, 1) list_entries(const __grid_constant__ ListParams p) {
  __shared__ ListShared shared;
  ptx::launch_dependents();
  Lister(p, shared).run();
}

// Offsets into the workspace until placed.
EntryList list_at(std::int64_t taken, std::int64_t tiles, std::int64_t entries) {
  return {reinterpret_cast<int*>(taken), reinterpret_cast<ListedTile*>(tiles),
          reinterpret_cast<ListedEntry*>(entries)};
}
void place(EntryList* list, void* workspace) {
  const auto put = [&]<class T>(T*& at) {
    at = reinterpret_cast<T*>(static_cast<char*>(workspace) + reinterpret_cast<std::intptr_t>(at));
  };
  put(list->taken);
  put(list->tiles);
  put(list->entries);
}

core::Status place_list(void* params, const core::Addresses& at, void* workspace) {
  auto& p = *static_cast<ListParams*>(params);
  cuda::place(&p.problem, at);
  place(&p.list, workspace);
  return {};
}
core::Status place_entries(void* params, const core::Addresses& at, void* workspace) {
  using core::TensorId;
  auto& p = *static_cast<EntriesParams*>(params);
  cuda::place(&p.problem, at);
  place(&p.list, workspace);
  const runtime::Runtime& cuda = runtime::current();
  const auto move = [&](TensorMap* map, TensorId id) { return cuda.move_map(map, at[id]); };
  if (core::Status s = move(&p.query, TensorId::query); !s.ok()) return s;
  if (core::Status s = move(&p.key, TensorId::key); !s.ok()) return s;
  if (core::Status s = move(&p.value, TensorId::value); !s.ok() || p.has_strips == 0) return s;
  if (core::Status s = move(&p.strips[0], TensorId::query); !s.ok()) return s;
  if (core::Status s = move(&p.strips[1], TensorId::key); !s.ok()) return s;
  return move(&p.strips[2], TensorId::value);
}

core::Status place_widened(void* params, const core::Addresses& at, void* workspace) {
  auto& p = *static_cast<WidenedParams*>(params);
  cuda::place(&p.mixed.coded, at);
  return place_entries(static_cast<EntriesParams*>(&p), at, workspace);
}

core::Status encode_maps(const BoxedTensors& boxes, int gpu, EntriesParams* p) {
  const runtime::Runtime& cuda = runtime::current();
  if (core::Status s = cuda.encode(boxes.query, gpu, &p->query); !s.ok()) return s;
  if (core::Status s = cuda.encode(boxes.key, gpu, &p->key); !s.ok()) return s;
  if (core::Status s = cuda.encode(boxes.value, gpu, &p->value); !s.ok()) return s;
  for (std::size_t i = 0; i < boxes.strips.size() && p->has_strips != 0; ++i)
    if (core::Status s = cuda.encode(boxes.strips[i], gpu, &p->strips[i]); !s.ok()) return s;
  return {};
}

// The most row tiles that there can be. Where rows lie one behind the other, every entry may have one that is
// not full.
std::int64_t most_tiles(const core::Problem& p, int rows) {
  return p.heads * (p.query_offsets ? p.queries / rows + p.batch : p.batch * divide_up(p.queries, rows));
}

core::Status set_entries_params(const core::Problem& p, const Tiling& tiling, const EntryList& list, int gpu,
                                runtime::Step* step) {
  EntriesParams params{};
  params.problem = translate(p, 1);
  params.group = tile::make_divider(static_cast<int>(p.group()));
  params.list = list;
  params.has_strips = tiling.strips ? 1 : 0;
  params.box_rows = entry_box_rows(p, tiling.keys);
  params.boxes = tiling.keys / params.box_rows;
  params.query_batch = p.query_offsets ? 0 : 1;
  params.key_batch = p.kv.offsets ? 0 : 1;
  params.outer = static_cast<int>(p.kv.pages ? p.kv.pages.count : p.kv.offsets ? 1 : p.batch);
  if (core::Status s = encode_maps(boxes_of(p, tiling, params.box_rows), gpu, &params); !s.ok()) return s;
  if (core::is_8_bit(p.kv.dtype)) {
    step->set_params(WidenedParams{params, translate_mixed(p), codes_of(p.kv.dtype)});
    step->place = place_widened;
  } else {
    step->set_params(params);
    step->place = place_entries;
  }
  return {};
}

}  // namespace

core::Status add_entries(const core::Problem& p, const runtime::Gpu& gpu, int least_queries, Steps* steps) {
  const Tiling tiling = entries_tiling(p);
  const bool codes = core::is_8_bit(p.kv.dtype);
  const std::int64_t most = most_tiles(p, tiling.rows);
  if (core::Status s = check_tiles(most); !s.ok() || most == 0) return s;
  const int blocks = static_cast<int>(std::min<std::int64_t>(gpu.sms, most));
  const auto size = [](std::int64_t n, std::size_t bytes) { return n * static_cast<std::int64_t>(bytes); };
  const std::int64_t taken = steps->add_workspace(sizeof(int)),
                     tiles = steps->add_workspace(size(most + blocks, sizeof(ListedTile)));
  const EntryList list = list_at(taken, tiles, steps->add_workspace(size(p.batch, sizeof(ListedEntry))));

  runtime::Step& first = steps->add();
  first.kernel = "sm90";
  first.pdl = true;
  first.function = reinterpret_cast<const void*>(list_entries);
  first.threads = kListThreads;
  first.set_params(ListParams{.problem = translate(p, 1),
                              .list = list,
                              .least_queries = least_queries,
                              .tile_rows = tiling.rows,
                              .tile_keys = tiling.keys,
                              .most_tiles = static_cast<int>(most),
                              .blocks = blocks});
  first.place = place_list;

  runtime::Step& attend = steps->add();
  attend.kernel = "sm90";
  attend.pdl = true;
  attend.function = codes ? widened_function_for(p, tiling) : function_for(p, tiling, Variant::entries);
  attend.grid[0] = static_cast<unsigned>(blocks);
  attend.threads = static_cast<unsigned>(tiling.threads);
  attend.shared_bytes = static_cast<unsigned>(tiling.shared_bytes);
  return set_entries_params(p, tiling, list, gpu.index, &attend);
}

}  // namespace tessera::cuda::sm90
