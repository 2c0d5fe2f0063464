// Global to shared memory for the mma.sync kernels. Rows are padded with zeros to the config's head dim, and
// rows past the end are zeros: zero keys are masked by position, zero values add nothing.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/tile/fragments.hpp"
#include "cuda/tile/swizzle.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::sm80 {

using tile::chunk_offset;
using tile::fragment_address;

// How rows of query, key, value and output lie: whole chunks of 16 bytes, or any elements.
enum class Rows { of_16_bytes, of_any_alignment };

// One chunk of rows that need not be 16-byte aligned nor a multiple of 8 elements long: by plain loads, if it
// has to be.
template <class T>
__device__ inline void copy_elements(unsigned to, const T* from, int count) {
  if (count >= 8 && reinterpret_cast<unsigned long long>(from) % 16 == 0) {
    ptx::copy_async_16(to, from, true);
    return;
  }
  uint4 words = make_uint4(0, 0, 0, 0);
  auto* const elements = reinterpret_cast<unsigned short*>(&words);
  const auto* const source = reinterpret_cast<const unsigned short*>(from);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < count) elements[i] = source[i];
  }
  ptx::store_shared_16(to, words);
}

// kRows rows from `first` on, wherever row_pointer(r) says that row r lies: for queries, whose heads may be
// packed.
template <class T, int kDim, int kRows, int kThreads, Rows kLie, class RowPointer>
__device__ inline void load_rows(unsigned to, int dim, int first, int end, const RowPointer& row_pointer) {
  constexpr int kChunks = kDim / 8;
#pragma unroll 4
  for (int n = static_cast<int>(threadIdx.x); n < kRows * kChunks; n += kThreads) {
    const int row = n / kChunks, chunk = n % kChunks;
    const bool there = first + row < end && chunk * 8 < dim;
    const unsigned slot = to + chunk_offset<kDim>(row, chunk);
    const T* const from = row_pointer(there ? first + row : 0) + (there ? chunk * 8 : 0);
    if constexpr (kLie == Rows::of_16_bytes) {
      ptx::copy_async_16(slot, from, there);
    } else {
      copy_elements(slot, from, there ? dim - chunk * 8 : 0);
    }
  }
}

// The same for K and V, tile after tile. Rows are a fixed stride apart, so a thread keeps one pointer and
// walks: a copy costs two additions and a comparison, not an address from scratch.
template <class T, int kDim, int kRows, int kThreads, Rows kLie, bool kKeepIndex>
struct TileWalk {
  static constexpr int kChunks = kDim / 8, kCopies = kRows * kChunks;
  static constexpr int kPassRows = kThreads / kChunks;  // rows that the threads cover at once
  static constexpr int kActive = kPassRows * kChunks;   // threads that copy; all but for odd dims
  static constexpr int kPasses = (kRows + kPassRows - 1) / kPassRows;
  // The swizzle of row r + kPassRows is that of row r only if a pass is a multiple of its period.
  static constexpr bool kSwizzleRepeats = kPassRows % 8 == 0;

  const T* from;  // the thread's first chunk of the next tile

  __device__ TileWalk(const T* rows, long long stride, int first) {
    const int thread = static_cast<int>(threadIdx.x);
    from = rows + (first + thread / kChunks) * stride + thread % kChunks * 8;
  }

  // `end`: rows from the tile's first to the end of the sequence.
  __device__ void load_next(unsigned to, int dim, long long stride, int end) {
    // A thread's row and chunk, kept in registers where there are some to spare, else worked out every time.
    const int thread = kKeepIndex ? static_cast<int>(threadIdx.x) : ptx::thread_x();
    const int row = thread / kChunks, chunk = thread % kChunks;
    const unsigned offset = chunk_offset<kDim>(row, chunk);
    const bool mine = (kActive == kThreads || row < kPassRows) && chunk * 8 < dim;
    const T* at = from;
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int r = row + i * kPassRows;
      const bool there = mine && r < end;
      const unsigned slot =
          to + (kSwizzleRepeats ? offset + i * kPassRows * kDim * 2 : chunk_offset<kDim>(r, chunk));
      if ((kActive == kThreads || row < kPassRows) && (kRows % kPassRows == 0 || r < kRows)) {
        if constexpr (kLie == Rows::of_16_bytes) {
          ptx::copy_async_16(slot, at, there);
        } else {
          copy_elements(slot, at, there ? dim - chunk * 8 : 0);
        }
      }
      at += kPassRows * stride;
    }
    from += kRows * stride;
  }
};

}  // namespace tessera::cuda::sm80
