// few.hpp's consumer over keys and values of 8 bits. Only the products differ, and what scales do to their
// results: a lane's ldmatrix moves 16 codes of a row.
//
//   K    a register has four neighbouring codes of a key: two k steps' worth of a row of the product
//   V'   transposed, it has two neighbouring columns of two keys: even bytes are rows 0 ... 7 of the product,
//        odd ones rows 8 ... 15, so that product row i is column 2 (i % 8) + i / 8 of 16
#pragma once

#include "cuda/serving/coded.hpp"

namespace tessera::cuda::serving {

template <Config C, class Code, int kHalves>
struct CodedFew : Few<C, __half, true, kHalves> {
  using Base = Few<C, __half, true, kHalves>;
  using Half = typename Base::Half;
  using Base::half;
  using Base::kColumns;
  using Base::kSteps;
  using Base::lane;
  using Base::shared;
  using Base::warp;

  const CodedParams& c;
  float factor[kHalves][2];  // of dot products, for the thread's rows
  ShiftRange range;
  const Task* now;

  __device__ CodedFew(const CodedParams& d, Shared<C>& memory) : Base{d, memory}, c(d) {}

  __device__ void enter(const Task& task) {
    now = &task;
    const float key_scale = key_scale_of(c, task);
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      const float of_row =
          load_coded_query<Code>(half[h].q, c, task, task.first_row + 8 * h + lane() / 4) * key_scale;
#pragma unroll
      for (int r = 0; r < 2; ++r) factor[h][r] = __shfl_sync(0xffffffffu, of_row, (2 * (lane() % 4) + r) * 4);
    }
  }
  __device__ void start_piece() {
    Base::start_piece();
    range = {};
  }

  // See Few::multiply_key for why sums are added outside of the tensor cores.
  __device__ static void multiply_key(float (&s)[4], const Half& h, unsigned first) {
    float part[kSteps / 2][4] = {};
#pragma unroll
    for (int k = 0; k < kSteps / 2; ++k) {
      unsigned codes[4], key[2][4];
      ptx::load_matrix_x4(codes, step_at<C>(first, k));
#pragma unroll
      for (int i = 0; i < 4; ++i) ptx::widen_apart<Code>(codes[i], key[i / 2][i % 2], key[i / 2][i % 2 + 2]);
#pragma unroll
      for (int i = 0; i < 2; ++i) ptx::mma_f32<__half>(part[k], key[i], h.q[2 * k + i][0], h.q[2 * k + i][1]);
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
    for (int n = 0; n < kColumns / 32; ++n) {
      unsigned codes[4], value[2][4];
      ptx::load_matrix_x4_transposed(codes, step_at<C>(first, n));
#pragma unroll
      for (int i = 0; i < 4; ++i)
        ptx::widen_apart<Code>(codes[i], value[i / 2][i % 2 * 2], value[i / 2][i % 2 * 2 + 1]);
#pragma unroll
      for (int i = 0; i < 2; ++i) ptx::mma_f32<__half>(h.o[2 * n + i], value[i], probs[0], probs[1]);
    }
  }

  // Dot products to exponents of 2. `key`: the thread's first, the other is 8 behind it.
  __device__ void change(float (&s)[4], int h, const float (&keys)[2], const Task& task,
                         int first_key) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) s[e] *= factor[h][e % 2] * keys[e / 2];
    const int key = first_key + lane() / 4, row = task.first_row + 8 * h + 2 * (lane() % 4);
    if (plain(c.problem)) {
      scale_first(s, c.problem.scoring.scale_log2);
      ThreadScores<__half, false>{c.problem, task}.change(s, first_key, key, row);
    } else {
      ThreadScores<__half, true>{c.problem, task}.change(s, first_key, key, row);
    }
  }
  // As Few::soften, with the values' scales, for the keys of some tiles.
  template <int kTiles>
  __device__ static void soften(Half& h, float (&s)[kTiles][4], const ValueScale (&values)[kTiles][2],
                                float slack) {
    float shrink[2];
    bool grew = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = tile::kLowest;
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
        most = fmaxf(most, fmaxf(s[i][r] + values[i][0].shift, s[i][2 + r] + values[i][1].shift));
      most = Base::largest(most, most);
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
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[i][e] = ptx::exp2_approx(s[i][e] - h.row_max[e % 2]);
#pragma unroll
      for (int r = 0; r < 2; ++r) h.sum[r] += s[i][r] + s[i][2 + r];
#pragma unroll
      for (int e = 0; e < 4; ++e) s[i][e] *= values[i][e / 2].factor;
    }
  }

  // The warp's keys of tiles t ..., in slots n ...
  template <int kTiles>
  __device__ void multiply(const Task& task, int t, unsigned n) {
    const tile::FragmentIndex a = tile::ldmatrix_a(lane());
    const unsigned at = chunk_at<C>(16 * warp() + a.row, a.column);
    float keys[kTiles][2];
    ValueScale values[kTiles][2];
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int key = 16 * warp() + lane() / 4 + 8 * j;
        keys[i][j] = c.key_by_key != 0 ? shared.scales.key[(n + i) % C.stages][key] : 1.0f;
        // Said here once more: nvcc 13.0 makes zeros of some members' initial values in an array of arrays.
        values[i][j] = ValueScale();
        if (c.value_by_key != 0) {
          values[i][j] = ValueScale(shared.scales.value[(n + i) % C.stages][key]);
          range.note(values[i][j]);
        }
      }
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      float s[kTiles][4];
#pragma unroll
      for (int i = 0; i < kTiles; ++i) multiply_key(s[i], half[h], shared.key(n + i) + at);
#pragma unroll
      for (int i = 0; i < kTiles; ++i) change(s[i], h, keys[i], task, (t + i) * C.keys + 16 * warp());
      soften(half[h], s, values, slack_of(c.problem));
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        unsigned probs[2];
        Base::transpose(probs, s[i]);
        multiply_value(half[h], probs, shared.value(n + i) + at);
      }
    }
  }

  __device__ bool step(const Task& task, int t, unsigned n) {
    const int first_key = t * C.keys + 16 * warp();
    if (first_key >= task.seen.end || first_key + 16 <= task.seen.begin) return false;
    const bool clears = first_key < task.seen.begin || first_key + 16 > task.seen.end;
    if (clears) Base::clear_unseen(shared.value(n), first_key, task.seen);
    multiply<1>(task, t, n);
    return clears;
  }
  // Two tiles at once, where all of the warp's keys are seen: steps of one wait for each other longer than
  // reading its codes takes.
  __device__ static bool sees_both(const Task& task, int t) {
    const int first_key = t * C.keys + 16 * warp();
    return first_key >= task.seen.begin && first_key + C.keys + 16 <= task.seen.end;
  }
  __device__ void step_two(const Task& task, int t, unsigned n) { multiply<2>(task, t, n); }

  __device__ void end_piece(Output<C>& out, unsigned n, bool some) {
    if (c.value_by_key != 0 && range.too_wide()) spoil();
    Base::end_piece(out, n, some);
    const ColumnScales scales(c, *now);
    const int column = warp() * C.columns() + 2 * (lane() % 4);
#pragma unroll
    for (int g = 0; g < C.columns() / 8; ++g)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float scale = scales.of(column + 8 * g + i);
#pragma unroll
        for (int r = 0; r < kHalves; ++r) out[g][2 * r + i] *= scale;
      }
  }
  // Rows are to be computed again.
  __device__ void spoil() {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) half[h].o[0][0] = half[h].o[0][1] = __int_as_float(0x7fffffff);
  }
};

}  // namespace tessera::cuda::serving
