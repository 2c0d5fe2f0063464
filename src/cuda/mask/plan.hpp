// A mask tensor that is looked at before the attention kernel: what that takes of a workspace, and its
// launch.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "cuda/params.hpp"
#include "cuda/runtime/step.hpp"

namespace tessera::cuda::mask {

const void* pass_function();

// How the mask is cut up, and where what the pass writes lies in a workspace.
struct Layout {
  std::int64_t batch = 1, heads = 1, rows = 1;  // of the mask itself: 1 where it is the same for all
  std::int64_t row_granules = 1, tiles = 0;
  std::int64_t bits_at = 0, copy_at = 0, bytes = 0;  // the states are at 0; bits_at 0: there are none
  std::int64_t copy_row = 0;                         // elements of a row of the copy; 0: there is none
  std::int64_t dealt_at = 0;                         // a counter and a number for each row tile; 0: none
  std::int64_t row_tiles = 0;                        // that are dealt out

  std::int64_t granule_rows() const { return batch * heads * row_granules; }
};
// contents: beside the states, what kernels read in place of the mask: the bits of a boolean one, and of an
// additive one that TMA cannot read a copy that it can. row_tiles: of a kernel that deals them out as its
// blocks become free, and keeps account of that.
Layout layout_of(const core::Problem& problem, bool contents, std::int64_t row_tiles = 0);

// The launch; `pdl`: its code waits for kernels before it by itself.
core::Status make_pass(const core::Problem& problem, const Layout& layout, bool pdl, runtime::Step* out);

// What the attention kernel receives, but for addresses.
MaskTiles tiles_of(const Layout& layout);
void place(MaskTiles* tiles, void* workspace);

}  // namespace tessera::cuda::mask
