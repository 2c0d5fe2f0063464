// A tile of codes in shared memory becomes one of f16 as tensor cores read it, by 128 threads. Both are
// blocks of columns with rows of 128 bytes, chunks of 16 bytes swizzled by the row's number: a row of 128
// codes is 8 chunks, and 16 of f16, of which those of the first four are in one block of 64 columns, the
// others in the next.
//
// Threads that share 128 bytes of codes write to two blocks, or to two rows: half of them begin with the
// second of their two chunks, for the banks' sake.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/codes.hpp"
#include "cuda/ptx/whole.hpp"
// Behind these, which have the types.
#include "cuda/ptx/apart.hpp"

namespace tessera::cuda::tile {

// 16 codes as two chunks.
template <class Code>
__device__ inline void widen_chunk(const uint4& codes, uint4& first, uint4& second) {
  ptx::widen_four<Code>(codes.x, first.x, first.y);
  ptx::widen_four<Code>(codes.y, first.z, first.w);
  ptx::widen_four<Code>(codes.z, second.x, second.y);
  ptx::widen_four<Code>(codes.w, second.z, second.w);
}

// Which chunk of a row of kColumns codes is the thread's, and of which rows: that and every kApart-th after.
template <int kColumns>
struct WidenedPart {
  static constexpr int kChunks = kColumns % 128 == 64 ? 4 : 8, kApart = 128 / kChunks;
  int row, chunk;
  bool turned;

  __device__ explicit WidenedPart(int thread)
      : row(kChunks == 8 ? thread / 8 : thread / 32 * 8 + thread % 32 / 8 + thread / 4 % 2 * 4),
        chunk(thread % kChunks),
        turned((thread & 4) != 0) {}
  __device__ unsigned in_row(int of) const { return static_cast<unsigned>(of ^ row % 8) * 16; }
};

// Of kKeys rows; kSome: from `low` to before `high`, others, which may not be there, become zeros; else all.
// A few at a time, so that they wait together.
template <class Code, int kKeys, int kColumns, bool kSome>
__device__ inline void widen_tile(int thread, unsigned to, unsigned from, int low = 0, int high = kKeys) {
  using Part = WidenedPart<kColumns>;
  constexpr int kApart = Part::kApart, kRows = kKeys / kApart, kBatch = kRows < 4 ? kRows : 4;
  static_assert(kRows % kBatch == 0);
  const Part part(thread);
  const int first = part.chunk % 4 * 2;
#pragma unroll
  for (int block = 0; block < (kColumns + 127) / 128; ++block) {
    unsigned source = from + (block * kKeys + part.row) * 128 + part.in_row(part.chunk);
    const unsigned target = to + ((2 * block + part.chunk / 4) * kKeys + part.row) * 128;
    unsigned one = target + part.in_row(first + (part.turned ? 1 : 0)),
             other = target + part.in_row(first + (part.turned ? 0 : 1));
    int row = part.row;
#pragma unroll 1
    for (int batch = 0; batch < kRows; batch += kBatch) {
      uint4 codes[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        codes[i] = make_uint4(0, 0, 0, 0);
        if (!kSome || (row + i * kApart >= low && row + i * kApart < high))
          codes[i] = ptx::load_shared_16(source + i * kApart * 128);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (part.turned) codes[i] = make_uint4(codes[i].z, codes[i].w, codes[i].x, codes[i].y);
        uint4 wide[2];
        widen_chunk<Code>(codes[i], wide[0], wide[1]);
        ptx::store_shared_16(one + i * kApart * 128, wide[0]);
        ptx::store_shared_16(other + i * kApart * 128, wide[1]);
      }
      constexpr int kFurther = kBatch * kApart;
      row += kFurther, source += kFurther * 128, one += kFurther * 128, other += kFurther * 128;
    }
  }
}

}  // namespace tessera::cuda::tile
