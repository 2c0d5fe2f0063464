// One look at a mask tensor before the attention kernel: every granule (64 rows, one key tile) is hidden,
// open or neither, so that key tiles which nobody sees are not visited and those which all see are not
// masked. What is the same for several heads or batch entries is looked at once. On the way a boolean mask is
// packed, a bit for every key.
//
// A block has one row of granules and 1024 keys, a warp 8 of its rows. The flags of up to 16 key tiles, 4
// bits each, are gathered in a word of 64 bits.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/mask/params.hpp"
#include "cuda/tile/element.hpp"
#include "cuda/tile/options.hpp"

namespace tessera::cuda::mask {

enum Flag : unsigned { kSomeSeen = 1, kSomeApplied = 2, kSomeLow = 4 };

__device__ inline unsigned flags_of(float x, float least) {
  return (x == tile::minus_infinity() ? 0u : kSomeSeen) | (x == 0.0f ? 0u : kSomeApplied) |
         (x >= least ? 0u : kSomeLow);
}

__device__ inline tile::MaskState state_of(unsigned flags) {
  return (flags & kSomeSeen) == 0      ? tile::MaskState::hidden
         : (flags & kSomeApplied) == 0 ? tile::MaskState::open
         : (flags & kSomeLow) != 0     ? tile::MaskState::mixed
                                       : tile::MaskState::finite;
}

// Bit i of the result: byte i is not 0.
__device__ inline unsigned bits_of_4(unsigned bytes) {
  const unsigned ones = __vsetne4(bytes, 0u);
  return ones * 0x01020408u >> 24 & 15u;
}
__device__ inline unsigned bits_of_16(uint4 b) {
  return bits_of_4(b.x) | bits_of_4(b.y) << 4 | bits_of_4(b.z) << 8 | bits_of_4(b.w) << 12;
}

struct Granule {
  static constexpr int kWarpRows = kGranuleRows * 32 / kThreads;
  const PassParams& p;
  int lane, warp, chunk, first_row;
  long long row_of_granules;  // among all of the mask
  long long head_offset;      // of the mask's head, in elements

  __device__ explicit Granule(const PassParams& params)
      : p(params),
        lane(static_cast<int>(threadIdx.x) % 32),
        warp(static_cast<int>(threadIdx.x) / 32),
        chunk(static_cast<int>(blockIdx.x) % p.chunks),
        row_of_granules(blockIdx.x / p.chunks) {
    const int head_of_batch = static_cast<int>(row_of_granules / p.row_granules);
    first_row = static_cast<int>(row_of_granules % p.row_granules) * kGranuleRows;
    head_offset = head_of_batch / p.heads * p.strides[0] + head_of_batch % p.heads * p.strides[1];
  }
  __device__ int first_key() const { return chunk * kBlockKeys; }
  // A mask with one row has it for all.
  __device__ bool there(int row) const { return p.rows == 1 || first_row + row < p.rows; }
  __device__ long long row_offset(int row) const {
    return head_offset + (p.rows == 1 ? 0 : (first_row + row) * p.strides[2]);
  }
  // Flags of keys from `key` on, counted from the block's first, where they belong.
  __device__ unsigned long long at_tile(unsigned flags, int key) const {
    return static_cast<unsigned long long>(flags) << 4 * (key / p.tile_keys);
  }

  // Lane i has keys 32 i ... 32 i + 31 of the block's: a word of bits.
  __device__ unsigned row_bits(int row) const {
    const auto* const data = static_cast<const unsigned char*>(p.mask) + row_offset(row);
    if (p.whole_chunks != 0) {
      const int key = first_key() + 32 * lane;
      unsigned bits = 0;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (key + 16 * i < p.keys)
          bits |= bits_of_16(*reinterpret_cast<const uint4*>(data + key + 16 * i)) << 16 * i;
      return bits;
    }
    unsigned mine = 0;
#pragma unroll 1
    for (int i = 0; i < 32; ++i) {
      const int key = first_key() + 32 * i + lane;
      const unsigned word = __ballot_sync(0xffffffffu, key < p.keys && data[key * p.strides[3]] != 0);
      if (i == lane) mine = word;
    }
    return mine;
  }
  __device__ unsigned long long look_at_bits(int row) const {
    const int key = 32 * lane, left = p.keys - first_key() - key;  // from the lane's first key to the end
    const unsigned valid = left >= 32 ? ~0u : left <= 0 ? 0u : (1u << left) - 1;
    const unsigned bits = there(row) ? row_bits(row) : ~0u;
    const int tile = (first_key() + key) / p.tile_keys;
    if (tile < p.tiles) {
      const long long granule = row_of_granules * p.tiles + tile;
      const int words = p.tile_keys / 32, word = key / 32 % words;
      p.bits[(granule * kGranuleRows + row) * words + word] = bits;
    }
    if (!there(row)) return 0;
    const unsigned seen = bits & valid;
    return at_tile((seen != 0 ? kSomeSeen : 0u) | (seen != valid ? kSomeApplied | kSomeLow : 0u), key);
  }

  template <class T>
  __device__ unsigned long long look_at_numbers(int row) const {
    if (!there(row)) return 0;
    const T* const data = static_cast<const T*>(p.mask) + row_offset(row);
    unsigned long long flags = 0;
    if (p.whole_chunks != 0) {
      constexpr int kMany = 16 / sizeof(T);
#pragma unroll
      for (int i = 0; i < kBlockKeys / (32 * kMany); ++i) {
        const int key = (32 * i + lane) * kMany;
        if (first_key() + key >= p.keys) continue;
        alignas(16) T x[kMany];
        *reinterpret_cast<uint4*>(x) = *reinterpret_cast<const uint4*>(data + first_key() + key);
        unsigned some = 0;
#pragma unroll
        for (int e = 0; e < kMany; ++e) some |= flags_of(tile::to_float(x[e]), p.least_bias);
        flags |= at_tile(some, key);
      }
      return flags;
    }
    T* const to = p.copy == nullptr ? nullptr
                                    : static_cast<T*>(p.copy) + (row_of_granules / p.row_granules * p.rows +
                                                                 (p.rows == 1 ? 0 : first_row + row)) *
                                                                    p.copy_row;
#pragma unroll 1
    for (int i = 0; i < kBlockKeys / 32; ++i) {
      const int key = 32 * i + lane;
      if (first_key() + key >= p.keys) break;
      const T x = data[(first_key() + key) * p.strides[3]];
      if (to != nullptr) to[first_key() + key] = x;
      flags |= at_tile(flags_of(tile::to_float(x), p.least_bias), key);
    }
    return flags;
  }

  // The flags of the warp's rows. One row after another: a row has loads enough to wait for together.
  template <class Look>
  __device__ unsigned long long of_rows(const Look& look) const {
    unsigned long long flags = 0;
#pragma unroll 1
    for (int i = 0; i < kWarpRows; ++i) flags |= look(warp * kWarpRows + i);
    return flags;
  }
  __device__ unsigned long long look() const {
    switch (p.kind) {
      case MaskTensorKind::boolean:
        return of_rows([&](int row) { return look_at_bits(row); });
      case MaskTensorKind::additive_f32:
        return of_rows([&](int row) { return look_at_numbers<float>(row); });
      case MaskTensorKind::additive_f16:
        return of_rows([&](int row) { return look_at_numbers<__half>(row); });
      default:
        return of_rows([&](int row) { return look_at_numbers<__nv_bfloat16>(row); });
    }
  }

  __device__ void run(unsigned* shared) const {
    if (threadIdx.x < 2) shared[threadIdx.x] = 0;
    __syncthreads();
    const unsigned long long flags = look();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned all = __reduce_or_sync(0xffffffffu, static_cast<unsigned>(flags >> 32 * half));
      if (lane == 0 && all != 0) atomicOr(shared + half, all);
    }
    __syncthreads();
    const int n = static_cast<int>(threadIdx.x), tile = first_key() / p.tile_keys + n;
    if (n < kBlockKeys / p.tile_keys && tile < p.tiles)
      p.states[row_of_granules * p.tiles + tile] =
          static_cast<unsigned char>(state_of(shared[n / 8] >> 4 * (n % 8) & 15u));
  }
};

}  // namespace tessera::cuda::mask
