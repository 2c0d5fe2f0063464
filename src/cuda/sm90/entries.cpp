#include "cuda/sm90/entries.hpp"

#include <cstdint>
#include <iterator>
#include <numeric>

#include "cuda/sm90/choose.hpp"
#include "cuda/sm90/launch.hpp"
#include "cuda/sm90/tensors.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm90 {

// Rows of a key tile that lie in one page, wherever the tile begins.
int entry_box_rows(const core::Problem& p, int tile_keys) {
  return p.kv.pages ? static_cast<int>(std::gcd(p.kv.pages.rows, std::int64_t{tile_keys})) : tile_keys;
}

bool takes_entries(const core::Problem& p, const runtime::Gpu& gpu) {
  constexpr int kArch = 90;
  if (gpu.arch != kArch || !in_build() || !p.by_entry()) return false;
  if (!tensor_cores_take(p, kHeadDims[std::size(kHeadDims) - 1].dim).ok()) return false;
  if (!plain_scores(p) || p.scoring.scale <= 0 || p.prior.parts > 0 || p.output.dtype != p.dtype)
    return false;
  // Swizzled rows repeat every 8: a box begins with the first of them. Shorter ones would be too many.
  constexpr int kLeastBox = 16, kSwizzledRows = 8;
  const HeadDims dims = padded_dims(p);
  const int box = entry_box_rows(p, tiling_for(dims.dim, dims.value_dim, Variant::entries).keys);
  if (box < kLeastBox || box % kSwizzledRows != 0) return false;
  return check_boxes(p).ok();
}

}  // namespace tessera::cuda::sm90
