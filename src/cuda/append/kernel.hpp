// New keys and values into the cache, and RoPE, before an attention kernel that knows of neither: a block, a
// row of the query tensor, or a part of it where there are few.
//
//   thread n    slots n, n + all threads of the row's blocks, ... of the row: of all heads that are turned,
//               then of the new key's, then of the new value's
//
// What a slot holds is asked for first, and only then where the row belongs, so that memory answers both at
// once.
#pragma once

#include "cuda/append/chunk.hpp"
#include "cuda/append/dispatch.hpp"
#include "cuda/append/place.hpp"
#include "cuda/ptx/pdl.hpp"
#include "cuda/sm80/configs.hpp"
#include "quantise/codes.hpp"

namespace tessera::cuda::append {

#if defined(__CUDA_ARCH__)
inline constexpr int kArch = __CUDA_ARCH__ / 10;
#else
inline constexpr int kArch = 80;
#endif

enum class Kind { query, key, value };

struct Slot {
  Kind kind;
  int head, chunk;
  int turning;  // which of those that are turned; -1: it is copied
};

__device__ inline Slot slot_of(const AppendParams& p, int n) {
  if (n >= p.key_slots) {
    const int of_values = n - p.key_slots, head = p.value_slots.divide(of_values);
    return {Kind::value, head, of_values - head * static_cast<int>(p.value_slots.divisor), -1};
  }
  const Slots& slots = p.slots;
  const int head = slots.all.divide(n), s = n - head * static_cast<int>(slots.all.divisor);
  const int t = s - slots.first;
  const bool turns = t >= 0 && t < slots.turning;
  const int chunk = t < 0 ? s : turns ? slots.first + t * slots.step : s + slots.skip;
  const bool query = head < p.query_heads;
  return {query ? Kind::query : Kind::key, query ? head : head - p.query_heads, chunk, turns ? t : -1};
}

// x / scale as a code.
__device__ inline unsigned char encode(Codes codes, float x, float scale) {
  x = __fdiv_rn(x, scale);
  if (codes == Codes::i8) return codes::encode<codes::I8>(x);
  return codes == Codes::e4m3 ? codes::encode<codes::E4M3>(x) : codes::encode<codes::E5M2>(x);
}

// kTail: the last columns of a new key go to a tensor of their own.
template <class T, Way kWay, bool kTail = false>
struct Mover {
  static constexpr bool kWide = kWay == Way::wide;
  using Chunk = append::Chunk<T, kWide>;
  static constexpr int kElements = ChunkOf<T, kWide>::kElements;

  const AppendParams& p;
  int outer, row;

  // A slot and what it holds; b, where it is turned with another chunk.
  struct Load {
    Slot slot;
    Chunk a, b;
  };

  __device__ static const T* row_of(const Tensor& t, long long outer, int head, long long row) {
    return static_cast<const T*>(t.data) + outer * t.strides.batch + head * t.strides.head +
           row * t.strides.row;
  }
  // Rows that are written.
  __device__ static T* row_to(const Tensor& t, long long outer, int head, long long row) {
    return const_cast<T*>(row_of(t, outer, head, row));
  }

  __device__ bool two(const Slot& slot) const { return slot.turning >= 0 && p.slots.other != 0; }
  __device__ Load load(int n) const {
    const Slot slot = slot_of(p, n);
    const T* const from = slot.kind == Kind::query ? row_of(p.problem.query, outer, slot.head, row)
                          : slot.kind == Kind::key ? row_of(p.new_key, outer, slot.head, row)
                                                   : row_of(p.new_value, outer, slot.head, row);
    Load load{slot, {}, {}};
    load.a = *reinterpret_cast<const Chunk*>(from + slot.chunk * kElements);
    if (two(slot)) load.b = *reinterpret_cast<const Chunk*>(from + (slot.chunk + p.slots.other) * kElements);
    return load;
  }

  __device__ void turn(Load& load, const Place& place) const {
    if constexpr (sizeof(T) > 1) {
      const int t = load.slot.turning;
      const float *const cos = p.rope.cos + place.position * p.rope.cos_stride, *const sin =
                                                                                    p.rope.sin +
                                                                                    place.position *
                                                                                        p.rope.sin_stride;
      float x[kElements];
      if (p.slots.other != 0) {
        turn_two<T>(load.a, load.b, cos + t * kElements, sin + t * kElements, x);
      } else if constexpr (kWide) {
        turn_one<T>(load.a, cos + t * (kElements / 2), sin + t * (kElements / 2), x);
      }
    }
  }
  __device__ void store_value(const Load& load, const Place& place) const {
    const Slot& slot = load.slot;
    T* const to = row_to(p.problem.kv.value, place.outer, slot.head, place.row);
    if constexpr (kWide) {
      *reinterpret_cast<Chunk*>(to + slot.chunk * kElements) = load.a;
    } else {
      to[slot.chunk * p.value_column] = load.a;
    }
  }
  // Into a cache of codes: what was turned is not rounded to T in between. Also of keys that have a tail.
  __device__ void store_numbers(const Load& load, const Place& place) const {
    const Slot& slot = load.slot;
    const bool value = slot.kind == Kind::value;
    const Tensor& tensor = value ? p.problem.kv.value : p.problem.kv.key;
    const Scales& scales = value ? p.value_scales : p.key_scales;
    unsigned char* const to = const_cast<unsigned char*>(static_cast<const unsigned char*>(tensor.data)) +
                              place.outer * tensor.strides.batch + slot.head * tensor.strides.head +
                              place.row * tensor.strides.row;
    const auto put = [&](int d, float x) {
      if constexpr (kTail) {
        if (!value && d >= p.tail_first) {
          row_to(p.tail, place.outer, slot.head, place.row)[d - p.tail_first] = tile::from_float<T>(x);
          return;
        }
        if constexpr (kWay != Way::codes) {
          row_to(tensor, place.outer, slot.head, place.row)[d] = tile::from_float<T>(x);
          return;
        }
      }
      float scale = 1.0f;
      if (scales.data != nullptr)
        scale = scales.data[scales.at(static_cast<int>(place.outer), slot.head, static_cast<int>(place.row)) +
                            d * scales.channel];
      to[value ? d * p.value_column : d] = encode(p.codes, x, scale);
    };
    float x = tile::to_float(load.a);
    if (two(slot)) {
      float y = tile::to_float(load.b);
      const long long t = slot.turning;
      append::turn(x, y, p.rope.cos[place.position * p.rope.cos_stride + t],
                   p.rope.sin[place.position * p.rope.sin_stride + t]);
      put(slot.chunk + p.slots.other, y);
    }
    put(slot.chunk, x);
  }
  __device__ void store(Load& load, const Place& place) const {
    const Slot& slot = load.slot;
    if (slot.kind != Kind::query && !place.stored) return;
    if constexpr (kWay == Way::codes) {
      if (slot.kind != Kind::query) return store_numbers(load, place);
    } else if constexpr (kTail) {
      if (slot.kind == Kind::key) return store_numbers(load, place);
    }
    if (slot.kind == Kind::value) return store_value(load, place);
    if (slot.turning >= 0) turn(load, place);
    T* const to = slot.kind == Kind::query ? row_to(p.turned, outer, slot.head, row)
                                           : row_to(p.problem.kv.key, place.outer, slot.head, place.row);
    *reinterpret_cast<Chunk*>(to + slot.chunk * kElements) = load.a;
    if (two(slot)) *reinterpret_cast<Chunk*>(to + (slot.chunk + p.slots.other) * kElements) = load.b;
  }

  // By whole warps.
  __device__ void run(int n, int step) const {
    Load next{};
    if (n < p.all_slots) next = load(n);
    const Place place = place_of(p, outer, row);
    while (n < p.all_slots) {
      store(next, place);
      n += step;
      if (n < p.all_slots) next = load(n);
    }
  }
};

// Grid: rows, parts of a row, entries of a dense batch.
template <class RowMover>
__device__ inline void move_all(const AppendParams& p) {
  if constexpr (sm80::pdl(kArch)) {
    ptx::launch_dependents();
    ptx::wait_for_dependencies();
  }
  const int part = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x);
  RowMover{p, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.x)}.run(
      part * kThreads + thread, static_cast<int>(gridDim.y) * kThreads);
}
template <class T, Way kWay>
__global__ void __launch_bounds__(kThreads) move_rows(const __grid_constant__ AppendParams p) {
  move_all<Mover<T, kWay>>(p);
}
template <class T, Way kWay>
__global__ void __launch_bounds__(kThreads) move_rows_with_tails(const __grid_constant__ AppendParams p) {
  move_all<Mover<T, kWay, true>>(p);
}

}  // namespace tessera::cuda::append
