// The consumer of up to 64 packed rows over keys and values of 8 bits, by wgmma: the four warps first make a tile
// of f16 of a tile of codes, each thread a part, then multiply as more.hpp's do. There are two tiles of f16, so
// that warps meet once: who begins with a tile knows that all are done with the one before the last.
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
    const float key_scale = key_scale_of(d, task);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      unsigned words[C.dim / 16][2];
      this->factor[r] =
          load_wide_query<Code>(words, d, task, task.first_row + Base::row() + 8 * r) * key_scale;
#pragma unroll
      for (int k = 0; k < C.dim / 16; ++k) q[k][r] = words[k][0], q[k][2 + r] = words[k][1];
    }
  }

  // A row of kDim codes is kDim / 16 chunks, and twice as many of f16. Rows that no query sees, which may not be
  // there, become zeros. Threads
  // that read the same 128 bytes write to two blocks of columns: half of them begin with the second chunk, for
  // the banks' sake.
  template <int kDim>
  __device__ static void widen(unsigned to, unsigned from, int first_key, const tile::KeyRange& seen) {
    constexpr int kChunks = kDim / 16, kPasses = C.keys * kChunks / C.consumers();
#pragma unroll 2
    for (int i = 0; i < kPasses; ++i) {
      const int n = i * C.consumers() + static_cast<int>(threadIdx.x), row = n / kChunks, chunk = n % kChunks;
      const int key = first_key + row;
      uint4 codes = make_uint4(0, 0, 0, 0);  // of 0, too
      if (key >= seen.begin && key < seen.end) codes = ptx::load_shared_16(from + chunk_at<C>(row, chunk));
      uint4 first, second;
      ptx::widen_four<Code>(codes.x, first.x, first.y);
      ptx::widen_four<Code>(codes.y, first.z, first.w);
      ptx::widen_four<Code>(codes.z, second.x, second.y);
      ptx::widen_four<Code>(codes.w, second.z, second.w);
      const bool turned = chunk / 4 % 2 != 0;
      ptx::store_shared_16(to + chunk_at<C>(row, 2 * chunk + (turned ? 1 : 0)), turned ? second : first);
      ptx::store_shared_16(to + chunk_at<C>(row, 2 * chunk + (turned ? 0 : 1)), turned ? first : second);
    }
  }

  __device__ bool step(const Task& task, int t, unsigned n) {
    const int first_key = t * C.keys;
    const unsigned key = ptx::shared_address(shared.wide[n % 2]), value = key + 2 * C.key_bytes();
    widen<C.dim>(key, shared.key(n), first_key, task.seen);
    widen<C.value_dim>(value, shared.value(n), first_key, task.seen);
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
