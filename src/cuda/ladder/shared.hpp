// Rung 2, shared: K and V are read from global memory once per block of 32 rows instead of once per row.
//
//   tile t    | load K, V | barrier | 32 rows x 32 keys (quads.hpp) | barrier |
//
// A row of 64 16-bit elements is exactly 32 words, one for each bank: the 8 rows and 4 keys that a warp looks
// at together, always at the same word, would all meet in one bank. Two remedies, both here to be compared:
//   padded     one spare word a row, so that the next row starts one bank further
//   swizzled   word w of row r lies at w ^ r: no spare memory
#pragma once

#include "cuda/ladder/quads.hpp"
#include "cuda/tile/swizzle.hpp"

namespace tessera::cuda::ladder {

// at(r4, r, w4, w): where word 4 * w4 + w of row 4 * r4 + r lies. In two steps, because one of each pair is
// known to the compiler and the other to the thread: what can be a constant in the load instruction becomes
// one. kTurn words further, everything lies kTurn words further.
template <int kDim>
struct PaddedWords {
  using Piece = unsigned;
  static constexpr int kPieces = kDim / 2, kStride = kPieces + 1, kTurn = 32;
  __device__ static int at(int r4, int r, int w4, int w) { return (4 * r4 + r) * kStride + 4 * w4 + w; }
};

template <int kDim>
struct SwizzledWords {
  using Piece = unsigned;
  static constexpr int kPieces = kDim / 2, kStride = kPieces, kTurn = 32;
  __device__ static int at(int r4, int r, int w4, int w) {
    return (4 * r4 + r) * kStride + tile::swizzle_word(4 * r4, 4 * w4) + tile::swizzle_word(r, w);
  }
};

// Threads of a block walk over the words of a tile, row by row: move(row, word, where it goes).
template <class Layout, class Move>
__device__ inline void for_each_word(const Move& move) {
#pragma unroll 8
  for (unsigned n = ptx::opaque(threadIdx.x); n < Quads::kRows * Layout::kPieces; n += Quads::kThreads) {
    const auto row = static_cast<int>(n / Layout::kPieces), word = static_cast<int>(n % Layout::kPieces);
    move(row, word, Layout::at(row / 4, row % 4, word / 4, word % 4));
  }
}

template <class T>
__device__ inline bool word_aligned(const T* from, long long stride, int dim) {
  return reinterpret_cast<unsigned long long>(from) % 4 == 0 && stride % 2 == 0 && dim % 2 == 0;
}

// For rows that are not: two elements a word, one by one.
template <class Layout, class T>
__device__ inline void load_elements(unsigned* to, const T* from, long long stride, int rows, int dim) {
  const auto* const elements = reinterpret_cast<const unsigned short*>(from);
  for_each_word<Layout>([&](int row, int word, int at) {
    const unsigned short* const pair = elements + row * stride + 2 * word;
    const unsigned low = row < rows && 2 * word < dim ? pair[0] : 0u;
    const unsigned high = row < rows && 2 * word + 1 < dim ? pair[1] : 0u;
    to[at] = low | high << 16;
  });
}

// A tile of 32 rows. Rows past `rows` and elements past `dim` become zeros.
template <class Layout, class T>
__device__ inline void load_tile(unsigned* to, const T* from, long long stride, int rows, int dim) {
  if (!word_aligned(from, stride, dim)) return load_elements<Layout>(to, from, stride, rows, dim);
  for_each_word<Layout>([&](int row, int word, int at) {
    const bool there = row < rows && 2 * word < dim;
    to[at] = there ? *reinterpret_cast<const unsigned*>(from + row * stride + 2 * word) : 0u;
  });
}

template <class T, class Layout>
__device__ inline void attend_shared(const Params& p) {
  constexpr int kTile = Quads::kRows * Layout::kStride;
  auto* const query = reinterpret_cast<unsigned*>(shared_memory);
  unsigned* const key = query + kTile;
  unsigned* const value = key + kTile;

  const QuadBlock<T> block(p);
  QuadRow<Layout> mine;
  load_tile<Layout>(query, block.query(), p.query.strides.row, block.rows(), p.sizes.dim);
  for (int t = 0; t < block.tiles(); ++t) {
    load_tile<Layout>(key, block.key(t), p.kv.key.strides.row, block.keys(t), p.sizes.dim);
    load_tile<Layout>(value, block.value(t), p.kv.value.strides.row, block.keys(t), p.sizes.value_dim);
    __syncthreads();  // the tiles are complete
    attend_tile<T, Layout>(block, t, query, key, value, mine);
    __syncthreads();  // nobody needs them any more
  }
  write_row<T, Layout>(QuadBlock<T>(p), mine);
}

template <class T, int kDim>
__global__ void __launch_bounds__(Quads::kThreads, 4) shared_padded(const __grid_constant__ Params p) {
  attend_shared<T, PaddedWords<kDim>>(p);
}

template <class T, int kDim>
__global__ void __launch_bounds__(Quads::kThreads, 4) shared(const __grid_constant__ Params p) {
  attend_shared<T, SwizzledWords<kDim>>(p);
}

struct SharedPaddedShape {
  static constexpr int kRows = Quads::kRows, kThreads = Quads::kThreads;
  static constexpr int shared_bytes(int dim) { return 3 * Quads::kRows * (dim / 2 + 1) * 4; }
};
struct SharedShape {
  static constexpr int kRows = Quads::kRows, kThreads = Quads::kThreads;
  static constexpr int shared_bytes(int dim) { return 3 * Quads::kRows * dim * 2; }
};

}  // namespace tessera::cuda::ladder
