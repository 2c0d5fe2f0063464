// A consumer of up to 16 packed rows: each of its warps multiplies 16 keys of every tile, and keeps a softmax
// and O of its own. Operands are swapped, so that keys and then V's columns are the 16 rows of a product, and
// 8 packed rows its columns:
//
//   S' = K Q'    16 keys x 8 rows        P' = exp2(S' - row max)        O' += V' P'    16 columns x 8 rows
//
//   a thread has, of a product's result x:   x[e]   row (of the product) lane / 4 + e / 2 * 8,
//                                                   packed row 2 (lane % 4) + e % 2
//
// With more than 8 packed rows (two halves) the same is done a second time for the others.
//
//   a piece's end: row max, sum and O of all warps meet in the slot of the piece's last tile, which is
//   released
//                 after that; then each warp has all rows of a part of the columns
#pragma once

#include "cuda/ptx/matrix.hpp"
#include "cuda/serving/finish.hpp"
#include "cuda/serving/query.hpp"
#include "cuda/serving/scores.hpp"
#include "cuda/tile/fragments.hpp"

namespace tessera::cuda::serving {

enum NamedBarrier : int { kConsumers = 1 };

template <Config C>
__device__ inline void meet() {
  ptx::named_sync(kConsumers, C.consumers());
}

// kHalves: of 8 packed rows, 1 or 2.
template <Config C, class T, bool kOptions, int kHalves>
struct Few {
  static constexpr int kSteps = C.dim / 16, kColumns = C.value_dim;

  // Of 8 packed rows.
  struct Half {
    unsigned q[kSteps][2];
    float o[kColumns / 16][4];
    float row_max[2], sum[2];  // of the thread's rows; sums of its keys alone
  };

  const ServingParams& d;
  Shared<C>& shared;
  Half half[kHalves];
  tile::RowState rows;  // when a piece has ended

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }

  __device__ void enter(const Task& task) {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      const T* const row = query_row<T>(d.problem, task, task.first_row + 8 * h + lane() / 4);
      load_query<T, kOptions>(half[h].q, row, d.problem.sizes.dim, 2 * (lane() % 4), d.query_pairs != 0);
    }
  }
  __device__ void start_piece() {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      tile::clear(half[h].o);
#pragma unroll
      for (int r = 0; r < 2; ++r) half[h].row_max[r] = tile::kLowest, half[h].sum[r] = 0.0f;
    }
  }

  // Tensor cores cut off what an accumulator cannot hold, always towards zero; with few rows that would be
  // most of what lse is off by. So sums of two steps each are added by plain additions.
  __device__ static void multiply_key(float (&s)[4], const Half& h, unsigned first) {
    float part[kSteps / 2][4] = {};
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      unsigned key[4];
      ptx::load_matrix_x4(key, step_at<C>(first, k));
      ptx::mma_f32<T>(part[k / 2], key, h.q[k][0], h.q[k][1]);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[e] = part[0][e];
#pragma unroll
      for (int k = 1; k < kSteps / 2; ++k) s[e] += part[k][e];
    }
  }
  __device__ static void multiply_value(Half& h, const unsigned (&probs)[2], unsigned first) {
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      unsigned value[4];
      ptx::load_matrix_x4_transposed(value, step_at<C>(first, n));
      ptx::mma_f32<T>(h.o[n], value, probs[0], probs[1]);
    }
  }
  // P of the thread's keys and rows, rounded, as the second operand: that of keys 2 (lane % 4) and the next,
  // and of those 8 behind them, for row lane / 4.
  __device__ static void transpose(unsigned (&to)[2], const float (&x)[4]) {
    const int from = lane() % 4 * 8 + lane() / 8;
    const unsigned pick = lane() / 4 % 2 == 0 ? 0x5410u : 0x7632u;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned pair = tile::pack<T>(x[2 * i], x[2 * i + 1]);
      to[i] =
          __byte_perm(__shfl_sync(0xffffffffu, pair, from), __shfl_sync(0xffffffffu, pair, from + 4), pick);
    }
  }
  // Over the eight lanes that have keys of the same rows.
  __device__ static float largest(float x, float y) {
    x = fmaxf(x, y);
#pragma unroll
    for (int step = 4; step <= 16; step *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
  }

  // Scores to P. O is rescaled where a row's largest score is more than `slack` above its row max so far;
  // each row decides for itself.
  __device__ static void soften(Half& h, float (&s)[4], float factor, float slack) {
    float shrink[2];
    bool grew = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float most = largest(s[r], s[2 + r]) * factor;
      const bool mine = most - h.row_max[r] > slack;
      shrink[r] = mine ? ptx::exp2_approx(h.row_max[r] - most) : 1.0f;
      h.row_max[r] = mine ? most : h.row_max[r];
      grew |= mine;
    }
    if (__any_sync(0xffffffffu, grew)) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        h.sum[r] *= shrink[r];
#pragma unroll
        for (int n = 0; n < kColumns / 16; ++n) h.o[n][r] *= shrink[r], h.o[n][2 + r] *= shrink[r];
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) s[e] = ptx::exp2_approx(fmaf(s[e], factor, -h.row_max[e % 2]));
#pragma unroll
    for (int r = 0; r < 2; ++r) h.sum[r] += s[r] + s[2 + r];
  }

  // Values of keys that no row sees may be anything, or not there: 0 times that must be 0.
  __device__ void clear_unseen(unsigned tile, int first_key, const tile::KeyRange& seen) const {
    const int row = lane() / 2, key = first_key + row;
    if (key < seen.begin || key >= seen.end) {
#pragma unroll 1
      for (int chunk = lane() % 2; chunk < kColumns / C.chunk(); chunk += 2)
        ptx::store_shared_16(tile + chunk_at<C>(16 * warp() + row, chunk), make_uint4(0, 0, 0, 0));
    }
    __syncwarp();
  }

  // True if it has left something in the slot that TMA's next copy has to be kept behind.
  __device__ bool step(const Task& task, int t, unsigned n) {
    const int first_key = t * C.keys + 16 * warp();
    if (first_key >= task.seen.end || first_key + 16 <= task.seen.begin) return false;
    const bool clears = first_key < task.seen.begin || first_key + 16 > task.seen.end;
    if (clears) clear_unseen(shared.value(n), first_key, task.seen);
    const tile::FragmentIndex a = tile::ldmatrix_a(lane()), b = tile::ldmatrix_b(lane());
    const unsigned key = shared.key(n) + chunk_at<C>(16 * warp() + a.row, a.column);
    const unsigned value = shared.value(n) + chunk_at<C>(16 * warp() + b.row, b.column);
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      float s[4];
      multiply_key(s, half[h], key);
      ThreadScores<T, kOptions>{d.problem, task}.change(s, first_key, first_key + lane() / 4,
                                                        task.first_row + 8 * h + 2 * (lane() % 4));
      float factor = kOptions ? 1.0f : d.problem.scoring.scale_log2;
      if (d.problem.output.f32 != 0) factor = scale_first(s, factor);
      soften(half[h], s, factor, slack_of(d.problem));
      unsigned probs[2];
      transpose(probs, s);
      multiply_value(half[h], probs, value);
    }
    return clears;
  }

  // O of all warps in a slot: column c of row r of warp w. Groups of 8 columns are swizzled by the row's
  // number, so that the lanes that store together do not meet: within 32 columns, which is all that is worked
  // out.
  __device__ static float* line_of(float* all, int w, int r) { return all + (w * 16 + r) * kColumns; }
  __device__ static int swizzled(int r, int group) { return (group ^ (r / 2 % 4)) * 8; }
  __device__ void show(float* all) const {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      const int row = 8 * h + 2 * (lane() % 4);
      float* const line = line_of(all, warp(), row) + lane() / 4;
#pragma unroll
      for (int group = 0; group < 4; ++group) {
        float* const to = line + swizzled(row, group);
#pragma unroll
        for (int g = group / 2; g < kColumns / 16; g += 2)
#pragma unroll
          for (int r = 0; r < 2; ++r) to[g / 2 * 32 + r * kColumns] = half[h].o[g][group % 2 * 2 + r];
      }
    }
  }

  // Of codes, the same of one half, whose 8 rows are all that a warp leaves: a slot has no room for more.
  // Columns are where the products left them (coded_few.hpp).
  __device__ void show_pairs(float* all, const Half& h) const {
    const int row = 2 * (lane() % 4), pair = lane() / 4;
    float* const line = all + (warp() * 8 + row) * kColumns + pair % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float* const to = line + swizzled(row, 2 * i + pair / 4);
#pragma unroll
      for (int n = i; n < kColumns / 16; n += 2)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          *reinterpret_cast<float2*>(to + n / 2 * 32 + r * kColumns) = make_float2(h.o[n][r], h.o[n][2 + r]);
    }
  }

  // Behind it, `out` and `rows` are of all warps' keys; the slot of the piece's last tile, n, is free for it.
  __device__ void end_piece(Output<C>& out, unsigned n, bool some) {
    constexpr int kAtOnce = C.coded() ? 1 : kHalves, kLines = C.coded() ? 8 : 16;
    tile::clear(out);
    rows = tile::empty_rows();
    if (!some) return;
#pragma unroll
    for (int from = 0; from < kHalves; from += kAtOnce) {
      meet<C>();  // all are done with the slot, and with what was left at the end of the piece before
      float* const all = reinterpret_cast<float*>(shared.ring[n % C.stages]);
#pragma unroll
      for (int h = from; h < from + kAtOnce; ++h)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
#pragma unroll
          for (int step = 4; step <= 16; step *= 2)
            half[h].sum[r] += __shfl_xor_sync(0xffffffffu, half[h].sum[r], step);
          if (lane() < 4)
            shared.state[warp()][8 * h + 2 * lane() + r] = make_float2(half[h].row_max[r], half[h].sum[r]);
        }
      if constexpr (C.coded()) {
        show_pairs(all, half[from]);
      } else {
        show(all);
      }
      meet<C>();
#pragma unroll
      for (int r = from; r < from + kAtOnce; ++r) {
        const int row = lane() / 4 + 8 * r;
        float2 state[C.warps()];
        float row_max = tile::kLowest, sum = 0.0f;
#pragma unroll
        for (int w = 0; w < C.warps(); ++w) {
          state[w] = shared.state[w][row];
          row_max = fmaxf(row_max, state[w].x);
        }
        const float* line =
            line_of(all, 0, C.coded() ? row - 8 * r : row) + warp() * C.columns() + 2 * (lane() % 4);
#pragma unroll
        for (int w = 0; w < C.warps(); ++w, line += kLines * kColumns) {
          const float keep = ptx::exp2_approx(state[w].x - row_max);
          sum = fmaf(state[w].y, keep, sum);
#pragma unroll
          for (int g = 0; g < C.columns() / 8; ++g) {
            const int first = warp() * C.columns() / 8 % 4;  // where a warp has less than 32 columns
            const float2 x = *reinterpret_cast<const float2*>(line + g / 4 * 32 +
                                                              (swizzled(row, first + g % 4) - first * 8));
            out[g][2 * r] = fmaf(x.x, keep, out[g][2 * r]);
            out[g][2 * r + 1] = fmaf(x.y, keep, out[g][2 * r + 1]);
          }
        }
        rows.row_max[r] = row_max;
        rows.sum[r] = sum;
      }
    }
  }
};

}  // namespace tessera::cuda::serving
