// Rung 3, async: the next tile travels while this one is computed.
//
//   copy      | tile 0 |  tile 1  |  tile 2  |
//   compute            |  tile 0  |  tile 1  |  tile 2
//                      ^ wait for the copy that was started one tile ago, then one barrier
//
// cp.async moves 4 bytes from global to shared memory without a register and without waiting. The one barrier
// of a tile says two things: everybody's copies of tile t have landed, and everybody is done with tile t - 1,
// whose slot is filled next.
#pragma once

#include "cuda/ladder/shared.hpp"
#include "cuda/ptx/async_copy.hpp"

namespace tessera::cuda::ladder {

template <class Layout, class T>
__device__ inline void start_tile(unsigned* to, const T* from, long long stride, int rows, int dim) {
  if (!word_aligned(from, stride, dim)) return load_elements<Layout>(to, from, stride, rows, dim);
  const unsigned address = ptx::shared_address(to);
  for_each_word<Layout>([&](int row, int word, int at) {
    const bool there = row < rows && 2 * word < dim;
    ptx::copy_async_4(address + 4 * at, there ? from + row * stride + 2 * word : from, there);
  });
}

template <class T, int kDim>
__global__ void __launch_bounds__(Quads::kThreads, 4) async(const __grid_constant__ Params p) {
  using Layout = SwizzledWords<kDim>;
  constexpr int kTile = Quads::kRows * Layout::kStride;
  auto* const query = reinterpret_cast<unsigned*>(shared_memory);
  unsigned* const slots = query + kTile;  // K0 V0 K1 V1

  const QuadBlock<T> block(p);
  QuadRow<Layout> mine;
  const auto start = [&](int t) {
    if (t < block.tiles()) {
      unsigned* const key = slots + t % 2 * 2 * kTile;
      start_tile<Layout>(key, block.key(t), p.kv.key.strides.row, block.keys(t), p.sizes.dim);
      start_tile<Layout>(key + kTile, block.value(t), p.kv.value.strides.row, block.keys(t),
                         p.sizes.value_dim);
    }
    ptx::commit_copies();
  };
  start_tile<Layout>(query, block.query(), p.query.strides.row, block.rows(), p.sizes.dim);
  start(0);
  for (int t = 0; t < block.tiles(); ++t) {
    ptx::wait_copies<0>();
    __syncthreads();
    start(t + 1);
    const unsigned* const key = slots + t % 2 * 2 * kTile;
    attend_tile<T, Layout>(block, t, query, key, key + kTile, mine);
  }
  ptx::wait_copies<0>();
  write_row<T, Layout>(QuadBlock<T>(p), mine);
}

}  // namespace tessera::cuda::ladder
