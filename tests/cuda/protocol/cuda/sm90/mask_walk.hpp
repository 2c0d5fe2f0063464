// Stands in for src/cuda/sm90/mask_walk.hpp: the same notes, worked out by one thread, not by 32 lanes.
#pragma once

#include "cuda/sm90/params.hpp"
#include "cuda/sm90/walk.hpp"
#include "machine.hpp"

namespace tessera::cuda::sm90 {

inline constexpr int kNoteTile = 12, kNoteHidden = 8, kNoteFinite = 4, kNoteApplied = 15;

// As tile::MaskState has them.
enum MaskStateInTest : unsigned char { kHidden = 0, kOpen = 1, kMixed = 3 };

template <Config C>
class MaskWalk {
 public:
  MaskWalk(const Params& p, const TileIndex& at, const KeyTiles& band) {
    for (int tile = band.first; tile < band.first + band.count; ++tile) {
      int note = tile << kNoteTile;
      bool seen = false;
      for (int w = 0; w < C.consumers; ++w) {
        const MaskTiles& mask = p.mask_tiles;
        const int granule = std::min(at.row_tile * C.consumers + w, (p.sizes.queries - 1) / 64);
        const int state = mask.states[(mask.batch_stride * at.batch + mask.head_stride * at.head +
                                       mask.row_stride * granule) *
                                          mask.tiles +
                                      tile];
        seen |= state != kHidden;
        note |= (state != kOpen ? 1 << w : 0) | (state == kHidden ? 1 << (kNoteHidden + w) : 0);
      }
      if (seen) notes_.push_back(note);
    }
    if (notes_.empty())
      notes_.push_back(band.first << kNoteTile | ((1 << C.consumers) - 1) * (1 | 1 << kNoteHidden));
  }
  int count() const { return static_cast<int>(notes_.size()); }
  int next() {
    testing_cuda::machine->perhaps_pause();
    const int note = notes_.back();
    notes_.pop_back();
    return note;
  }

 private:
  std::vector<int> notes_;
};

}  // namespace tessera::cuda::sm90
