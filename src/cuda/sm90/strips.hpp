// Head dims of up to 16 columns past a multiple of 64: those stand apart, in two strips of 8 columns (rows of
// 16 bytes, not swizzled), behind the block of the first 64. As a block of 64 columns of their own they would
// be mostly zeros, which TMA takes longer to write than to copy what is there (docs/negatives.md, "What the
// choices of sm90 rest on").
//
//   columns 0 ... 63, rows of 128 bytes, swizzled | 64 ... 71, rows of 16 bytes | 72 ... 79
#pragma once

#include "cuda/ptx/barrier.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/shared.hpp"

namespace tessera::cuda::sm90 {

// Asks for a tile of a tensor with so many columns. A strip that it has no columns for is not copied: it
// holds zeros from the start.
template <int kBlocks, int kRows>
__device__ inline void copy_with_strips(char* to, const TensorMap* map, const TensorMap* strip, int columns,
                                        tile::Barrier& full, int row, int head, int batch) {
  const int strips = max(columns - 64 * kBlocks + 7, 0) / 8;
  full.expect(kBlocks * kRows * 128 + strips * kRows * 16);
  for (int b = 0; b < kBlocks; ++b)
    ptx::tma_load(ptx::shared_address(to + b * kRows * 128), map, full.address(), 64 * b, row, head, batch);
#pragma unroll 1  // the producer has few registers
  for (int i = 0; i < strips; ++i)
    ptx::tma_load(ptx::shared_address(to + kBlocks * kRows * 128 + i * kRows * 16), strip, full.address(),
                  64 * kBlocks + 8 * i, row, head, batch);
}

// By all threads of the block, before the first copy.
template <Config C>
__device__ inline void clear_strips(Shared<C>& shared) {
  const auto clear = [](char* tile, int bytes, int rows) {
    auto* const strips = reinterpret_cast<int4*>(tile + bytes - C.strip_bytes(rows));
    for (int i = ptx::thread_x(); i < C.strip_bytes(rows) / 16; i += C.threads()) strips[i] = int4{};
  };
  for (int w = 0; w < C.consumers; ++w) clear(shared.query[w], C.query_bytes(), 64);
  for (int s = 0; s < C.stages; ++s) {
    clear(shared.key[s], C.key_bytes(), C.keys);
    clear(shared.value[s], C.value_bytes(), C.keys);
  }
  ptx::fence_for_tensor_cores();
}

}  // namespace tessera::cuda::sm90
