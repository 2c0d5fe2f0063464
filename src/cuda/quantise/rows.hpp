// Rows of one head as the numbers that are quantised: floats, less the means, through the Hadamard transform;
// the same arithmetic in the same order as the CPU's (quantise/rows.hpp).
//
// `lanes` threads have a row together, and a block kThreads / lanes rows. A piece is what they load at once:
// 16 bytes a thread. Column c of a piece is element c % kWide of lane c / kWide.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/quantise/dispatch.hpp"
#include "cuda/quantise/params.hpp"
#include "cuda/tile/element.hpp"

namespace tessera::cuda::quantise {

inline constexpr int kMostDim = 1024;
template <class T>
inline constexpr int kWide = wide_of(sizeof(T));

// That an SM is to have room for, where not all of a row is held.
template <bool kWholeRows>
inline constexpr int kLeastBlocks = kWholeRows ? 1 : 3;

// Rows of a thread that are on their way from memory at once.
template <bool kWholeRows>
inline constexpr int kRowsAtOnce = kWholeRows ? 1 : 4;

// Before the first access to memory, in every kernel: see ptx/pdl.hpp.
__device__ inline void follow() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
#endif
}

// Of numbers that are not negative: most fit 32 bits, whose division is several times as fast.
struct Quotient {
  long long whole, rest;
  __device__ Quotient(long long n, long long by)
      : whole(((n | by) >> 32) == 0 ? static_cast<unsigned>(n) / static_cast<unsigned>(by) : n / by),
        rest(n - whole * by) {}
};
__device__ inline long long divided_up(long long n, long long by) { return Quotient(n + by - 1, by).whole; }

// Which head and rows a block has, of those that are dealt out to the grid.
struct Span {
  long long outer, head, first, last;  // last: one behind
  __device__ Span(const QuantiseParams& p, long long item, long long rows) {
    const Quotient heads(item, divided_up(p.rows, rows)), outers(heads.whole, p.heads);
    outer = outers.whole;
    head = outers.rest;
    first = heads.rest * rows;
    last = first + rows < p.rows ? first + rows : p.rows;
  }
};
__device__ inline long long spans_of(const QuantiseParams& p, long long rows) {
  return p.outer * p.heads * divided_up(p.rows, rows);
}

// A thread's part of a row. To rotate it takes all of its pieces at once (kWholeRows); else, and where there
// is but one, a piece at a time: fewer registers leave room for more threads that wait for memory.
template <class T, bool kWholeRows>
struct Rows {
  static constexpr int kPieces = kWholeRows ? kMostDim / (kMostLanes * kWide<T>) : 1;
  using Part = float[kPieces][kWide<T>];

  const QuantiseParams& p;
  Span span;
  const T* data;       // of the head
  int lane, group;     // of those that have the row; which row
  int groups, pieces;  // rows of a block; pieces of a row
  int first_piece = 0;
  Part means;

  __device__ Rows(const QuantiseParams& params, const Span& mine)
      : p(params),
        span(mine),
        data(static_cast<const T*>(p.input) + mine.outer * p.input_strides[0] +
             mine.head * p.input_strides[1]),
        lane(static_cast<int>(threadIdx.x) & (p.lanes - 1)),
        group(static_cast<int>(threadIdx.x) / p.lanes),
        groups(kThreads / p.lanes),
        pieces((p.dim + columns() - 1) / columns()) {}

  __device__ int columns() const { return p.lanes * kWide<T>; }  // of a piece
  // Of the thread's first element in the piece; p.dim and more where it has none.
  __device__ int column(int piece) const { return (first_piece + piece) * columns() + lane * kWide<T>; }

  // A float for each of the thread's channels; 0 where there are none.
  __device__ void load_channels(const float* from, long long stride, Part& to) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
#pragma unroll
      for (int v = 0; v < kWide<T>; ++v) {
        const int c = column(i) + v;
        to[i][v] = from != nullptr && c < p.dim ? from[c * stride] : 0.0f;
      }
  }
  // From here on rows are loaded from this piece on.
  __device__ void begin(int piece) {
    first_piece = piece;
    const float* const of_head =
        p.means == nullptr ? nullptr
                           : p.means + span.outer * p.mean_strides[0] + span.head * p.mean_strides[1];
    load_channels(of_head, p.mean_strides[3], means);
  }

  // Elements as they lie in memory; zeros where there are none.
  struct alignas(16) Raw {
    T x[kPieces][kWide<T>];
  };
  __device__ void fetch(long long row, Raw& raw) const {
    const T* const from = data + row * p.input_strides[2];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int c = column(i);
      if (p.whole_input != 0) {
        *reinterpret_cast<uint4*>(raw.x[i]) =
            row < span.last && c < p.dim ? *reinterpret_cast<const uint4*>(from + c) : uint4{};
      } else {
#pragma unroll
        for (int v = 0; v < kWide<T>; ++v)
          raw.x[i][v] = row < span.last && c + v < p.dim ? from[c + v] : tile::from_float<T>(0.0f);
      }
    }
  }
  // All lanes of a warp come here together. What lies behind the end of the rows, or of a row, may be minus
  // the mean: not an element.
  __device__ void numbers(const Raw& raw, Part& x) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
#pragma unroll
      for (int v = 0; v < kWide<T>; ++v) x[i][v] = tile::to_float(raw.x[i][v]) - means[i][v];
    if (p.rotate != 0) rotate(x);
  }
  // f(row, x) for the thread's rows of the span.
  template <class F>
  __device__ void for_each(const F& f) const {
    constexpr int kAtOnce = kRowsAtOnce<kWholeRows>;
#pragma unroll 1
    for (long long base = span.first; base < span.last; base += kAtOnce * groups) {
      Raw raw[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) fetch(base + k * groups + group, raw[k]);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        Part x;
        numbers(raw[k], x);
        const long long row = base + k * groups + group;
        if (row < span.last) f(row, x);
      }
    }
  }

 private:
  __device__ static void butterfly(float& a, float& b) {
    const float sum = a + b;
    b = a - b;
    a = sum;
  }
  // Partners 1, 2, 4, ... columns apart: of one thread, of two, of two pieces.
  __device__ void rotate(Part& x) const {
#pragma unroll
    for (int half = 1; half < kWide<T>; half *= 2)
      if (half < p.dim)
#pragma unroll
        for (int i = 0; i < kPieces; ++i)
#pragma unroll
          for (int v = 0; v < kWide<T>; ++v)
            if ((v & half) == 0) butterfly(x[i][v], x[i][v + half]);
#pragma unroll 1
    for (int step = 1; step < p.lanes; step *= 2)
#pragma unroll
      for (int i = 0; i < kPieces; ++i)
#pragma unroll
        for (int v = 0; v < kWide<T>; ++v) {
          const float other = __shfl_xor_sync(0xffffffffu, x[i][v], step);
          x[i][v] = (lane & step) == 0 ? x[i][v] + other : other - x[i][v];
        }
#pragma unroll
    for (int half = 1; half < kPieces; half *= 2)
      if (half < pieces)
#pragma unroll
        for (int i = 0; i < kPieces; ++i)
          if ((i & half) == 0)
#pragma unroll
            for (int v = 0; v < kWide<T>; ++v) butterfly(x[i][v], x[i + half][v]);
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
#pragma unroll
      for (int v = 0; v < kWide<T>; ++v) x[i][v] *= p.factor;
  }
};

}  // namespace tessera::cuda::quantise
