// Rung 1, scalar: one thread, one query row, plain loops, online softmax key by key. Every option, every
// dtype, any head dim and alignment: what no faster kernel takes ends here, and every rung above must agree
// with it.
//
//   thread t of the block            global memory
//   q[:, t]  acc[:, t]  (shared)     K row j, V row j: the same address for all lanes, a broadcast
//
// Nothing is shared between threads: a row's query and accumulator live in shared memory only because
// hundreds of floats do not fit a thread's registers. Column t is thread t's, so lanes touch neighbouring
// words.
#pragma once

#include "cuda/tile/element.hpp"
#include "cuda/tile/row_end.hpp"
#include "cuda/tile/score.hpp"

namespace tessera::cuda::ladder {

template <class T>
__global__ __launch_bounds__(32) void scalar(const __grid_constant__ Params p) {
  extern __shared__ float columns[];
  const int rows = static_cast<int>(blockDim.x), lane = static_cast<int>(threadIdx.x);
  float* const query = columns + lane;
  float* const acc = columns + p.sizes.dim * rows + lane;

  if (blockIdx.y == 0 && blockIdx.z == 0) tile::clear_unowned_rows<T>(p);
  if (static_cast<int>(blockIdx.z) >= p.sizes.batch) return;
  const tile::AnyView<T> view =
      tile::block_view<T, true>(p, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y));
  const int row = static_cast<int>(blockIdx.x) * rows + lane;
  if (row >= view.rows) return;
  const tile::RowIndex at = view.index(row);
  const tile::OptionScores score_of(p, view, at);
  const T* const source = tile::query_row(p, view, at);
  for (int d = 0; d < p.sizes.dim; ++d) query[d * rows] = tile::to_float(source[d]);
  for (int d = 0; d < p.sizes.value_dim; ++d) acc[d * rows] = 0.0f;

  tile::SoftmaxState state = tile::empty_softmax();
  const tile::KeyRange range = tile::key_range(view.band, at.query, at.query);
  for (int j = range.begin; j < range.end; ++j) {
    const T* const key = tile::key_row(p, view, j);
    float dot = 0.0f;
    for (int d = 0; d < p.sizes.dim; ++d) dot = fmaf(query[d * rows], tile::to_float(key[d]), dot);
    const float score = score_of(p, view.band, j, dot);
    if (score == tile::minus_infinity()) continue;  // contributes nothing, whatever its value row holds

    const float keep = tile::raise_row_max(state, score);
    const float prob = exp2f(score - state.row_max);
    state.sum += prob;
    const T* const value = tile::value_row(p, view, j);
    for (int d = 0; d < p.sizes.value_dim; ++d) {
      acc[d * rows] = fmaf(prob, tile::to_float(value[d]), acc[d * rows] * keep);
    }
  }

  const tile::RowEnd<T> end(p, view, at, state);
  const tile::OutputRow<T> out(p, view, at);
  for (int d = 0; d < p.sizes.value_dim; ++d) {
    float x[1] = {acc[d * rows]};
    end.finish(x, p.sizes.value_dim, [d](int) { return d; });
    out.put(d, x[0]);
  }
  tile::write_lse(p, view, at, tile::log_sum_exp(p, view, at, end.state));
}

}  // namespace tessera::cuda::ladder
