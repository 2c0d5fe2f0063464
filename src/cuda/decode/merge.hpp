// The second kernel: ends the sequences that more than one block had a part of. A block for each packed row,
// a thread for two columns; pieces are merged in their order.
#pragma once

#include "cuda/decode/finish.hpp"
#include "cuda/decode/run.hpp"

namespace tessera::cuda::decode {

template <int kValueDim>
inline constexpr int kMergeThreads = kValueDim / 2;

// What was left of a row, in shared memory: the pieces that the sequence's first block had, merged, then each
// of the others.
struct Slots {
  int at[kMostPieces + 1];        // in the workspace
  float2 state[kMostPieces + 1];  // row max and sum
};

// The number of slots of the sequence that begins at `start`; 0 where one block had all of it, and ended it.
template <int kThreads>
__device__ inline int find_slots(const DecodeParams& d, const Line& line, const Entry& entry, long long start,
                                 Slots* slots) {
  const int cost = entry.cut.cost(), pieces = entry.cut.pieces;
  const int block = line.block_of(start);
  const auto in_first = static_cast<int>(first_from(line.first_of(block + 1), start, cost));
  if (in_first >= pieces) return 0;
  if (threadIdx.x == 0) slots->at[0] = block * d.slots;
  for (int piece = in_first + static_cast<int>(threadIdx.x); piece < pieces; piece += kThreads) {
    const int owner = line.block_of(start + static_cast<long long>(piece) * cost);
    const auto owners_first = static_cast<int>(first_from(line.first_of(owner), start, cost));
    slots->at[1 + piece - in_first] = owner * d.slots + 1 + piece - owners_first;
  }
  return 1 + pieces - in_first;
}

template <class T, int kValueDim>
__device__ inline void merge_row(const DecodeParams& d, Slots* slots, long long* search) {
  constexpr int kThreads = kMergeThreads<kValueDim>;
  constexpr int kAhead = 8;  // slots that are loaded before the ones before them are merged
  const Params& p = d.problem;
  const int batch = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.x) / d.slot_rows,
            row = static_cast<int>(blockIdx.x) % d.slot_rows;
  if (tile::reads_lengths(p)) wait_for_kernels_before();
  long long start = 0;
  const Line line = find_entry<kThreads>(d, batch, search, &start);
  const Entry entry = entry_of(d, batch);
  start += static_cast<long long>(sequence) * entry.cut.pieces * entry.cut.cost();
  const int count = find_slots<kThreads>(d, line, entry, start, slots);
  if (count == 0) {
    // Kernels behind this one take its end for that of the one before it, too: one block has to await that.
    if (blockIdx.x == 0 && blockIdx.y == 0) wait_for_kernels_before();
    return;
  }
  const tile::BlockView<T> view = tile::block_view<T>(p, batch, sequence / d.row_tiles);
  const int packed_row = sequence % d.row_tiles * d.slot_rows + row;
  if (packed_row >= view.rows) return;
  __syncthreads();
  wait_for_kernels_before();

  const int thread = static_cast<int>(threadIdx.x), column = 2 * thread;
  const auto slot = [&](int i) {
    return d.partials + static_cast<long long>(slots->at[i]) * d.slot_rows * (kValueDim + 2);
  };
  float2 next[kAhead];
  const auto load = [&](int first) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (first + i < count)
        next[i] = *reinterpret_cast<const float2*>(slot(first + i) + row * kValueDim + column);
  };
  load(0);
  for (int i = thread; i < count; i += kThreads)
    slots->state[i] = *reinterpret_cast<const float2*>(slot(i) + d.slot_rows * kValueDim + 2 * row);
  __syncthreads();
  tile::SoftmaxState state = tile::empty_softmax();
  float2 o = make_float2(0.0f, 0.0f);
  for (int first = 0; first < count; first += kAhead) {
    float2 more[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) more[i] = next[i];
    load(first + kAhead);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i >= count) break;
      const float2 its = slots->state[first + i];
      const tile::MergeFactors f = merge_state(state, {its.x, its.y});
      o = make_float2(merged(o.x, more[i].x, f), merged(o.y, more[i].y, f));
    }
  }
  const tile::RowIndex at = view.index(packed_row);
  const RowEnd end = end_row(p, view, at, state, {tile::OptionScores::factor(p)}, threadIdx.x == 0);
  const float x = o.x * end.inverse, y = o.y * end.inverse;
  write_pair(tile::output_row(p, view, at), column, p.sizes.value_dim, x, y);
  const float check = fmaf(x, 0.0f, y * 0.0f);
  const bool suspect = column < p.sizes.value_dim && check != check && end.sum == end.sum;
  if (__syncthreads_or(suspect ? 1 : 0) != 0 && threadIdx.x < 32)
    tile::careful_row<T>(p, batch, sequence / d.row_tiles, packed_row);
}

}  // namespace tessera::cuda::decode
