// What happens to a tile of scores between Q K and the softmax.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/sm90/fragments.hpp"
#include "cuda/sm90/mask_walk.hpp"
#include "cuda/sm90/schedule.hpp"
#include "cuda/tile/element.hpp"
#include "cuda/tile/options.hpp"

namespace tessera::cuda::sm90 {

// Keys that the rows do not see by position; first_row: of the warpgroup, of so many rows of an entry. The
// thread's rows and their band are worked out anew each time: there is no register to keep them in through
// the tiles that need no masking.
template <auto C>
__device__ inline void hide_by_band(Scores<C>& s, const tile::Band& band, int queries, int first_row,
                                    int tile) {
  const int lane = ptx::thread_x() % 32, key0 = tile * C.keys + 2 * (lane % 4);
  const int row = first_row + ptx::thread_x() % 128 / 32 * C.warp_rows() + lane / 4;
#pragma unroll
  for (int r = 0; r < C.thread_rows(); ++r) {
    const int position = min(row + 8 * r, queries - 1) + band.offset;
    tile::PlainScores::hide(s, r, position - band.left - key0,
                            min(position + band.right + 1, band.keys) - key0);
  }
}
template <auto C>
__device__ inline void hide_by_position(Scores<C>& s, const Params& p, const TileIndex& at, int first_row,
                                        int tile) {
  const tile::Sequence sequence{p, at.batch};
  hide_by_band<C>(s, sequence.band(), sequence.queries(), first_row, tile);
}

template <int kGroups>
__device__ inline void hide_all(float (&s)[kGroups][4]) {
#pragma unroll
  for (int n = 0; n < kGroups; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] = tile::minus_infinity();
}

// A mask tensor's part, from the slot that it lies in.
template <Config C>
struct MaskSlot {
  const Sm90MaskParams& p;
  const char* slot;
  int warpgroup;

  __device__ static unsigned thread() { return static_cast<unsigned>(ptx::thread_x()); }
  __device__ static unsigned lane() { return thread() % 32; }
  // The thread's first row of the warpgroup's 64.
  __device__ static unsigned thread_row() { return thread() % 128 / 32 * 16 + lane() / 4; }

  __device__ void apply(Scores<C>& s, bool finite) const {
    switch (p.problem.visibility.mask_kind) {
      case MaskTensorKind::boolean:
        return apply_bits(s);
      case MaskTensorKind::additive_f32:
        return finite ? add_words<true>(s) : add_words<false>(s);
      case MaskTensorKind::additive_f16:
        return finite ? add_halves<true, __half>(s) : add_halves<false, __half>(s);
      default:
        return finite ? add_halves<true, __nv_bfloat16>(s) : add_halves<false, __nv_bfloat16>(s);
    }
  }

 private:
  __device__ void apply_bits(Scores<C>& s) const {
    constexpr int kRowBytes = C.keys / 8;
    const char* const mine = slot + (64 * warpgroup + thread_row()) * kRowBytes;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      alignas(16) unsigned words[C.keys / 32];
      const char* const row = mine + 8 * r * kRowBytes;
      if constexpr (kRowBytes == 16) {
        *reinterpret_cast<uint4*>(words) = *reinterpret_cast<const uint4*>(row);
      } else {
        *reinterpret_cast<uint2*>(words) = *reinterpret_cast<const uint2*>(row);
      }
      tile::hide_by_bits(s, r, words, static_cast<int>(2 * (lane() % 4)));
    }
  }

  // Additive ones lie as TMA writes them: boxes of 128 bytes of every row, chunks of 16 bytes swizzled by the
  // row's number. The chunk that column group n is in differs from that of group 0 in bits of n alone. A mask
  // that is the same for all rows has row 0 only.
  __device__ unsigned row_address(unsigned chunk, unsigned offset) const {
    const unsigned row = p.moves[0] == 0 ? 0 : 64 * warpgroup + thread_row();
    return ptx::shared_address(slot) + row * 128 + ((chunk ^ row % 8) << 4) + offset;
  }
  __device__ unsigned next_row() const { return p.moves[0] == 0 ? 0 : 8 * 128; }

  template <bool kAllFinite, class E>
  __device__ void add_halves(Scores<C>& s) const {
    const unsigned first = row_address(0, 4 * (lane() % 4)), step = next_row();
#pragma unroll
    for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const unsigned at = (first ^ (n % 8 << 4)) + n / 8 * C.rows() * 128 + r * step;
        tile::add_bias<kAllFinite>(s[n], r, tile::unpack<E>(ptx::load_shared_4(at)), p.problem.units);
      }
  }
  template <bool kAllFinite>
  __device__ void add_words(Scores<C>& s) const {
    const unsigned first = row_address(lane() % 4 / 2, 8 * (lane() % 2)), step = next_row();
#pragma unroll
    for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const unsigned at = (first ^ (n % 4 << 5)) + n / 4 * C.rows() * 128 + r * step;
        const int2 words = ptx::load_shared_8(at);
        tile::add_bias<kAllFinite>(s[n], r, make_float2(__int_as_float(words.x), __int_as_float(words.y)),
                                   p.problem.units);
      }
  }
};

}  // namespace tessera::cuda::sm90
