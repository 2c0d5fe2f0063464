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
using WalkStates = unsigned[C.consumers][32];

template <Config C>
class MaskWalk {
 public:
  MaskWalk(const Params& p, const TileIndex& at, const KeyTiles& band, WalkStates<C>&) {
    for (int tile = band.first; tile < band.first + band.count; ++tile) {
      int note = tile << kNoteTile;
      bool seen = false;
      const tile::Sequence sequence{p, at.batch};
      for (int w = 0; w < C.consumers; ++w) {
        const int row = at.row_tile * C.rows() + 64 * w, last = sequence.queries() - 1;
        KeyTiles own{0, 0};
        if (row <= last)
          own = tiles_of<C>(tile::key_range(sequence.band(), row, std::min(row + 63, last)), {0, 0});
        const MaskTiles& mask = p.mask_tiles;
        const int granule = std::min(at.row_tile * C.consumers + w, (p.sizes.queries - 1) / 64);
        int state = mask.states[(mask.batch_stride * at.batch + mask.head_stride * at.head +
                                 mask.row_stride * granule) *
                                    mask.tiles +
                                tile];
        if (tile < own.first || tile >= own.first + own.count) state = kHidden;
        seen |= state != kHidden;
        note |= state == kMixed ? 1 << w : state == kHidden ? 1 << (kNoteHidden + w) : 0;
      }
      if (seen) notes_.push_back(note);
    }
    if (notes_.empty()) notes_.push_back(band.first << kNoteTile | ((1 << C.consumers) - 1) << kNoteHidden);
  }
  int count(KeyTiles (&parts)[C.consumers]) const {
    const int all = static_cast<int>(notes_.size());
    for (int w = 0; w < C.consumers; ++w) {
      int begin = 0, end = all;
      const auto hidden = [&](int n) {
        return (notes_[static_cast<std::size_t>(n)] >> (kNoteHidden + w) & 1) != 0;
      };
      while (begin < all && hidden(begin)) ++begin;
      while (end > begin && hidden(end - 1)) --end;
      parts[w] = begin == end ? KeyTiles{all - 1, 1} : KeyTiles{begin, end - begin};
    }
    return all;
  }
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
