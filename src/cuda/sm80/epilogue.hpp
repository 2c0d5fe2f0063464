// The end of a row tile: key splits are merged, rows divided by their sums, and written out through the
// query's shared memory so that every store is 16 bytes of a row.
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/sm80/softmax.hpp"
#include "cuda/tile/careful.hpp"

namespace tessera::cuda::sm80 {

template <Config C>
__device__ inline void start_rows(RowState<C>& rows, Output<C>& o) {
#pragma unroll
  for (int m = 0; m < C.row_tiles; ++m) tile::clear(o[m]);
#pragma unroll
  for (int m = 0; m < C.row_tiles; ++m) rows.tiles[m] = tile::empty_rows();
}

// Splits 1, 2, ... leave their results in the ring, which nobody uses any more; split 0 takes them in, in
// that order.
template <Config C>
__device__ inline void merge_splits(RowState<C>& rows, Output<C>& o, float* memory) {
  constexpr int kWarpFloats = C.row_tiles * 16 * (C.value_dim + 8);
  const int thread = ptx::thread_x(), lane = thread % 32, warp = thread / 32;
  const int row_warp = warp % C.row_warps, split = warp / C.row_warps;
  if (split > 0) {
    float* const mine = memory + ((split - 1) * C.row_warps + row_warp) * kWarpFloats + lane;
    int at = 0;
#pragma unroll
    for (int m = 0; m < C.row_tiles; ++m)
#pragma unroll
      for (int n = 0; n < C.value_dim / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) mine[32 * at++] = o[m][n][e];
#pragma unroll
    for (int r = 0; r < 2 * C.row_tiles; ++r) {
      mine[32 * at++] = rows.tiles[r / 2].row_max[r % 2];
      mine[32 * at++] = rows.tiles[r / 2].sum[r % 2];
    }
  }
  __syncthreads();
  if (split > 0) return;
#pragma unroll
  for (int other = 1; other < C.key_splits; ++other) {
    const float* const theirs = memory + ((other - 1) * C.row_warps + row_warp) * kWarpFloats + lane;
    constexpr int kRowsAt = C.row_tiles * C.value_dim / 2;
#pragma unroll
    for (int m = 0; m < C.row_tiles; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = 2 * m + h;
        tile::SoftmaxState state = rows.tiles[m].of(h);
        const tile::MergeFactors f =
            tile::merge(state, {theirs[32 * (kRowsAt + 2 * r)], theirs[32 * (kRowsAt + 2 * r + 1)]});
        rows.tiles[m].row_max[h] = state.row_max;
        rows.tiles[m].sum[h] = state.sum;
#pragma unroll
        for (int n = 0; n < C.value_dim / 8; ++n)
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            const float more = theirs[32 * ((m * (C.value_dim / 8) + n) * 4 + e)];
            o[m][n][e] = o[m][n][e] * f.first + more * f.second;
          }
      }
  }
}

// Where finished rows go: rounded, into the warp's own rows of the query tile.
template <Config C, class T, bool kWithOptions>
struct Staged {
  static constexpr bool kOptions = kWithOptions;  // there may be a mask tensor
  char* memory;
  int lane;

  // x keep / sum; `inverse` is keep / sum already.
  __device__ static float divide(float x, float, float, float inverse) { return x * inverse; }
  // Two neighbouring columns, from 8 n + 2 (lane % 4) on. `row`: of the block.
  __device__ void put(int row, bool, tile::RowIndex, int n, float x, float y) const {
    *reinterpret_cast<unsigned*>(memory + chunk_offset<C.dim>(row, n) + 4 * (lane % 4)) = tile::pack<T>(x, y);
  }
  // A row that holds NaN although its sum does not: see tile/careful.hpp.
  __device__ static bool suspect(float check, float sum) { return check != check && sum == sum; }
};

// Divides, writes lse and puts O where Place says. Returns which of the warp's rows (one bit each) are to be
// computed again.
template <Config C, class T, class Place>
__device__ inline unsigned finish_rows(const Params& p, const tile::BlockView<T>& view, RowState<C>& rows,
                                       Output<C>& o, Place place, int lane, int warp_row, int first_row,
                                       int first_column) {
  unsigned suspects = 0;
#pragma unroll
  for (int m = 0; m < C.row_tiles; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = warp_row + thread_row(lane, m, h);
      tile::SoftmaxState state = rows.tiles[m].of(h);
      const bool there = first_row + row < view.rows;
      const tile::RowIndex at = view.index(there ? first_row + row : 0);
      const float keep = tile::join_sink(p, at.head, state);
      const float inverse = tile::inverse_sum(state) * keep;
      if (there && lane % 4 == 0 && first_column == 0)
        tile::write_lse(p, view, at,
                        Place::kOptions ? tile::log_sum_exp(p, view, at, state) : tile::log_sum_exp(state));
      float check = 0.0f;
#pragma unroll
      for (int n = 0; n < C.value_dim / 8; ++n) {
        const float x = place.divide(o[m][n][2 * h], keep, state.sum, inverse),
                    y = place.divide(o[m][n][2 * h + 1], keep, state.sum, inverse);
        check = fmaf(x, 0.0f, fmaf(y, 0.0f, check));  // NaN where x or y is not finite
        place.put(row, there, at, n, x, y);
      }
      const unsigned ballot = __ballot_sync(0xffffffffu, there && place.suspect(check, state.sum));
#pragma unroll
      for (int g = 0; g < 8; ++g) {
        if ((ballot >> (4 * g) & 15u) != 0) suspects |= 1u << (16 * m + 8 * h + g);
      }
    }
  __syncwarp();
  return suspects;
}

template <Config C, class T, Rows kRows>
__device__ inline void store_rows(const Params& p, const tile::BlockView<T>& view, const char* staged,
                                  int lane, int warp_row, int first_row, int first_column) {
  const int columns = p.sizes.value_dim - first_column;
  constexpr int kChunks = C.value_dim / 8, kWarpRows = C.row_tiles * 16;
#pragma unroll 2
  for (int n = lane; n < kWarpRows * kChunks; n += 32) {
    const int row = warp_row + n / kChunks, chunk = n % kChunks;
    if (first_row + row >= view.rows || chunk * 8 >= columns) continue;
    T* const out = tile::output_row(p, view, view.index(first_row + row)) + first_column + chunk * 8;
    const uint4 words = *reinterpret_cast<const uint4*>(staged + chunk_offset<C.dim>(row, chunk));
    if constexpr (kRows == Rows::of_16_bytes) {
      *reinterpret_cast<uint4*>(out) = words;
    } else {
      const auto* const elements = reinterpret_cast<const unsigned short*>(&words);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (chunk * 8 + e < columns) reinterpret_cast<unsigned short*>(out)[e] = elements[e];
      }
    }
  }
}

template <Config C, class T, Rows kRows>
__device__ inline void write_rows(const Params& p, const tile::BlockView<T>& view, int pack_index,
                                  RowState<C>& rows, Output<C>& o, char* staged, int first_row,
                                  int first_column) {
  const int thread = ptx::thread_x(), lane = thread % 32,
            warp_row = thread / 32 % C.row_warps * C.row_tiles * 16;
  unsigned suspects =
      finish_rows<C, T>(p, view, rows, o, Staged<C, T, kRows == Rows::of_any_alignment>{staged, lane}, lane,
                        warp_row, first_row, first_column);
  store_rows<C, T, kRows>(p, view, staged, lane, warp_row, first_row, first_column);
  if (suspects == 0) return;
  __syncwarp();
  for (; suspects != 0; suspects &= suspects - 1) {
    tile::careful_row<T>(p, view.batch, pack_index,
                         first_row + warp_row + __ffs(static_cast<int>(suspects)) - 1, first_column);
  }
}

}  // namespace tessera::cuda::sm80
