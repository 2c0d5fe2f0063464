// more.hpp's consumer over keys and values of 8 bits, by mma.sync: each warp widens all of a tile.
//
//   O[2 j], O[2 j + 1]   even and odd columns of 16 j ... 16 j + 15 while products are added up; when a piece
//                        has ended a thread has four neighbours of a row (Spot)
#pragma once

#include "cuda/serving/coded.hpp"
#include "cuda/serving/more.hpp"

namespace tessera::cuda::serving {

template <Config C, class Code>
struct CodedMore {
  static constexpr int kGroups = C.keys / 8;

  const CodedParams& d;
  Shared<C>& shared;
  unsigned q[C.dim / 16][4];
  float factor[2];  // of products of codes, for the thread's rows
  Output<C> o;
  tile::RowState rows;
  ShiftRange range;
  const Task* now;

  __device__ CodedMore(const CodedParams& params, Shared<C>& memory) : d(params), shared(memory) {}

  __device__ static int lane() { return thread<C>() % 32; }
  __device__ static int warp() { return thread<C>() / 32; }
  __device__ static int row() { return (C.latent ? 0 : 16 * warp()) + lane() / 4; }

  __device__ void enter(const Task& task) {
    now = &task;
    const float key_scale = key_scale_of(d, task);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      unsigned words[C.dim / 16][2];
      factor[r] =
          load_coded_query<Code>(words, d, task, task.first_row + row() + 8 * r) * key_scale * plain_scale();
#pragma unroll
      for (int k = 0; k < C.dim / 16; ++k) q[k][r] = words[k][0], q[k][2 + r] = words[k][1];
    }
  }
  // Where scores are only scaled, products of codes are by all at once; but a tail's are added in between.
  __device__ float plain_scale() const {
    return !C.latent && plain(d.problem) ? d.problem.scoring.scale_log2 : 1.0f;
  }
  __device__ void start_piece() {
    rows = tile::empty_rows();
    range = {};
    tile::clear(o);
  }

  // Keys that no row sees may not be there; 16 of them are as many as a box of TMA's has at least.
  __device__ void multiply_key(float (&s)[kGroups][4], unsigned tile, int first_key,
                               const tile::KeyRange& seen) const {
    const tile::FragmentIndex b = tile::ldmatrix_b(lane());
    tile::clear(s);
#pragma unroll
    for (int g = 0; g < C.keys / 16; ++g) {
      if (first_key + 16 * g >= seen.end || first_key + 16 * g + 16 <= seen.begin) continue;
      const unsigned first = tile + chunk_at<C>(16 * g + b.row, b.column);
#pragma unroll
      for (int k = 0; k < C.dim / 32; ++k) {
        unsigned codes[4];
        ptx::load_matrix_x4(codes, step_at<C>(first, k));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          unsigned even, odd;
          ptx::widen_apart<Code>(codes[i], even, odd);
          ptx::mma_f32<__half>(s[2 * g + i / 2], q[2 * k + i % 2], even, odd);
        }
      }
    }
  }
  // Of the columns from chunk `from` on.
  __device__ void multiply_value(const unsigned (&probs)[C.keys / 16][4], unsigned tile, int from = 0) {
    const tile::FragmentIndex b = tile::ldmatrix_b_transposed(lane());
#pragma unroll
    for (int g = 0; g < C.keys / 16; ++g) {
      const unsigned first = tile + chunk_at<C>(16 * g + b.row, b.column + from);
#pragma unroll
      for (int n = 0; n < C.columns() / 32; ++n) {
        unsigned codes[4];
        ptx::load_matrix_x4_transposed(codes, step_at<C>(first, n));
#pragma unroll
        for (int i = 0; i < 2; ++i) {  // of 16 columns
          unsigned even[2], odd[2];
          ptx::widen_apart<Code>(codes[2 * i], even[0], odd[0]);
          ptx::widen_apart<Code>(codes[2 * i + 1], even[1], odd[1]);
          ptx::mma_f32<__half>(o[4 * n + 2 * i], probs[g], even[0], even[1]);
          ptx::mma_f32<__half>(o[4 * n + 2 * i + 1], probs[g], odd[0], odd[1]);
        }
      }
    }
  }

  // The scales of keys 8 n + 2 (lane % 4) and the next.
  __device__ static float2 pair_of(const float* scales, int n) {
    return *reinterpret_cast<const float2*>(scales + 8 * n + 2 * (lane() % 4));
  }
  // Products of codes to dot products, or to exponents of 2.
  __device__ void scale(float (&s)[kGroups][4], unsigned n) const {
    tile::scale_rows(s, factor);
    if (d.key_by_key != 0) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const float2 scale = pair_of(shared.scales.key[n % C.stages], g);
#pragma unroll
        for (int e = 0; e < 4; ++e) s[g][e] *= e % 2 == 0 ? scale.x : scale.y;
      }
    }
  }
  // Those to exponents of 2.
  __device__ void change(float (&s)[kGroups][4], const Task& task, int first_key) const {
    const int key = first_key + 2 * (lane() % 4);
    if (plain(d.problem)) {
      if constexpr (C.latent) tile::scale_all(s, d.problem.scoring.scale_log2);
      WarpRows<__half, false>{d.problem, task, task.first_row + row()}.change(s, first_key, key);
    } else {
      WarpRows<__half, true>{d.problem, task, task.first_row + row()}.change(s, first_key, key);
      tile::scale_all(s, d.problem.units.factor);
    }
  }
  // Exponents to P, times the values' scales where those differ from key to key; of slot n.
  __device__ void soften(unsigned (&probs)[C.keys / 16][4], float (&s)[kGroups][4], unsigned n) {
    if (d.value_by_key != 0) {
      soften_by_key<true>(probs, s, shared.scales.value[n % C.stages]);
    } else {
      soften_by_key<false>(probs, s, nullptr);
    }
  }
  template <bool kByKey>
  __device__ void soften_by_key(unsigned (&probs)[C.keys / 16][4], float (&s)[kGroups][4],
                                const float* scales) {
    const auto value_of = [&](int g, int e) {
      if constexpr (!kByKey) return ValueScale();
      const float2 pair = pair_of(scales, g);
      return ValueScale(e % 2 == 0 ? pair.x : pair.y);
    };
    float largest[2] = {tile::kLowest, tile::kLowest};
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const ValueScale value = value_of(g, e);
        if constexpr (kByKey) range.note(value);
#pragma unroll
        for (int r = 0; r < 2; ++r)
          largest[r] = fmaxf(largest[r], kByKey ? s[g][2 * r + e] + value.shift : s[g][2 * r + e]);
      }
    bool grew[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = tile::quad_max(largest[r]);
      grew[r] = largest[r] - rows.row_max[r] > slack_of(d.problem);
    }
    if (__any_sync(0xffffffffu, grew[0] || grew[1])) {
      float shrink[2];
#pragma unroll
      for (int r = 0; r < 2; ++r)
        shrink[r] = tile::move_row_max(rows, r, grew[r] ? largest[r] : rows.row_max[r]);
      tile::scale_rows(o, shrink);
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float x = ptx::exp2_approx(s[g][2 * r] - rows.row_max[r]);
        const float y = ptx::exp2_approx(s[g][2 * r + 1] - rows.row_max[r]);
        rows.sum[r] += x + y;
        probs[g / 2][g % 2 * 2 + r] =
            kByKey ? tile::pack<__half>(x * value_of(g, 0).factor, y * value_of(g, 1).factor)
                   : tile::pack<__half>(x, y);
      }
  }

  __device__ bool step(const Task& task, int t, unsigned n) {
    const int first_key = t * C.keys;
    float s[kGroups][4];
    multiply_key(s, shared.key(n), first_key, task.seen);
    scale(s, n);
    change(s, task, first_key);
    unsigned probs[C.keys / 16][4];
    soften(probs, s, n);
    const bool clears = first_key < task.seen.begin || first_key + C.keys > task.seen.end;
    if (clears) More<C, __half, true>::clear_unseen(shared.value(n), first_key, task.seen);
    multiply_value(probs, shared.value(n));
    return clears;
  }

  __device__ void end_piece() {
    tile::join_sums(rows);
    if (d.value_by_key != 0 && range.too_wide()) o[0][0] = o[0][2] = __int_as_float(0x7fffffff);
    if constexpr (Spot<C>::kFours) {
#pragma unroll
      for (int n = 0; n < C.columns() / 8; n += 2)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float odd = o[n + 1][2 * r];
          o[n + 1][2 * r] = o[n][2 * r + 1];
          o[n][2 * r + 1] = odd;
        }
    }
    const ColumnScales scales(d, *now);
    if (scales.first == nullptr) return;
    if (scales.channel == 0) {
      const float all[2] = {*scales.first, *scales.first};
      tile::scale_rows(o, all);
      return;
    }
    const Spot<C> spot;
#pragma unroll
    for (int n = 0; n < C.columns() / 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float scale = scales.of(spot.column() + Spot<C>::behind(n) + e);
#pragma unroll
        for (int r = 0; r < 2; ++r) o[n][2 * r + e] *= scale;
      }
  }
};

}  // namespace tessera::cuda::serving
