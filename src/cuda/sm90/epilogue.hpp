// The end of a row tile: rows are divided by their sums, lse is written, and O leaves through shared memory
// by the copy engine, which leaves out what lies past the last row or column.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/barrier.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/softmax.hpp"
#include "cuda/tile/careful.hpp"

namespace tessera::cuda::sm90 {

// In: the sums of single threads. A bit per row of the warp that came out NaN although its sum did not: see
// tile/careful.hpp.
template <Config C, class T>
__device__ inline unsigned stage_output(const Params& p, const Place& at, int first_row, int thread,
                                        char* staged, Rows& rows, Output<C>& o) {
  const int lane = thread % 32, warp_row = thread / 32 * 16;
  const tile::BlockView<T> view = tile::block_view<T>(p, at.batch, at.head);
  unsigned suspects = 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 1);
    rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 2);
    const int row = warp_row + lane / 4 + 8 * r;
    const bool there = first_row + row < p.queries;
    tile::SoftmaxState state = {rows.reference[r], rows.sum[r]};
    float keep = 1.0f;
    if (p.sinks != nullptr) keep = tile::add_sink(state, p.sinks[at.head * p.sinks_stride]);
    const float inverse = tile::inverse_sum(state) * keep;
    if (there && lane % 4 == 0)
      tile::write_lse(p, view, {first_row + row, at.head}, tile::log_sum_exp(state));
    float check = 0.0f;
#pragma unroll
    for (int n = 0; n < C.value_dim / 8; ++n) {
      const float x = o[4 * n + 2 * r] * inverse, y = o[4 * n + 2 * r + 1] * inverse;
      check = fmaf(x, 0.0f, fmaf(y, 0.0f, check));  // NaN where x or y is not finite
      const int offset = n / 8 * 64 * 128 + row * 128 + ((n ^ row) % 8) * 16 + lane % 4 * 4;
      *reinterpret_cast<unsigned*>(staged + offset) = tile::pack<T>(x, y);
    }
    const bool suspect = there && check != check && state.sum == state.sum;
    const unsigned ballot = __ballot_sync(0xffffffffu, suspect);
#pragma unroll
    for (int g = 0; g < 8; ++g) {
      if ((ballot >> (4 * g) & 15u) != 0) suspects |= 1u << (8 * r + g);
    }
  }
  return suspects;
}

template <Config C, class T>
__device__ inline void write_output(const Sm90Params& p, const Place& at, int first_row, int thread,
                                    int barrier, char* staged, Rows& rows, Output<C>& o) {
  if constexpr (C.own_output) {  // the last tile's boxes may still be on their way out
    if (thread == 0) ptx::wait_boxes_read();
    ptx::named_sync(barrier, 128);
  }
  unsigned suspects = stage_output<C, T>(p.problem, at, first_row, thread, staged, rows, o);
  ptx::shared_to_async_fence();
  const bool careful = ptx::named_any(barrier, 128, suspects != 0);
  if (thread == 0) {
    if (first_row < p.problem.queries) {
      for (int b = 0; b < C.value_blocks(); ++b)
        ptx::copy_box_out(&p.output, ptx::shared_address(staged + b * 64 * 128), 64 * b, first_row, at.head,
                          at.batch);
    }
    ptx::commit_boxes_out();
    if (!C.own_output) ptx::wait_boxes_read();
  }
  if (!careful) return;
  if (thread == 0) ptx::wait_boxes_written();
  ptx::named_sync(barrier, 128);
  for (; suspects != 0; suspects &= suspects - 1) {
    tile::careful_row<T>(p.problem, at.batch, at.head,
                         first_row + thread / 32 * 16 + __ffs(static_cast<int>(suspects)) - 1);
  }
}

}  // namespace tessera::cuda::sm90
