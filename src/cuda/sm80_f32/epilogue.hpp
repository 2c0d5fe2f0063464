// The end of a row tile: rows go straight to memory, four threads 32 bytes of one, and what the products
// cannot have got right is computed again.
#pragma once

#include "cuda/sm80/epilogue.hpp"
#include "cuda/sm80_f32/parts.hpp"

namespace tessera::cuda::sm80_f32 {

using sm80::Config;

// What any thread of the block has met: see parts.hpp.
struct Doubts {
  bool tiny_values;  // so that an output of 0 may not be one
  bool scores;       // no output is to be trusted
};

__device__ inline Doubts join_doubts(const Seen& scored, const Seen& values) {
  const bool tiny_values = __syncthreads_or(values.tiny()) != 0;
  const bool tiny = __syncthreads_or(scored.tiny()) != 0, huge = __syncthreads_or(scored.huge()) != 0;
  return {tiny_values, tiny && huge};
}

// Where finished rows go (sm80/epilogue.hpp).
struct Written {
  static constexpr bool kOptions = true;
  const Params& p;
  const tile::BlockView<float>& view;
  int lane;
  Doubts doubts;
  bool small = false, zero = false;  // a number of the row is

  // A product with the inverse would be rounded once more, and where one key takes all the weight, the bound
  // is not much more than what the products above have used up.
  __device__ static float divide(float x, float keep, float sum, float) {
    return sum == 0.0f ? 0.0f : x * keep / sum;
  }
  __device__ void put(int, bool there, tile::RowIndex at, int n, float x, float y) {
    const int column = 8 * n + 2 * (lane % 4), columns = p.sizes.value_dim - column;
    if (columns <= 0) return;
    look_at(x);
    if (columns > 1) look_at(y);
    if (!there) return;
    float* const out = tile::output_row(p, view, at) + column;
    if (columns > 1 && reinterpret_cast<unsigned long long>(out) % 8 == 0) {
      *reinterpret_cast<float2*>(out) = make_float2(x, y);
    } else {
      out[0] = x;
      if (columns > 1) out[1] = y;
    }
  }
  __device__ void look_at(float x) {
    small |= x != 0.0f && fabsf(x) < kTiny;
    zero |= x == 0.0f;
  }
  // Parts of inf make NaN of numbers that are none, in scores and so in sums too: whatever is not finite is
  // suspect.
  __device__ bool suspect(float check, float) {
    const bool again = check != check || small || doubts.scores || (doubts.tiny_values && zero);
    small = zero = false;
    return again;
  }
};

template <Config C>
__device__ inline void write_rows(const Params& p, const tile::BlockView<float>& view, int pack_index,
                                  sm80::RowState<C>& rows, sm80::Output<C>& o, const Doubts& doubts,
                                  int first_row) {
  const int thread = ptx::thread_x(), lane = thread % 32, warp_row = thread / 32 % C.row_warps * 16;
  unsigned suspects = sm80::finish_rows<C, float>(p, view, rows, o, Written{p, view, lane, doubts}, lane,
                                                  warp_row, first_row, 0);
  for (; suspects != 0; suspects &= suspects - 1) {
    tile::careful_row<float, true>(p, view.batch, pack_index,
                                   first_row + warp_row + __ffs(static_cast<int>(suspects)) - 1);
  }
}

}  // namespace tessera::cuda::sm80_f32
