// One look at a mask tensor before the attention kernel: every granule (64 rows, 64 keys) is hidden, open or
// neither, so that key tiles which nobody sees are not visited and those which all see are not masked. What
// is the same for several heads or batch entries is looked at once. On the way a boolean mask is packed, a
// bit for every key, where somebody will read that.
//
// A block has one row of granules and 1024 keys, a warp 8 of its rows. The flags of the 16 granules, 4 bits
// each, are gathered in a word of 64 bits. It is memory that this waits for: a warp asks for its 8 rows at
// once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/mask/params.hpp"
#include "cuda/ptx/math.hpp"
#include "cuda/tile/element.hpp"
#include "cuda/tile/options.hpp"

namespace tessera::cuda::mask {

inline constexpr int kBlockGranules = kBlockKeys / kGranuleKeys;
inline constexpr int kWarpRows = kGranuleRows * 32 / kThreads;
inline constexpr int kRowWords = kGranuleKeys / 32;  // of bits, of a row of a granule

enum Flag : unsigned { kSomeSeen = 1, kSomeApplied = 2, kSomeLow = 4 };

__device__ inline tile::MaskState state_of(unsigned flags) {
  return (flags & kSomeSeen) == 0      ? tile::MaskState::hidden
         : (flags & kSomeApplied) == 0 ? tile::MaskState::open
         : (flags & kSomeLow) != 0     ? tile::MaskState::mixed
                                       : tile::MaskState::finite;
}

// Bit i of the result: byte i is not 0.
__device__ inline unsigned bits_of_4(unsigned bytes) {
  const unsigned tops = (((bytes & 0x7f7f7f7fu) + 0x7f7f7f7fu) | bytes) & 0x80808080u;
  return (tops >> 7) * 0x01020408u >> 24;
}
__device__ inline unsigned bits_of_16(uint4 b) {
  return bits_of_4(b.x) | bits_of_4(b.y) << 4 | bits_of_4(b.z) << 8 | bits_of_4(b.w) << 12;
}

// What numbers of an additive mask, as words of memory, have come to so far.
struct Words {
  unsigned any = 0;    // the words or-ed
  unsigned other = 0;  // the same of what differs from -inf
};
template <class T>
struct Numbers;
template <>
struct Numbers<float> : Words {
  float least = -tile::minus_infinity();
  __device__ void add(unsigned word) {
    any |= word;
    other |= word ^ 0xff800000u;
    least = ptx::min_or_nan(least, __uint_as_float(word));
  }
  __device__ void add_one(float x) { add(__float_as_uint(x)); }
  __device__ bool applied() const { return (any & 0x7fffffffu) != 0; }
  __device__ float lowest() const { return least; }
};
template <>
struct Numbers<__half> : Words {
  __half2 least = __float2half2_rn(-tile::minus_infinity());
  __device__ void add(unsigned word) {
    any |= word;
    other |= word ^ 0xfc00fc00u;
    least = __hmin2_nan(least, *reinterpret_cast<const __half2*>(&word));
  }
  __device__ void add_one(__half x) { add(__half_as_ushort(x) * 0x10001u); }
  __device__ bool applied() const { return (any & 0x7fff7fffu) != 0; }
  __device__ float lowest() const { return ptx::min_or_nan(__low2float(least), __high2float(least)); }
};
template <>
struct Numbers<__nv_bfloat16> : Words {
  __nv_bfloat162 least = __float2bfloat162_rn(-tile::minus_infinity());
  __device__ void add(unsigned word) {
    any |= word;
    other |= word ^ 0xff80ff80u;
    least = __hmin2_nan(least, *reinterpret_cast<const __nv_bfloat162*>(&word));
  }
  __device__ void add_one(__nv_bfloat16 x) { add(__bfloat16_as_ushort(x) * 0x10001u); }
  __device__ bool applied() const { return (any & 0x7fff7fffu) != 0; }
  __device__ float lowest() const { return ptx::min_or_nan(__low2float(least), __high2float(least)); }
};
template <class T>
__device__ inline unsigned flags_of(const Numbers<T>& n, float least_bias) {
  return (n.other != 0 ? kSomeSeen : 0u) | (n.applied() ? kSomeApplied : 0u) |
         (n.lowest() >= least_bias ? 0u : kSomeLow);
}

struct PassShared {
  unsigned flags[2];
  alignas(16) unsigned bits[kBlockGranules][kGranuleRows][kRowWords];
};

struct Granules {
  const PassParams& p;
  PassShared& shared;
  int lane, warp, chunk, first_row;
  long long row_of_granules;  // among all of the mask
  long long head_offset;      // of the mask's head, in elements

  __device__ Granules(const PassParams& params, PassShared& memory)
      : p(params),
        shared(memory),
        lane(static_cast<int>(threadIdx.x) % 32),
        warp(static_cast<int>(threadIdx.x) / 32),
        chunk(static_cast<int>(blockIdx.x) % p.chunks),
        row_of_granules(blockIdx.x / p.chunks) {
    const int head_of_batch = static_cast<int>(row_of_granules / p.row_granules);
    first_row = static_cast<int>(row_of_granules % p.row_granules) * kGranuleRows + warp * kWarpRows;
    head_offset = head_of_batch / p.heads * p.strides[0] + head_of_batch % p.heads * p.strides[1];
  }
  __device__ int first_key() const { return chunk * kBlockKeys; }
  // A mask with one row has it for all. `row`: of the warp's.
  __device__ bool there(int row) const { return p.rows == 1 || first_row + row < p.rows; }
  __device__ long long row_offset(int row) const {
    return head_offset + (p.rows == 1 ? 0 : (first_row + row) * p.strides[2]);
  }
  // Flags of keys from `key` on, counted from the block's first, where they belong.
  __device__ static unsigned long long at_granule(unsigned flags, int key) {
    return static_cast<unsigned long long>(flags) << 4 * (key / kGranuleKeys);
  }

  // Lane i has keys 32 i ... 32 i + 31 of the block's: a word of bits for each row.
  __device__ void read_bits(unsigned (&bits)[kWarpRows]) const {
    const auto* const data = static_cast<const unsigned char*>(p.mask);
    if (p.whole_chunks != 0) {
      const int key = first_key() + 32 * lane;
      uint4 raw[kWarpRows][2] = {};
#pragma unroll
      for (int r = 0; r < kWarpRows; ++r)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (there(r) && key + 16 * i < p.keys)
            raw[r][i] = *reinterpret_cast<const uint4*>(data + row_offset(r) + key + 16 * i);
#pragma unroll
      for (int r = 0; r < kWarpRows; ++r) bits[r] = bits_of_16(raw[r][0]) | bits_of_16(raw[r][1]) << 16;
      return;
    }
#pragma unroll 1
    for (int i = 0; i < 32; ++i) {
      const int key = first_key() + 32 * i + lane;
      bool seen[kWarpRows];
#pragma unroll
      for (int r = 0; r < kWarpRows; ++r)
        seen[r] = there(r) && key < p.keys && data[row_offset(r) + key * p.strides[3]] != 0;
#pragma unroll
      for (int r = 0; r < kWarpRows; ++r) {
        const unsigned word = __ballot_sync(0xffffffffu, seen[r]);
        if (i == lane) bits[r] = word;
      }
    }
  }
  __device__ unsigned long long look_at_bits() const {
    unsigned bits[kWarpRows];
    read_bits(bits);
    const int key = 32 * lane, left = p.keys - first_key() - key;  // from the lane's first key to the end
    const unsigned valid = left >= 32 ? ~0u : left <= 0 ? 0u : (1u << left) - 1;
    unsigned some = 0;
#pragma unroll
    for (int r = 0; r < kWarpRows; ++r) {
      if (!there(r)) bits[r] = ~0u;
      shared.bits[key / kGranuleKeys][warp * kWarpRows + r][key / 32 % kRowWords] = bits[r];
      const unsigned seen = bits[r] & valid;
      if (there(r)) some |= (seen != 0 ? kSomeSeen : 0u) | (seen != valid ? kSomeApplied | kSomeLow : 0u);
    }
    return at_granule(some, key);
  }

  template <class T>
  __device__ unsigned long long look_at_numbers() const {
    const T* const data = static_cast<const T*>(p.mask);
    unsigned long long flags = 0;
    if (p.whole_chunks == 0) return look_one_by_one(data);
    constexpr int kMany = 16 / sizeof(T);
#pragma unroll 1
    for (int i = 0; i < kBlockKeys / (32 * kMany); ++i) {
      const int key = (32 * i + lane) * kMany;
      if (first_key() + key >= p.keys) break;
      uint4 raw[kWarpRows];
#pragma unroll
      for (int r = 0; r < kWarpRows; ++r)
        if (there(r)) raw[r] = *reinterpret_cast<const uint4*>(data + row_offset(r) + first_key() + key);
      Numbers<T> numbers;
#pragma unroll
      for (int r = 0; r < kWarpRows; ++r) {
        if (!there(r)) continue;
        numbers.add(raw[r].x);
        numbers.add(raw[r].y);
        numbers.add(raw[r].z);
        numbers.add(raw[r].w);
      }
      flags |= at_granule(flags_of(numbers, p.least_bias), key);
    }
    return flags;
  }
  // Rows that are not of whole 16 bytes; copied, if somebody wants to read them by as many.
  template <class T>
  __device__ unsigned long long look_one_by_one(const T* data) const {
    T* const copy = static_cast<T*>(p.copy);
    const long long copy_row = row_of_granules / p.row_granules * p.rows + (p.rows == 1 ? 0 : first_row);
    unsigned long long flags = 0;
#pragma unroll 1
    for (int key = lane; key < kBlockKeys && first_key() + key < p.keys; key += 32) {
      T x[kWarpRows];
#pragma unroll
      for (int r = 0; r < kWarpRows; ++r)
        if (there(r)) x[r] = data[row_offset(r) + (first_key() + key) * p.strides[3]];
      Numbers<T> numbers;
#pragma unroll
      for (int r = 0; r < kWarpRows; ++r) {
        if (!there(r)) continue;
        numbers.add_one(x[r]);
        if (copy != nullptr) copy[(copy_row + (p.rows == 1 ? 0 : r)) * p.copy_row + first_key() + key] = x[r];
      }
      flags |= at_granule(flags_of(numbers, p.least_bias), key);
    }
    return flags;
  }

  __device__ unsigned long long look() const {
    switch (p.kind) {
      case MaskTensorKind::boolean:
        return look_at_bits();
      case MaskTensorKind::additive_f32:
        return look_at_numbers<float>();
      case MaskTensorKind::additive_f16:
        return look_at_numbers<__half>();
      default:
        return look_at_numbers<__nv_bfloat16>();
    }
  }

  __device__ tile::MaskState state(int granule) const {
    return state_of(shared.flags[granule / 8] >> 4 * (granule % 8) & 15u);
  }
  // The bits of granules that are neither hidden nor open, 16 bytes a thread.
  __device__ void write_bits(int granules) const {
    constexpr int kWords = kGranuleRows * kRowWords, kPieces = kWords / 4;
    for (int n = static_cast<int>(threadIdx.x); n < granules * kPieces; n += kThreads) {
      const int granule = n / kPieces, piece = n % kPieces;
      if (state(granule) != tile::MaskState::mixed) continue;
      auto* const to = reinterpret_cast<uint4*>(
          p.bits + (row_of_granules * p.tiles + chunk * kBlockGranules + granule) * kWords);
      to[piece] = reinterpret_cast<const uint4*>(shared.bits[granule])[piece];
    }
  }

  __device__ void run() const {
    const int n = static_cast<int>(threadIdx.x), first = chunk * kBlockGranules;
    if (n < 2) shared.flags[n] = 0;
    if (p.dealt != nullptr)
      for (int i = static_cast<int>(blockIdx.x) * kThreads + n; i <= p.row_tiles;
           i += static_cast<int>(gridDim.x) * kThreads)
        p.dealt[i] = i == 0 ? 0 : -1;
    __syncthreads();
    const unsigned long long flags = look();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned all = __reduce_or_sync(0xffffffffu, static_cast<unsigned>(flags >> 32 * half));
      if (lane == 0 && all != 0) atomicOr(shared.flags + half, all);
    }
    __syncthreads();
    const int granules = min(kBlockGranules, p.tiles - first);
    if (n < granules) p.states[row_of_granules * p.tiles + first + n] = static_cast<unsigned char>(state(n));
    if (p.kind == MaskTensorKind::boolean && p.bits != nullptr) write_bits(granules);
  }
};

}  // namespace tessera::cuda::mask
