// The key tiles that a mask tensor leaves of a row tile's, last to first. Asked by a whole warp: a lane looks
// at every 32nd key tile.
//
// A key tile's note, for the consumers: its number, and for each of them what it is to its 64 rows.
//   bits 0-3  mask to be applied      4-7  which only adds      8-11  nothing to see      12 ...  key tile
#pragma once

#include "cuda/mask/params.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/walk.hpp"
#include "cuda/tile/options.hpp"

namespace tessera::cuda::sm90 {

inline constexpr int kNoteTile = 12, kNoteHidden = 8, kNoteFinite = 4, kNoteApplied = 15;

template <Config C>
class MaskWalk {
  static_assert(C.keys == mask::kGranuleKeys);

 public:
  // `band`: the key tiles that the rows see by position.
  __device__ MaskWalk(const Params& p, const TileIndex& at, const KeyTiles& band)
      : p_(p), at_(at), first_(band.first), end_(band.first + band.count), word_((end_ - 1) / 32 + 1) {
    if (lane() >= C.consumers) return;
    const tile::Sequence sequence{p, at.batch};
    const int row = at.row_tile * C.rows() + 64 * lane(), last = sequence.queries() - 1;
    if (row <= last) own_ = tiles_of<C>(tile::key_range(sequence.band(), row, min(row + 63, last)), {0, 0});
  }

  // How many there are; at least one, which may be all hidden. parts: of these, counted from the first key
  // on, the ones from the first that a consumer sees to the last; at least one, too.
  __device__ int count(KeyTiles (&parts)[C.consumers]) {
    int n = 0, begin = -1, end = 0;  // of consumer `lane`
    for (int w = first_ / 32; w <= (end_ - 1) / 32; ++w) {
      const unsigned own = look_at(w);
      if (own != 0) {
        if (begin < 0) begin = n + __popc(seen_ & ((own & -own) - 1));
        end = n + __popc(seen_ & (~0u >> __clz(static_cast<int>(own))));
      }
      n += __popc(seen_);
    }
    seen_ = 0;
    if (n == 0) word_ = kNone;
    n = max(n, 1);
    if (lane() < C.consumers) parts[lane()] = begin < 0 ? KeyTiles{n - 1, 1} : KeyTiles{begin, end - begin};
    __syncwarp();
    return n;
  }
  // The note of the next, as often as count() said.
  __device__ int next() {
    if (word_ == kNone) return first_ << kNoteTile | ((1 << C.consumers) - 1) << kNoteHidden;
    while (seen_ == 0) look_at(--word_);
    const int bit = 31 - __clz(static_cast<int>(seen_));
    seen_ &= ~(1u << bit);
    return (32 * word_ + bit) << kNoteTile | __shfl_sync(0xffffffffu, note_, bit);
  }

 private:
  // What the mask is to consumer w's rows in a key tile.
  __device__ unsigned state(int w, int tile) const {
    const MaskTiles& mask = p_.mask_tiles;
    if (mask.states == nullptr) return static_cast<unsigned>(tile::MaskState::open);
    const int granule = at_.row_tile * C.consumers + w;
    const long long row = static_cast<long long>(mask.batch_stride) * at_.batch +
                          static_cast<long long>(mask.head_stride) * at_.head + mask.row_stride * granule;
    return mask.states[row * mask.tiles + tile];
  }
  // Returns the key tiles of the word that consumer `lane` sees.
  __device__ unsigned look_at(int word) {
    const int tile = 32 * word + lane();
    unsigned own = 0;
    note_ = 0;
    seen_ = 0;
#pragma unroll 1  // few registers
    for (int w = 0; w < C.consumers; ++w) {
      const int first = __shfl_sync(0xffffffffu, own_.first, w);
      const int end = first + __shfl_sync(0xffffffffu, own_.count, w);
      const unsigned s = tile >= first && tile < end ? state(w, tile) : 0;
      const bool seen = (s & tile::kSeen) != 0;
      note_ |= !seen                                               ? 1 << (kNoteHidden + w)
               : s == static_cast<unsigned>(tile::MaskState::open) ? 0
               : (s & tile::kFinite) != 0                          ? 1 << w | 1 << (kNoteFinite + w)
                                                                   : 1 << w;
      const unsigned all = __ballot_sync(0xffffffffu, seen);
      seen_ |= all;
      if (lane() == w) own = all;
    }
    return own;
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  const Params& p_;
  TileIndex at_;
  int first_, end_;
  KeyTiles own_ = {0, 0};  // that consumer `lane` sees by position
  int word_;
  static constexpr int kNone = -1;  // no key tile is seen
  unsigned seen_ = 0;               // of the word's key tiles
  int note_ = 0;                    // of the lane's
};

}  // namespace tessera::cuda::sm90
