// K and V of 8 bits beside Q of 16: a warpgroup that makes tiles as the tensor cores read them of the codes
// that TMA has brought. A row of 128 codes is 8 chunks of 16 bytes, and 16 of what they become: those of the
// first four are in one block of 64 columns, the others in the next.
//
// Threads that share 128 bytes of codes write to two blocks, or to two rows: half of them begin with the
// second of their two chunks, for the banks' sake.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/codes.hpp"
#include "cuda/ptx/whole.hpp"
#include "cuda/ptx/apart.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/shared.hpp"

namespace tessera::cuda::sm90 {

// 16 codes as two chunks.
template <class Code>
__device__ inline void widen_chunk(const uint4& codes, uint4& first, uint4& second) {
  ptx::widen_four<Code>(codes.x, first.x, first.y);
  ptx::widen_four<Code>(codes.y, first.z, first.w);
  ptx::widen_four<Code>(codes.z, second.x, second.y);
  ptx::widen_four<Code>(codes.w, second.z, second.w);
}

template <Config C>
struct Widener {
  Shared<C>& shared;

  using Ring = tile::RingIndex<C.stages>;
  using StagedRing = tile::RingIndex<C.staged>;

  // Of a row of kColumns codes, which chunk is the thread's, and which rows: that and every kApart-th after.
  template <int kColumns>
  struct Part {
    static constexpr int kChunks = kColumns % 128 == 64 ? 4 : 8, kApart = 128 / kChunks;
    int row, chunk;

    __device__ Part() {
      const int thread = ptx::thread_x() % 128;
      chunk = thread % kChunks;
      row = kChunks == 8 ? thread / 8 : thread / 32 * 8 + thread % 32 / 8 + thread / 4 % 2 * 4;
    }
    __device__ bool turned() const { return (ptx::thread_x() & 4) != 0; }
    __device__ unsigned in_row(int of) const { return static_cast<unsigned>(of ^ row % 8) * 16; }
  };

  // kSome: rows from `low` to before `high`, others become zeros; else all. A few rows at a time, so that
  // they wait together.
  template <class Code, int kColumns, bool kSome>
  __device__ static void widen(const char* to, const char* from, int low = 0, int high = C.keys) {
    constexpr int kApart = Part<kColumns>::kApart, kRows = C.keys / kApart, kBatch = kRows < 4 ? kRows : 4;
    static_assert(kRows % kBatch == 0);
    const Part<kColumns> part;
    const int first = part.chunk % 4 * 2;
    const bool turned = part.turned();
#pragma unroll
    for (int block = 0; block < (kColumns + 127) / 128; ++block) {
      unsigned source =
          ptx::shared_address(from) + (block * C.keys + part.row) * 128 + part.in_row(part.chunk);
      const unsigned target =
          ptx::shared_address(to) + ((2 * block + part.chunk / 4) * C.keys + part.row) * 128;
      unsigned one = target + part.in_row(first + (turned ? 1 : 0)),
               other = target + part.in_row(first + (turned ? 0 : 1));
      int row = part.row;
      const auto load = [&](int i) {
        uint4 codes = ptx::load_shared_16(source + i * kApart * 128);
        if (kSome && (row + i * kApart < low || row + i * kApart >= high)) codes = make_uint4(0, 0, 0, 0);
        return codes;
      };
#pragma unroll 1
      for (int batch = 0; batch < kRows; batch += kBatch) {
        uint4 codes[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) codes[i] = load(i);
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          if (turned) codes[i] = make_uint4(codes[i].z, codes[i].w, codes[i].x, codes[i].y);
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
  // Each warp for its part: codes have been read, what they became is written.
  __device__ static void done(tile::Barrier& full, tile::Barrier& staged) {
    ptx::fence_for_tensor_cores();
    __syncwarp();
    if (ptx::thread_x() % 32 != 0) return;
    full.arrive();
    staged.arrive();
  }

  template <class Code>
  __device__ void run() {
    auto& staging = shared.staging();
    const bool leads = ptx::thread_x() % 32 == 0;
    if (C.joint() && leads) shared.key_full[0].arrive();  // before the first K there is no V
    unsigned n = 0;
#pragma unroll 1
    for (;; ++n) {
      const unsigned staged = StagedRing::slot(n), slot = Ring::slot(n);
      staging.key_ring().wait_full(n);
      if (staging.key_rows[staged].low < 0) break;
      shared.key_ring().wait_empty(n);
      widen<Code, C.dim, false>(shared.key[slot], staging.key[staged]);
      done(shared.key_full[slot], staging.key_empty[staged]);

      const unsigned values = C.joint() ? n + 1 : n, in = Ring::slot(values);
      auto ring = C.joint() ? shared.key_ring() : shared.value_ring();
      staging.value_ring().wait_full(n);
      const Staged rows = staging.value_rows[staged];
      ring.wait_empty(values);
      if (rows.low <= 0 && rows.high >= C.keys) {
        widen<Code, C.value_dim, false>(shared.value[in], staging.value[staged]);
      } else {
        widen<Code, C.value_dim, true>(shared.value[in], staging.value[staged], rows.low, rows.high);
      }
      done(ring.full[in], staging.value_empty[staged]);
    }
    if (!C.joint()) return;
    shared.key_ring().wait_empty(n);  // and no K behind the last V
    if (leads) shared.key_full[Ring::slot(n)].arrive();
  }
  __device__ void run(cuda::Codes codes) {
    if (codes == cuda::Codes::e4m3) {
      run<ptx::E4m3>();
    } else if (codes == cuda::Codes::e5m2) {
      run<ptx::E5m2>();
    } else {
      run<ptx::I8>();
    }
  }
};

}  // namespace tessera::cuda::sm90
