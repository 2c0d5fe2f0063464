// A consumer of 16 packed rows whose values are the first columns of their keys, as latent attention has
// them: 576 dimensions, of which 512 are values. A tile of K is read once and used twice. No warp has
// registers for O of 16 rows and 512 columns, so the four share each tile by columns, for both products:
//
//   S' = Q K'      each warp: all keys, of every 64 dimensions 16; a quarter of every sum
//   S  = S'0 + S'1 + S'2 + S'3    through shared memory, in this order: then all warps have all of S
//   P  = exp2(S - row max)        by each warp for itself, so that P is where the next product wants it
//   O += P V       each warp: all keys, 128 columns
//
// Warps meet once a tile, between S' and S; S' has room for two tiles, so none waits for those that still
// read the tile before. The usual way, keys shared out among warps, would have them meet twice, for the row
// max and for P, and each would read all of Q from shared memory for every tile. Sums of 576 products in
// parts of 144 are also what keeps them accurate: see multiply_key in few.hpp.
//
// Keys in two tensors lie in a tile as those of one do: the tail is a block of 64 columns.
#pragma once

#include "cuda/serving/more.hpp"

namespace tessera::cuda::serving {

// Keys that no row sees may be anything, or not there, and they are values too: 0 times that must be 0.
template <Config C>
__device__ inline void clear_unseen_keys(unsigned tile, int first_key, const tile::KeyRange& seen) {
  constexpr int kChunks = C.dim / C.chunk();
#pragma unroll 1
  for (int n = static_cast<int>(threadIdx.x); n < C.keys * kChunks; n += C.consumers()) {
    const int key = first_key + n / kChunks;
    if (key < seen.begin || key >= seen.end)
      ptx::store_shared_16(tile + chunk_at<C>(n / kChunks, n % kChunks), make_uint4(0, 0, 0, 0));
  }
  meet<C>();
}
// All lanes of a number have the same scores of all warps' products. Of slot n.
template <Config C>
__device__ inline void add_up(float (&s)[C.keys / 8][4], Shared<C>& shared, unsigned n) {
  using Shown = float4[4][C.keys / 8][32];  // S' of every warp, group of keys and lane
  const int lane = thread<C>() % 32, warp = thread<C>() / 32;
  Shown& shown = reinterpret_cast<Shown*>(shared.sum + C.sum_bytes() / 4)[n % 2];
#pragma unroll
  for (int g = 0; g < C.keys / 8; ++g) shown[warp][g][lane] = make_float4(s[g][0], s[g][1], s[g][2], s[g][3]);
  meet<C>();
  tile::clear(s);
#pragma unroll 1
  for (int w = 0; w < 4; ++w)
#pragma unroll
    for (int g = 0; g < C.keys / 8; ++g) {
      const float4 x = shown[w][g][lane];
      s[g][0] += x.x, s[g][1] += x.y, s[g][2] += x.z, s[g][3] += x.w;
    }
}

template <Config C, class T, bool kOptions>
struct Latent {
  static constexpr int kBlocks = C.dim / 64;  // of columns, as they lie in a tile
  static_assert(C.warps() == 4 && C.columns() == 128 && C.rows == 16);
  using Scores = float[C.keys / 8][4];

  const ServingParams& d;
  Shared<C>& shared;
  unsigned q[kBlocks][4];
  Output<C> o;
  tile::RowState rows;  // of all keys, the same in every warp

  __device__ static int lane() { return thread<C>() % 32; }
  __device__ static int warp() { return thread<C>() / 32; }

  __device__ void enter(const Task& task) {
    load_query_rows<T, kOptions, 64>(q, d, task, lane() / 4, 16 * warp() + 2 * (lane() % 4));
  }
  __device__ void start_piece() {
    rows = tile::empty_rows();
    tile::clear(o);
  }

  // Of every 64 dimensions the warp's 16.
  __device__ void multiply_key(Scores& s, unsigned tile) const {
    const tile::FragmentIndex b = tile::ldmatrix_b(lane());
    tile::clear(s);
#pragma unroll
    for (int g = 0; g < C.keys / 16; ++g) {
      const unsigned first = tile + chunk_at<C>(16 * g + b.row, b.column + 2 * warp());
#pragma unroll
      for (int k = 0; k < kBlocks; ++k) {
        unsigned keys[4];
        ptx::load_matrix_x4(keys, first + static_cast<unsigned>(k * (C.keys * 128)));
        ptx::mma_f32<T>(s[2 * g], q[k], keys[0], keys[1]);
        ptx::mma_f32<T>(s[2 * g + 1], q[k], keys[2], keys[3]);
      }
    }
  }
  // True if it has left something in the slot that TMA's next copy has to be kept behind.
  __device__ bool step(const Task& task, int t, unsigned n) {
    const int first_key = t * C.keys;
    const bool clears = first_key < task.seen.begin || first_key + C.keys > task.seen.end;
    if (clears) clear_unseen_keys<C>(shared.key(n), first_key, task.seen);
    Scores s;
    multiply_key(s, shared.key(n));
    add_up<C>(s, shared, n);
    const WarpRows<T, kOptions> mine{d.problem, task, task.first_row + lane() / 4};
    mine.change(s, first_key, first_key + 2 * (lane() % 4));
    unsigned probs[C.keys / 16][4];
    soften<T>(probs, s, rows, o, Rules<kOptions>::factor(d.problem), d.problem);
    WarpProducts<C, T>::value(o, probs, shared.value(n), C.columns() / 8 * warp());
    return clears;
  }
  __device__ void end_piece() { tile::join_sums(rows); }
};

}  // namespace tessera::cuda::serving
