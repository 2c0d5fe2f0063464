// Global memory to three planes of bf16 parts in shared memory, by way of registers: loads are started a
// phase before their numbers are split and stored. A plane lies as a tile of sm80 does: swizzled, padded with
// zeros to the config's head dim and past the last row.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/sm80_f32/parts.hpp"
#include "cuda/tile/swizzle.hpp"

namespace tessera::cuda::sm80_f32 {

// Whether rows can be read 16 bytes at a time.
__device__ inline bool in_quads(const float* rows, long long stride, int dim) {
  return (reinterpret_cast<unsigned long long>(rows) | static_cast<unsigned long long>(stride * 4) |
          static_cast<unsigned long long>(dim * 4)) %
             16 ==
         0;
}

// Eight neighbours of a row, of which `count` are there.
struct Octet {
  float x[8];

  template <bool kQuads>
  __device__ void load(const float* from, int count) {
    if constexpr (kQuads) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (4 * i < count) four = *reinterpret_cast<const float4*>(from + 4 * i);
        x[4 * i] = four.x;
        x[4 * i + 1] = four.y;
        x[4 * i + 2] = four.z;
        x[4 * i + 3] = four.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] = i < count ? from[i] : 0.0f;
    }
  }

  // Into the same place of three planes.
  __device__ void store(unsigned to, unsigned plane_bytes) const {
    unsigned words[kParts][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned parts[kParts];
      split(x[2 * i], x[2 * i + 1], parts);
#pragma unroll
      for (int part = 0; part < kParts; ++part) words[part][i] = parts[part];
    }
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      ptx::store_shared_16(to + part * plane_bytes,
                           make_uint4(words[part][0], words[part][1], words[part][2], words[part][3]));
  }
};

// kRows rows of K or V, tile after tile: a thread's part of the next.
template <int kDim, int kRows, int kThreads>
struct NextTile {
  static constexpr int kOctets = kDim / 8, kPassRows = kThreads / kOctets, kPasses = kRows / kPassRows;
  static_assert(kThreads % kOctets == 0 && kRows % kPassRows == 0, "all threads are busy in every pass");

  Octet octets[kPasses];

  __device__ static int row() { return ptx::thread_x() / kOctets; }
  __device__ static int octet() { return ptx::thread_x() % kOctets; }

  // This thread's first numbers of a tile that begins at row `first`.
  __device__ static const float* start(const float* rows, long long stride, int first) {
    return rows + (first + row()) * stride + octet() * 8;
  }
  // And goes on to the next tile. `end`: rows from the tile's first to the end of the sequence.
  template <bool kQuads>
  __device__ void load(const float* from, long long stride, int count, int end) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i)
      octets[i].template load<kQuads>(from + i * kPassRows * stride, i * kPassRows < end ? count : 0);
  }
  __device__ void load(const float*& from, long long stride, int dim, int end, bool quads) {
    const int count = dim - octet() * 8;  // numbers of the octet that are there
    end -= row();
    if (quads) {
      load<true>(from, stride, count, end);
    } else {
      load<false>(from, stride, count, end);
    }
    from += kRows * stride;
  }
  template <class Look>
  __device__ void store(unsigned to, const Look& look_at) const {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
#pragma unroll
      for (int e = 0; e < 8; ++e) look_at(octets[i].x[e]);
      octets[i].store(to + tile::chunk_offset<kDim>(row() + i * kPassRows, octet()), kRows * kDim * 2);
    }
  }
};

// The query tile: rows wherever row_pointer(r) says.
template <int kDim, int kRows, int kThreads, class RowPointer>
__device__ inline void load_query(unsigned to, int dim, int first, int end, bool quads, Seen& seen,
                                  const RowPointer& row_pointer) {
  constexpr int kOctets = kDim / 8;
#pragma unroll 2
  for (int n = static_cast<int>(threadIdx.x); n < kRows * kOctets; n += kThreads) {
    const int row = n / kOctets, octet = n % kOctets;
    const bool there = first + row < end;
    Octet x;
    const float* const from = row_pointer(there ? first + row : 0) + octet * 8;
    const int count = there ? dim - octet * 8 : 0;
    if (quads) {
      x.load<true>(from, count);
    } else {
      x.load<false>(from, count);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) seen.look_at_both_ends(x.x[e]);
    x.store(to + tile::chunk_offset<kDim>(row, octet), kRows * kDim * 2);
  }
}

}  // namespace tessera::cuda::sm80_f32
