// The key tiles that a mask tensor leaves of a row tile's, last to first. Asked by a whole warp: a lane looks
// at every 32nd key tile.
//
// A key tile's note, for the consumers: its number, and for each of them what the mask is to its 64 rows.
//   bits 0-3  to be applied      4-7  only adds      8-11  hides everything      12 ...  key tile
#pragma once

#include "cuda/sm90/params.hpp"
#include "cuda/sm90/walk.hpp"
#include "cuda/tile/options.hpp"

namespace tessera::cuda::sm90 {

inline constexpr int kNoteTile = 12, kNoteHidden = 8, kNoteFinite = 4, kNoteApplied = 15;

template <Config C>
class MaskWalk {
 public:
  // `band`: the key tiles that the rows see by position.
  __device__ MaskWalk(const Params& p, const TileIndex& at, const KeyTiles& band)
      : p_(p), at_(at), first_(band.first), end_(band.first + band.count), word_((end_ - 1) / 32 + 1) {}

  // How many there are; at least one, which may be all hidden.
  __device__ int count() {
    int n = 0;
    for (int w = first_ / 32; w <= (end_ - 1) / 32; ++w) {
      look_at(w);
      n += __popc(seen_);
    }
    seen_ = 0;
    none_ = n == 0;
    return max(n, 1);
  }
  // The note of the next, as often as count() said.
  __device__ int next() {
    if (none_) return first_ << kNoteTile | ((1 << C.consumers) - 1) * (1 | 1 << kNoteHidden);
    while (seen_ == 0) look_at(--word_);
    const int bit = 31 - __clz(static_cast<int>(seen_));
    seen_ &= ~(1u << bit);
    return (32 * word_ + bit) << kNoteTile | __shfl_sync(0xffffffffu, note_, bit);
  }

 private:
  // What the mask is to consumer w's rows in a key tile. Rows behind the last may be anything: they are not
  // written.
  __device__ unsigned state(int w, int tile) const {
    const MaskTiles& mask = p_.mask_tiles;
    if (mask.states == nullptr) return static_cast<unsigned>(tile::MaskState::open);
    const int granule = min(at_.row_tile * C.consumers + w, (p_.sizes.queries - 1) / 64);
    const long long row = static_cast<long long>(mask.batch_stride) * at_.batch +
                          static_cast<long long>(mask.head_stride) * at_.head + mask.row_stride * granule;
    return mask.states[row * mask.tiles + tile];
  }
  __device__ void look_at(int word) {
    const int tile = 32 * word + static_cast<int>(threadIdx.x) % 32;
    bool seen = false;
    note_ = 0;
    if (tile >= first_ && tile < end_) {
#pragma unroll 1  // few registers
      for (int w = 0; w < C.consumers; ++w) {
        const unsigned s = state(w, tile);
        seen |= (s & tile::kSeen) != 0;
        note_ |= (s != static_cast<unsigned>(tile::MaskState::open) ? 1 << w : 0) |
                 ((s & tile::kFinite) != 0 ? 1 << (kNoteFinite + w) : 0) |
                 ((s & tile::kSeen) == 0 ? 1 << (kNoteHidden + w) : 0);
      }
    }
    seen_ = __ballot_sync(0xffffffffu, seen);
  }

  const Params& p_;
  TileIndex at_;
  int first_, end_;
  int word_;
  bool none_ = false;
  unsigned seen_ = 0;  // of the word's key tiles
  int note_ = 0;       // of the lane's
};

}  // namespace tessera::cuda::sm90
