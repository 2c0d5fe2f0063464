// K and V of 8 bits beside Q of 16: a warpgroup that makes tiles as the tensor cores read them of the codes
// that TMA has brought. A row of 128 codes is 8 chunks of 16 bytes, and 16 of what they become: those of the
// first four are in one block of 64 columns, the others in the next.
//
// Threads that share 128 bytes of codes write to two blocks, or to two rows: half of them begin with the
// second of their two chunks, for the banks' sake.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/whole.hpp"
#include "cuda/ptx/widen_bf16.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/products.hpp"
#include "cuda/sm90/shared.hpp"

namespace tessera::cuda::sm90 {

template <class T>
struct KeyElement<Codes::beside_bf16, T> {
  using Type = __nv_bfloat16;
};

// 16 codes as two chunks.
template <class Code, class To>
struct WidenChunk {
  __device__ static void run(const uint4& codes, uint4& first, uint4& second) {
    ptx::widen_four<Code>(codes.x, first.x, first.y);
    ptx::widen_four<Code>(codes.y, first.z, first.w);
    ptx::widen_four<Code>(codes.z, second.x, second.y);
    ptx::widen_four<Code>(codes.w, second.z, second.w);
  }
};
template <class Code>
struct WidenChunk<Code, __nv_bfloat16> {
  __device__ static void run(const uint4& codes, uint4& first, uint4& second) {
    ptx::widen_four_bf16<Code>(codes.x, first.x, first.y);
    ptx::widen_four_bf16<Code>(codes.y, first.z, first.w);
    ptx::widen_four_bf16<Code>(codes.z, second.x, second.y);
    ptx::widen_four_bf16<Code>(codes.w, second.z, second.w);
    const unsigned some = ptx::not_finite<Code>(codes.x) | ptx::not_finite<Code>(codes.y) |
                          ptx::not_finite<Code>(codes.z) | ptx::not_finite<Code>(codes.w);
    if ((some & 0x80808080u) == 0) return;
    ptx::widen_any_bf16<Code>(codes.x, first.x, first.y);
    ptx::widen_any_bf16<Code>(codes.y, first.z, first.w);
    ptx::widen_any_bf16<Code>(codes.z, second.x, second.y);
    ptx::widen_any_bf16<Code>(codes.w, second.z, second.w);
  }
};

template <Config C>
struct Widener {
  Shared<C>& shared;

  using Key = typename KeyElement<C.codes, __half>::Type;
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

  // kSome: rows from `low` to before `high`, others become zeros; else all.
  template <class Code, class To, int kColumns, bool kSome>
  __device__ static void widen(const char* to, const char* from, int low = 0, int high = C.keys) {
    const Part<kColumns> part;
    const unsigned source = ptx::shared_address(from) + part.row * 128 + part.in_row(part.chunk);
    const int first = part.chunk % 4 * 2;
    const unsigned target = ptx::shared_address(to) + (part.chunk / 4 * C.keys + part.row) * 128;
    const unsigned one = target + part.in_row(first + (part.turned() ? 1 : 0)),
                   other = target + part.in_row(first + (part.turned() ? 0 : 1));
#pragma unroll
    for (int block = 0; block < (kColumns + 127) / 128; ++block)
#pragma unroll 2
      for (int row = 0; row < C.keys; row += part.kApart) {
        const unsigned further = row * 128;
        uint4 codes = ptx::load_shared_16(source + block * C.keys * 128 + further);
        if (kSome && (part.row + row < low || part.row + row >= high)) codes = make_uint4(0, 0, 0, 0);
        if (part.turned()) codes = make_uint4(codes.z, codes.w, codes.x, codes.y);
        uint4 wide[2];
        WidenChunk<Code, To>::run(codes, wide[0], wide[1]);
        ptx::store_shared_16(one + 2 * block * C.keys * 128 + further, wide[0]);
        ptx::store_shared_16(other + 2 * block * C.keys * 128 + further, wide[1]);
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
    auto& staging = shared.staging;
    const bool leads = ptx::thread_x() % 32 == 0;
    if (C.joint() && leads) shared.key_full[0].arrive();  // before the first K there is no V
    unsigned n = 0;
#pragma unroll 1
    for (;; ++n) {
      const unsigned staged = StagedRing::slot(n), slot = Ring::slot(n);
      staging.key_ring().wait_full(n);
      if (staging.key_rows[staged].low < 0) break;
      shared.key_ring().wait_empty(n);
      widen<Code, Key, C.dim, false>(shared.key[slot], staging.key[staged]);
      done(shared.key_full[slot], staging.key_empty[staged]);

      const unsigned values = C.joint() ? n + 1 : n, in = Ring::slot(values);
      auto ring = C.joint() ? shared.key_ring() : shared.value_ring();
      staging.value_ring().wait_full(n);
      const Staged rows = staging.value_rows[staged];
      ring.wait_empty(values);
      if (rows.low <= 0 && rows.high >= C.keys) {
        widen<Code, __half, C.value_dim, false>(shared.value[in], staging.value[staged]);
      } else {
        widen<Code, __half, C.value_dim, true>(shared.value[in], staging.value[staged], rows.low, rows.high);
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
