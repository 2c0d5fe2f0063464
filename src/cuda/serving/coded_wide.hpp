// The consumer of up to 64 packed rows over keys and values of 8 bits, by wgmma as more.hpp's: four warps
// more make tiles of f16 of tiles of codes, one ahead.
#pragma once

#include "cuda/serving/coded_more.hpp"
#include "cuda/tile/widen_tile.hpp"

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

  __device__ bool step(const Task& task, int t, unsigned n) {
    const auto ring = shared.wide_ring();
    const unsigned key = ptx::shared_address(shared.wide[ring.slot(n)]), value = key + C.wide_key_bytes();
    ring.wait_full(n);
    float s[C.keys / 8][4];
    Products::key(s, q, key);
    this->scale(s, n);
    this->change(s, task, t * C.keys);
    unsigned probs[C.keys / 16][4];
    this->soften(probs, s, n);
    Products::value(o, probs, value);
    __syncwarp();
    ring.release(n);
    return false;
  }
};

// The warps that widen, through all of a block's tasks. Keys that no query sees become zeros.
template <Config C, class Code>
struct TileWidener {
  Shared<C>& shared;
  int thread;
  unsigned count = 0;  // tiles

  __device__ explicit TileWidener(Shared<C>& memory)
      : shared(memory), thread(static_cast<int>(threadIdx.x) - 32 * C.first_widener()) {}

  template <bool kSome>
  __device__ void widen(unsigned to, int low, int high) const {
    tile::widen_tile<Code, C.keys, C.dim, kSome>(thread, to, shared.key(count), low, high);
    tile::widen_tile<Code, C.keys, C.value_dim, kSome>(thread, to + C.wide_key_bytes(), shared.value(count),
                                                       low, high);
  }
  __device__ void widen_all(const Task& task) {
    const auto ring = shared.wide_ring();
    const int end = task.end_of(task.end_piece - 1);
#pragma unroll 1
    for (int t = task.first; t < end; ++t) {
      const int low = task.seen.begin - t * C.keys, high = task.seen.end - t * C.keys;
      const unsigned slot = ring.slot(count), to = ptx::shared_address(shared.wide[slot]);
      shared.wait_full(count);
      ring.wait_empty(count);
      if (low <= 0 && high >= C.keys) {
        widen<false>(to, low, high);
      } else {
        widen<true>(to, low, high);
      }
      ptx::fence_for_tensor_cores();
      __syncwarp();
      if (thread % 32 == 0) ring.full[slot].arrive();
      shared.release(count);
      ++count;
    }
  }
  __device__ void run() {
#pragma unroll 1
    for (int n = 0;; ++n) {
      const Task& task = shared.wait_task(n);
      if (task.batch < 0) return;
      widen_all(task);
      shared.end_task(n);
    }
  }
};

template <Config C, class Code>
struct CodedMoreOf<C, Code, true> {
  using Type = CodedWide<C, Code>;
};
#endif

}  // namespace tessera::cuda::serving
