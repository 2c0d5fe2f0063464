// What rungs 2 to 4 share: 32 query rows against 32 keys at a time, four neighbouring threads (a quad) to a
// row.
//
//             keys 0 1 2 3 4 5 6 7 ...              pieces of V: 0 1 2 3 4 5 6 7 ...
//   scores    part 0 1 2 3 0 1 2 3 ...     output     part       0 1 2 3 0 1 2 3 ...
//
// Everything of a row but its tiles stays in its quad's registers: 8 scores a thread, and a quarter of the
// output. A piece is what one load moves, a word or 16 bytes; a Layout says where a tile keeps its pieces.
#pragma once

#include "cuda/ladder/block.hpp"
#include "cuda/ptx/global_store.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/tile/element.hpp"
#include "cuda/tile/quad.hpp"

namespace tessera::cuda::ladder {

struct Quads {
  static constexpr int kRows = 32, kKeys = 32, kThreads = 4 * kRows;
  static constexpr int kMyKeys = kKeys / 4;  // key 4 * i + part is score i of a thread
};

// Of rungs 3 and 4.
struct TwoStageShape {
  static constexpr int kRows = Quads::kRows, kThreads = Quads::kThreads;
  static constexpr int shared_bytes(int dim) { return 5 * Quads::kRows * dim * 2; }  // Q, and K and V twice
};

template <class T>
using QuadBlock = Block<T, Quads::kRows, Quads::kKeys>;

__device__ inline int quad_row() { return static_cast<int>(ptx::opaque(threadIdx.x) / 4); }
__device__ inline int quad_part() { return static_cast<int>(ptx::opaque(threadIdx.x) % 4); }

// Scores to P. state.sum is the thread's own part; returns the factor for what was summed so far.
__device__ inline float quad_softmax(float (&x)[Quads::kMyKeys], tile::SoftmaxState& state) {
  float largest = x[0];
#pragma unroll
  for (int i = 1; i < Quads::kMyKeys; ++i) largest = fmaxf(largest, x[i]);
  const float keep = tile::raise_row_max(state, tile::quad_max(largest));
#pragma unroll
  for (int i = 0; i < Quads::kMyKeys; ++i) {
    x[i] = ptx::exp2_approx(x[i] - state.row_max);
    state.sum += x[i];
  }
  return keep;
}

// Dot products to scores: -inf for keys that the row does not see. key0 is the thread's first key.
__device__ inline void quad_scores(float (&x)[Quads::kMyKeys], float scale_log2, bool some_hidden,
                                   const tile::Band& band, int query, int key0) {
#pragma unroll
  for (int i = 0; i < Quads::kMyKeys; ++i) x[i] *= scale_log2;
  if (!some_hidden) return;
#pragma unroll
  for (int i = 0; i < Quads::kMyKeys; ++i) {
    if (!band.visible(query, key0 + 4 * i)) x[i] = tile::minus_infinity();
  }
}

// P = 0 belongs to a key that must add nothing even if its value is NaN or inf: then 0 * value will
// not do. Few tiles have one; true if this warp's does.
__device__ inline bool any_zero(const float (&probs)[Quads::kMyKeys]) {
  bool zero = false;
#pragma unroll
  for (int i = 0; i < Quads::kMyKeys; ++i) zero |= probs[i] == 0.0f;
  return __any_sync(0xffffffffu, zero) != 0;
}

__device__ inline unsigned word_of(unsigned piece, int) { return piece; }
__device__ inline unsigned word_of(const uint4& piece, int i) {
  return i == 0 ? piece.x : i == 1 ? piece.y : i == 2 ? piece.z : piece.w;
}

// A thread's share of one query row: every fourth piece of the output, as floats.
template <class Layout>
struct QuadRow {
  static constexpr int kWords = sizeof(typename Layout::Piece) / 4;
  static constexpr int kMyPieces = Layout::kPieces / 4;
  tile::SoftmaxState state = tile::empty_softmax();
  float acc[kMyPieces][2 * kWords] = {};
};

template <class T, class Layout>
__device__ inline void dot_products(float (&dot)[Quads::kMyKeys], const typename Layout::Piece* query,
                                    const typename Layout::Piece* key) {
  const int row = quad_row(), part = quad_part();
#pragma unroll
  for (int i = 0; i < Quads::kMyKeys; ++i) dot[i] = 0.0f;
    // One turn of the swizzle is unrolled, so that every address in it is a constant from its start; all of
    // them unrolled is slower at head dim 128, and takes much longer to compile.
#pragma unroll 1
  for (int turn = 0; turn < Layout::kPieces; turn += Layout::kTurn) {
#pragma unroll
    for (int c = 0; c < Layout::kTurn; ++c) {
      const typename Layout::Piece q = query[turn + Layout::at(row / 4, row % 4, c / 4, c % 4)];
#pragma unroll
      for (int i = 0; i < Quads::kMyKeys; ++i) {
        const typename Layout::Piece k = key[turn + Layout::at(i, part, c / 4, c % 4)];
#pragma unroll
        for (int w = 0; w < QuadRow<Layout>::kWords; ++w) {
          const float2 a = tile::unpack<T>(word_of(q, w)), b = tile::unpack<T>(word_of(k, w));
          dot[i] = fmaf(a.x, b.x, dot[i]);
          dot[i] = fmaf(a.y, b.y, dot[i]);
        }
      }
    }
  }
}

// Adds P V of all 32 keys. Their P come from the four threads of the quad in turn.
template <class T, class Layout, bool kSkipZeros>
__device__ inline void add_values(QuadRow<Layout>& mine, const float (&probs)[Quads::kMyKeys],
                                  const typename Layout::Piece* value) {
  const int part = quad_part();
#pragma unroll 1
  for (int owner = 0; owner < 4; ++owner) {
#pragma unroll
    for (int i = 0; i < Quads::kMyKeys; ++i) {
      const float prob = __shfl_sync(0xffffffffu, probs[i], owner, 4);
#pragma unroll
      for (int m = 0; m < QuadRow<Layout>::kMyPieces; ++m) {
        const typename Layout::Piece piece = value[Layout::at(i, owner, m, part)];
#pragma unroll
        for (int w = 0; w < QuadRow<Layout>::kWords; ++w) {
          const float2 v = tile::unpack<T>(kSkipZeros && prob == 0.0f ? 0u : word_of(piece, w));
          mine.acc[m][2 * w] = fmaf(prob, v.x, mine.acc[m][2 * w]);
          mine.acc[m][2 * w + 1] = fmaf(prob, v.y, mine.acc[m][2 * w + 1]);
        }
      }
    }
  }
}

// Key tile t: scores, softmax, P V. No barrier inside: only the tiles are shared.
template <class T, class Layout>
__device__ inline void attend_tile(const QuadBlock<T>& block, int t, const typename Layout::Piece* query,
                                   const typename Layout::Piece* key, const typename Layout::Piece* value,
                                   QuadRow<Layout>& mine) {
  float x[Quads::kMyKeys];
  dot_products<T, Layout>(x, query, key);
  quad_scores(x, block.p.scoring.scale_log2, block.some_hidden(t), block.view.band,
              block.first_row + quad_row(), block.first_key(t) + quad_part());
  const float keep = quad_softmax(x, mine.state);
#pragma unroll
  for (auto& piece : mine.acc)
#pragma unroll
    for (float& a : piece) a *= keep;
  if (any_zero(x)) {
    add_values<T, Layout, true>(mine, x, value);
  } else {
    add_values<T, Layout, false>(mine, x, value);
  }
}

template <class T>
__device__ inline void store_piece(T* out, int piece, int value_dim, const float (&x)[2]) {
  const int d = 2 * piece;
  if (d < value_dim) out[d] = tile::from_float<T>(x[0]);
  if (d + 1 < value_dim) out[d + 1] = tile::from_float<T>(x[1]);
}
template <class T>
__device__ inline void store_piece(T* out, int piece, int value_dim, const float (&x)[8]) {
  if (8 * piece >= value_dim) return;
  ptx::store_words(out + 8 * piece, tile::pack<T>(x[0], x[1]), tile::pack<T>(x[2], x[3]),
                   tile::pack<T>(x[4], x[5]), tile::pack<T>(x[6], x[7]));
}

template <class T, class Layout>
__device__ inline void write_row(const QuadBlock<T>& block, QuadRow<Layout>& mine) {
  mine.state.sum = tile::quad_sum(mine.state.sum);
  if (!block.exists(quad_row())) return;
  const float inverse = tile::inverse_sum(mine.state);
  T* const out = block.output(quad_row());
#pragma unroll
  for (int m = 0; m < QuadRow<Layout>::kMyPieces; ++m) {
#pragma unroll
    for (float& a : mine.acc[m]) a *= inverse;
    store_piece<T>(out, 4 * m + quad_part(), block.p.sizes.value_dim, mine.acc[m]);
  }
  if (quad_part() == 0) block.write_lse(quad_row(), mine.state);
}

}  // namespace tessera::cuda::ladder
