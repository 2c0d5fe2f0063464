#include "cuda/mask/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/estimate.hpp"
#include "cuda/mask/params.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::mask {
namespace {

constexpr std::int64_t kAlignment = 256;

std::int64_t aligned(std::int64_t bytes) { return divide_up(bytes, kAlignment) * kAlignment; }

std::int64_t element_bytes(const core::MaskTensor& mask) {
  return mask.kind == core::MaskKind::boolean ? 1 : core::dtype_size(mask.dtype);
}

// Rows of whole 16 bytes, which is what TMA and wide loads take.
bool whole_chunks(const core::Problem& p) {
  const core::MaskTensor& mask = p.visibility.mask;
  const std::int64_t size = element_bytes(mask);
  constexpr std::int64_t kStrideLimit = std::int64_t{1} << 40;  // TMA's
  const auto fits = [&](std::int64_t elements) {
    return elements >= 0 && elements < kStrideLimit / size && elements * size % 16 == 0;
  };
  return reinterpret_cast<std::uintptr_t>(mask.data) % 16 == 0 && mask.strides[3] == 1 && fits(p.keys) &&
         std::all_of(mask.strides.begin(), mask.strides.begin() + 3, fits);
}

core::Status place_pass(void* params, const core::Addresses& at, void* workspace) {
  auto& p = *static_cast<PassParams*>(params);
  auto* const base = static_cast<char*>(workspace);
  p.mask = at[core::TensorId::mask];
  // Until now they were offsets.
  p.states = reinterpret_cast<unsigned char*>(base);
  if (p.bits != nullptr) p.bits = reinterpret_cast<unsigned*>(base + reinterpret_cast<std::intptr_t>(p.bits));
  if (p.copy_row > 0) p.copy = base + reinterpret_cast<std::intptr_t>(p.copy);
  if (p.dealt != nullptr) p.dealt = reinterpret_cast<int*>(base + reinterpret_cast<std::intptr_t>(p.dealt));
  return {};
}

}  // namespace

Layout layout_of(const core::Problem& p, bool contents, std::int64_t row_tiles) {
  const core::MaskTensor& mask = p.visibility.mask;
  Layout l;
  l.batch = mask.strides[0] == 0 ? 1 : p.batch;
  l.heads = mask.strides[1] == 0 ? 1 : p.heads;
  l.rows = mask.strides[2] == 0 ? 1 : p.queries;
  l.row_granules = divide_up(l.rows, kGranuleRows);
  l.tiles = divide_up(std::max<std::int64_t>(p.keys, 1), kTilesTogether * kGranuleKeys) * kTilesTogether;
  const std::int64_t granules = l.granule_rows() * l.tiles;
  l.bytes = aligned(granules);
  if (row_tiles > 0) {
    l.dealt_at = l.bytes;
    l.row_tiles = row_tiles;
    l.bytes += aligned((1 + row_tiles) * static_cast<std::int64_t>(sizeof(int)));
  }
  if (!contents) return l;
  const bool boolean = mask.kind == core::MaskKind::boolean;
  l.bits_at = l.bytes;
  l.copy_at = l.bits_at + (boolean ? aligned(granules * kGranuleRows * kGranuleKeys / 8) : 0);
  l.bytes = l.copy_at;
  if (!boolean && !whole_chunks(p)) {
    const std::int64_t size = element_bytes(mask);
    l.copy_row = divide_up(p.keys * size, 16) * 16 / size;
    l.bytes += aligned(l.batch * l.heads * l.rows * l.copy_row * size);
  }
  return l;
}

core::Status make_pass(const core::Problem& p, const Layout& l, bool pdl, runtime::Step* out) {
  const Params all = translate(p, 1);
  const std::int64_t chunks = divide_up(std::max<std::int64_t>(p.keys, 1), kBlockKeys);
  const std::int64_t blocks = l.granule_rows() * chunks;
  constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;
  if (blocks > kMostBlocks)
    return core::unsupported(
        fmt::format("the mask tensor is cut into {} blocks; up to {} are accepted", blocks, kMostBlocks));
  PassParams params{};
  std::copy(std::begin(all.visibility.mask_strides), std::end(all.visibility.mask_strides), params.strides);
  params.kind = all.visibility.mask_kind;
  params.heads = static_cast<int>(l.heads);
  params.rows = static_cast<int>(l.rows);
  params.keys = static_cast<int>(p.keys);
  params.row_granules = static_cast<int>(l.row_granules);
  params.chunks = static_cast<int>(chunks);
  params.tiles = static_cast<int>(l.tiles);
  params.whole_chunks = whole_chunks(p) ? 1 : 0;
  params.least_bias = all.units.least_bias;
  params.bits = reinterpret_cast<unsigned*>(l.bits_at);
  params.copy = reinterpret_cast<void*>(l.copy_at);
  params.copy_row = l.copy_row;
  params.dealt = reinterpret_cast<int*>(l.dealt_at);
  params.row_tiles = static_cast<int>(l.row_tiles);
  out->kernel = "the pass over the mask tensor";
  out->function = pass_function();
  out->pdl = pdl;
  out->set_params(params);
  out->place = place_pass;
  out->grid[0] = static_cast<unsigned>(blocks);
  out->threads = kThreads;
  return {};
}

MaskTiles tiles_of(const Layout& l) {
  MaskTiles tiles{};
  tiles.bits = reinterpret_cast<const void*>(l.bits_at);  // an offset until placed
  tiles.tiles = static_cast<int>(l.tiles);
  tiles.row_stride = l.rows == 1 ? 0 : 1;
  tiles.head_stride = l.heads == 1 ? 0 : static_cast<int>(l.row_granules);
  tiles.batch_stride = l.batch == 1 ? 0 : static_cast<int>(l.heads * l.row_granules);
  return tiles;
}

void place(MaskTiles* tiles, void* workspace) {
  auto* const base = static_cast<const char*>(workspace);
  tiles->states = reinterpret_cast<const unsigned char*>(base);
  tiles->bits = base + reinterpret_cast<std::intptr_t>(tiles->bits);
}

}  // namespace tessera::cuda::mask
