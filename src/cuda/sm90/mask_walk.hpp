// The key tiles that a mask tensor leaves of a row tile's, last to first. Asked by a whole warp, 128 key
// tiles at a time: a lane looks at 4 that stand side by side, a byte for each (tile::MaskState), one load for
// every consumer. The loads are all that this takes time for, and a row tile waits for them.
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

// Of the key tiles that are looked at, 4 in a word, to each consumer. In shared memory: the warp has few
// registers.
template <Config C>
using WalkStates = unsigned[C.consumers][32];

template <Config C>
class MaskWalk {
  static_assert(C.keys == mask::kGranuleKeys);

 public:
  // `band`: the key tiles that the rows see by position.
  __device__ MaskWalk(const Params& p, const TileIndex& at, const KeyTiles& band, WalkStates<C>& states)
      : p_(p),
        states_(states),
        at_(at),
        first_(band.first),
        end_(band.first + band.count),
        group_(band.first / kGroup - 1) {
    if (lane() >= C.consumers) return;
    const tile::Sequence sequence{p, at.batch};
    const int row = at.row_tile * C.rows() + 64 * lane(), last = sequence.queries() - 1;
    if (row <= last) own_ = tiles_of<C>(tile::key_range(sequence.band(), row, min(row + 63, last)), {0, 0});
  }

  // How many there are; at least one, which may be all hidden. parts: of these, counted from the first key
  // on, the ones from the first that a consumer sees to the last; at least one, too.
  __device__ int count(KeyTiles (&parts)[C.consumers]) {
    int n = 0, begin = -1, end = 0;  // the last two: of consumer `lane`
    while (kGroup * (group_ + 1) < end_) {
      look_at(group_ + 1);
      const int mine = __popc(seen_), before = n + sum_before(mine);
#pragma unroll
      for (int w = 0; w < C.consumers; ++w) {
        const unsigned own = states_[w][lane()] & kSeenBytes, lanes = __ballot_sync(0xffffffffu, own != 0);
        if (lanes == 0) continue;
        const int low = before + __popc(seen_ & ((own & -own) - 1));
        const int high = before + __popc(seen_ & (~0u >> __clz(static_cast<int>(own))));  // behind it
        const int first = __shfl_sync(0xffffffffu, low, __ffs(static_cast<int>(lanes)) - 1);
        const int last = __shfl_sync(0xffffffffu, high, 31 - __clz(static_cast<int>(lanes)));
        if (lane() != w) continue;
        if (begin < 0) begin = first;
        end = last;
      }
      n = __shfl_sync(0xffffffffu, before + mine, 31);
    }
    none_ = n == 0;
    n = max(n, 1);
    if (begin < 0) begin = n - 1, end = n;
#pragma unroll
    for (int w = 0; w < C.consumers; ++w) {
      const KeyTiles part = {__shfl_sync(0xffffffffu, begin, w), __shfl_sync(0xffffffffu, end - begin, w)};
      if (lane() == 0) parts[w] = part;  // by the lane that tells the consumers
    }
    return n;
  }
  // The note of the next, as often as count() said.
  __device__ int next() {
    if (none_) return first_ << kNoteTile | ((1 << C.consumers) - 1) << kNoteHidden;
    unsigned lanes;
    while ((lanes = __ballot_sync(0xffffffffu, seen_ != 0)) == 0) look_at(group_ - 1);
    const int from = 31 - __clz(static_cast<int>(lanes));
    const int bit = 31 - __clz(__shfl_sync(0xffffffffu, static_cast<int>(seen_), from));  // of its last tile
    if (lane() == from) seen_ &= ~(1u << bit);
    int note = (kGroup * group_ + 4 * from + bit / 8) << kNoteTile;
#pragma unroll
    for (int w = 0; w < C.consumers; ++w) {
      const unsigned state = states_[w][from] >> bit & 255u;
      note |= (state & tile::kSeen) == 0                              ? 1 << (kNoteHidden + w)
              : state == static_cast<unsigned>(tile::MaskState::open) ? 0
              : (state & tile::kFinite) != 0                          ? 1 << w | 1 << (kNoteFinite + w)
                                                                      : 1 << w;
    }
    return note;
  }

 private:
  static constexpr int kGroup = 128;
  static constexpr unsigned kSeenBytes = tile::kSeen * 0x01010101u, kOpenBytes = 0x01010101u;
  static_assert(static_cast<unsigned>(tile::MaskState::open) == 1);

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  // Of all lanes before this one.
  __device__ static int sum_before(int x) {
    int sum = x;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, sum, static_cast<unsigned>(step));
      if (lane() >= step) sum += other;
    }
    return sum - x;
  }

  // What the mask is to consumer w's rows in four key tiles.
  __device__ unsigned load(int w, int tile) const {
    const MaskTiles& mask = p_.mask_tiles;
    if (mask.states == nullptr) return kOpenBytes;
    const int granule = at_.row_tile * C.consumers + w;
    const long long row = static_cast<long long>(mask.batch_stride) * at_.batch +
                          static_cast<long long>(mask.head_stride) * at_.head + mask.row_stride * granule;
    return *reinterpret_cast<const unsigned*>(mask.states + row * mask.tiles + tile);
  }
  // The bytes of tiles [tile, tile + 4) that are from `first` on and before `end`.
  __device__ static unsigned bytes_of(int tile, int first, int end) {
    const int from = min(max(first - tile, 0), 4), to = min(max(end - tile, 0), 4);
    return static_cast<unsigned>((1ull << 8 * to) - (1ull << 8 * min(from, to)));
  }
  __device__ void look_at(int group) {
    group_ = group;
    const int tile = kGroup * group + 4 * lane();
    seen_ = 0;
#pragma unroll
    for (int w = 0; w < C.consumers; ++w) {
      const int first = __shfl_sync(0xffffffffu, own_.first, w);
      const unsigned bytes = bytes_of(tile, first, first + __shfl_sync(0xffffffffu, own_.count, w));
      const unsigned states = bytes == 0 ? 0 : load(w, tile) & bytes;
      states_[w][lane()] = states;
      seen_ |= states & kSeenBytes;
    }
    __syncwarp();
  }

  const Params& p_;
  WalkStates<C>& states_;  // 0 where the consumer's rows do not see a key tile by position
  TileIndex at_;
  int first_, end_;
  KeyTiles own_ = {0, 0};  // that consumer `lane` sees by position
  int group_;              // of 128 key tiles, the one looked at
  bool none_ = false;
  unsigned seen_ = 0;  // of the lane's key tiles: bit 0 of a byte
};

}  // namespace tessera::cuda::sm90
