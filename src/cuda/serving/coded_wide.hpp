// The consumer of up to 64 packed rows over keys and values of 8 bits, by wgmma: the four warps first make a
// tile of f16 of a tile of codes, each thread a part, then multiply as more.hpp's do. There are two tiles of
// f16, so that warps meet once: who begins with a tile knows that all are done with the one before the last.
#pragma once

#include "cuda/serving/coded_more.hpp"

namespace tessera::cuda::serving {

template <Config C, class Code, bool kWgmma>
struct CodedMoreOf {
  using Type = CodedMore<C, Code>;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
template <Config C, class Code>
struct CodedWide : CodedMore<C, Code> {
  using Base = CodedMore<C, Code>;
  using Products = WarpgroupProducts<C, __half>;
  using Base::d, Base::shared, Base::o, Base::q, Base::lane;

  __device__ CodedWide(const CodedParams& params, Shared<C>& memory) : Base(params, memory) {}

  __device__ void enter(const Task& task) {
    this->now = &task;
    const float key_scale = key_scale_of(d, task) * this->plain_scale();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      unsigned words[C.dim / 16][2];
      this->factor[r] =
          load_wide_query<Code>(words, d, task, task.first_row + Base::row() + 8 * r) * key_scale;
#pragma unroll
      for (int k = 0; k < C.dim / 16; ++k) q[k][r] = words[k][0], q[k][2 + r] = words[k][1];
    }
  }

  // K or V of a tile: a row of 128 codes is 8 chunks, and 16 of f16. A thread has the same chunk of every
  // 16th row. Threads that read the same 128 bytes write to two blocks of columns: half of them begin with
  // the second chunk, for the banks' sake. kWhole: all keys are there; else those that no query sees become
  // zeros.
  template <bool kWhole>
  __device__ static void widen(unsigned to, unsigned from, int first_key, const tile::KeyRange& seen) {
    static_assert(C.dim == 128 && C.value_dim == 128);
    constexpr int kApart = C.consumers() / 8, kRows = C.keys / kApart;
    const int row = static_cast<int>(threadIdx.x) / 8, chunk = static_cast<int>(threadIdx.x) % 8;
    const bool turned = chunk >= 4;
    const unsigned source = from + chunk_at<C>(row, chunk),
                   one = to + chunk_at<C>(row, 2 * chunk + (turned ? 1 : 0)),
                   other = to + chunk_at<C>(row, 2 * chunk + (turned ? 0 : 1));
    uint4 codes[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int key = first_key + row + i * kApart;
      codes[i] = make_uint4(0, 0, 0, 0);  // of 0, too
      if (kWhole || (key >= seen.begin && key < seen.end))
        codes[i] = ptx::load_shared_16(source + static_cast<unsigned>(i * kApart * 128));
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const unsigned further = static_cast<unsigned>(i * kApart * 128);
      if (turned) codes[i] = make_uint4(codes[i].z, codes[i].w, codes[i].x, codes[i].y);
      uint4 wide;
      ptx::widen_four<Code>(codes[i].x, wide.x, wide.y);
      ptx::widen_four<Code>(codes[i].y, wide.z, wide.w);
      ptx::store_shared_16(one + further, wide);
      ptx::widen_four<Code>(codes[i].z, wide.x, wide.y);
      ptx::widen_four<Code>(codes[i].w, wide.z, wide.w);
      ptx::store_shared_16(other + further, wide);
    }
  }
  template <bool kWhole>
  __device__ void widen_tile(unsigned to, unsigned n, int first_key, const tile::KeyRange& seen) const {
    widen<kWhole>(to, shared.key(n), first_key, seen);
    widen<kWhole>(to + 2 * C.key_bytes(), shared.value(n), first_key, seen);
  }

  __device__ bool step(const Task& task, int t, unsigned n) {
    const int first_key = t * C.keys;
    const unsigned key = ptx::shared_address(shared.wide[n % 2]), value = key + 2 * C.key_bytes();
    const tile::KeyRange& seen = task.seen;
    if (first_key >= seen.begin && first_key + C.keys <= seen.end) {
      widen_tile<true>(key, n, first_key, seen);
    } else {
      widen_tile<false>(key, n, first_key, seen);
    }
    ptx::fence_for_tensor_cores();
    meet<C>();
    float s[C.keys / 8][4];
    Products::key(s, q, key);
    this->scale(s, n);
    this->change(s, task, first_key);
    unsigned probs[C.keys / 16][4];
    this->soften(probs, s, n);
    Products::value(o, probs, value);
    return false;
  }
};

template <Config C, class Code>
struct CodedMoreOf<C, Code, true> {
  using Type = CodedWide<C, Code>;
};
#endif

}  // namespace tessera::cuda::serving
