#include "cuda/sm90/entries.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>

#include "cuda/sm90/choose.hpp"
#include "cuda/sm90/launch.hpp"
#include "cuda/sm90/tensors.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm90 {

Tiling entries_tiling(const core::Problem& p) {
  if (!core::is_8_bit(p.kv.dtype)) {
    const HeadDims dims = padded_dims(p);
    return tiling_for(dims.dim, dims.value_dim, Variant::entries);
  }
  std::size_t row = 0;
  while (row + 1 < std::size(kWidenedHeadDims) && std::max(p.dim, p.value_dim) > kWidenedHeadDims[row].dim)
    ++row;
  const Codes codes = p.dtype == TESSERA_BF16 ? Codes::beside_bf16 : Codes::beside_f16;
  return tiling_of(widened_config_for(kWidenedHeadDims[row].dim, codes));
}

// Rows of a key tile that lie in one page, wherever the tile begins.
int entry_box_rows(const core::Problem& p, int tile_keys) {
  return p.kv.pages ? static_cast<int>(std::gcd(p.kv.pages.rows, std::int64_t{tile_keys})) : tile_keys;
}

bool takes_entries(const core::Problem& p, const runtime::Gpu& gpu) {
  constexpr int kArch = 90;
  const bool codes = core::is_8_bit(p.kv.dtype);
  if (gpu.arch != kArch || !in_build() || p.kv.tail_dim > 0) return false;
  // What differs from key to key is left to others.
  const bool taken = codes ? p.mixed() && p.kv.value_column_stride == 1 && !scales_differ(p) : p.by_entry();
  if (!taken) return false;
  if (!tensor_cores_take(p, kHeadDims[std::size(kHeadDims) - 1].dim).ok()) return false;
  if (!plain_scores(p) || p.scoring.scale <= 0 || p.prior.parts > 0 || p.output.dtype != p.dtype)
    return false;
  // Swizzled rows repeat every 8: a box begins with the first of them. Shorter ones would be too many.
  constexpr int kLeastBox = 16, kSwizzledRows = 8;
  const int box = entry_box_rows(p, entries_tiling(p).keys);
  if (box < kLeastBox || box % kSwizzledRows != 0) return false;
  return check_boxes(p).ok();
}

}  // namespace tessera::cuda::sm90
