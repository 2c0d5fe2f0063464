// latent.hpp's consumer over keys of 8 bits, values being their first columns: warps share a tile by columns,
// of every 128 bytes of a key 32 each for S', a block of 128 for O. Each code is widened twice, by one warp
// for each product. Scales as in coded_more.hpp; of the query each warp brings its own columns to f16's
// range.
//
//   a key    [ codes, 4 blocks of 128 ][ 64 codes more, or a tail of 64 elements of the query's type ]
//
// The tail has no scale: its products come on top of those of codes when these have theirs.
#pragma once

#include "cuda/serving/coded_more.hpp"
#include "cuda/serving/latent.hpp"

namespace tessera::cuda::serving {

template <Config C, class Code>
struct CodedLatent : CodedMore<C, Code> {
  static constexpr int kBlocks = 4;  // of codes throughout
  static_assert(C.warps() == 4 && C.columns() == 128 && C.rows == 16 && C.dim == 640);
  using Base = CodedMore<C, Code>;
  using Scores = float[C.keys / 8][4];
  using Base::d, Base::shared, Base::o, Base::lane, Base::warp;

  unsigned q[2 * kBlocks + 1][4];

  __device__ CodedLatent(const CodedParams& params, Shared<C>& memory) : Base(params, memory) {}

  __device__ bool has_tail() const { return d.tail_block >= 0; }

  __device__ void enter(const Task& task) {
    this->now = &task;
    const float key_scale = key_scale_of(d, task);
    const int dim = has_tail() ? d.tail.key_dim : d.problem.sizes.dim;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = task.first_row + lane() / 4 + 8 * r;
      unsigned words[2 * kBlocks + 1][2];
      this->factor[r] =
          key_scale * load_coded_query<Code>(words, d, task, row, dim, [](int k) {
            return k == 2 * kBlocks ? 128 * kBlocks + 16 * warp() : k / 2 * 128 + 32 * warp() + k % 2 * 16;
          });
      if (has_tail()) {
        unsigned last[1][2];
        load_query<unsigned short, true>(last, query_row<unsigned short>(d.problem, task, row),
                                         d.problem.sizes.dim, dim + 16 * warp() + 2 * (lane() % 4),
                                         d.query_pairs != 0);
        words[2 * kBlocks][0] = last[0][0], words[2 * kBlocks][1] = last[0][1];
      }
#pragma unroll
      for (int k = 0; k < 2 * kBlocks + 1; ++k) q[k][r] = words[k][0], q[k][2 + r] = words[k][1];
    }
  }

  __device__ void multiply_codes(Scores& s, unsigned tile) const {
    const tile::FragmentIndex b = tile::ldmatrix_b(lane());
#pragma unroll
    for (int g = 0; g < C.keys / 16; ++g) {
      const unsigned first = tile + chunk_at<C>(16 * g + b.row, b.column + 2 * warp());
#pragma unroll
      for (int k = 0; k < kBlocks; ++k) {
        unsigned codes[4];
        ptx::load_matrix_x4(codes, first + static_cast<unsigned>(k * (C.keys * 128)));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          unsigned even, odd;
          ptx::widen_apart<Code>(codes[i], even, odd);
          ptx::mma_f32<__half>(s[2 * g + i / 2], q[2 * k + i % 2], even, odd);
        }
      }
    }
    if (has_tail()) return;
#pragma unroll
    for (int g = 0; g < C.keys / 32; ++g) {  // a chunk of 32 keys
      unsigned codes[4];
      ptx::load_matrix_x4(codes, tile + chunk_at<C>(32 * g + lane(), 8 * kBlocks + warp()));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        unsigned even, odd;
        ptx::widen_apart<Code>(codes[i], even, odd);
        ptx::mma_f32<__half>(s[4 * g + i], q[2 * kBlocks], even, odd);
      }
    }
  }
  template <class T>
  __device__ void multiply_tail(Scores& s, unsigned tile) const {
    const tile::FragmentIndex b = tile::ldmatrix_b(lane());
#pragma unroll
    for (int g = 0; g < C.keys / 16; ++g) {
      unsigned keys[4];
      ptx::load_matrix_x4(keys, tile + chunk_at<C>(16 * g + b.row, b.column + 2 * warp() + 8 * kBlocks));
      ptx::mma_f32<T>(s[2 * g], q[2 * kBlocks], keys[0], keys[1]);
      ptx::mma_f32<T>(s[2 * g + 1], q[2 * kBlocks], keys[2], keys[3]);
    }
  }

  // As Latent::step.
  __device__ bool step(const Task& task, int t, unsigned n) {
    const int first_key = t * C.keys;
    const bool clears = first_key < task.seen.begin || first_key + C.keys > task.seen.end;
    if (clears) clear_unseen_keys<C>(shared.key(n), first_key, task.seen);
    Scores s;
    tile::clear(s);
    multiply_codes(s, shared.key(n));
    this->scale(s, n);
    if (has_tail()) {
      if (d.mixed.query == QueryKind::bf16) {
        multiply_tail<__nv_bfloat16>(s, shared.key(n));
      } else {
        multiply_tail<__half>(s, shared.key(n));
      }
    }
    add_up<C>(s, shared, n);
    this->change(s, task, first_key);
    unsigned probs[C.keys / 16][4];
    this->soften(probs, s, n);
    this->multiply_value(probs, shared.value(n), 8 * warp());
    return clears;
  }
};

}  // namespace tessera::cuda::serving
