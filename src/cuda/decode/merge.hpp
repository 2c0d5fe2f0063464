// The second kernel: ends the sequences that more than one block had a part of. A block for each packed row,
// a thread for two columns; pieces are merged in their order.
#pragma once

#include "cuda/decode/finish.hpp"
#include "cuda/decode/run.hpp"

namespace tessera::cuda::decode {

template <int kValueDim>
inline constexpr int kMergeThreads = kValueDim / 2;

// Which slots hold a sequence: the pieces that its first block had, merged, then each of the others.
struct Slots {
  int* list;
  int count;
};
template <int kThreads>
__device__ inline Slots find_slots(const DecodeParams& d, const Line& line, const Entry& entry,
                                   long long start, int* list) {
  const int cost = entry.cut.cost(), pieces = entry.cut.pieces;
  const int block = line.block_of(start);
  const auto in_first = static_cast<int>(first_from(line.first_of(block + 1), start, cost));
  if (in_first >= pieces) return {list, 0};  // it had all of them, and ended the sequence itself
  if (threadIdx.x == 0) list[0] = block * d.slots;
  for (int piece = in_first + static_cast<int>(threadIdx.x); piece < pieces; piece += kThreads) {
    const int owner = line.block_of(start + static_cast<long long>(piece) * cost);
    const auto owners_first = static_cast<int>(first_from(line.first_of(owner), start, cost));
    list[1 + piece - in_first] = owner * d.slots + 1 + piece - owners_first;
  }
  return {list, 1 + pieces - in_first};
}

template <class T, int kValueDim>
__device__ inline void merge_row(const DecodeParams& d, int* list, long long* search) {
  constexpr int kThreads = kMergeThreads<kValueDim>;
  constexpr int kAhead = 8;  // slots that are loaded before the first of them is needed
  const Params& p = d.problem;
  const int batch = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.x) / d.slot_rows,
            row = static_cast<int>(blockIdx.x) % d.slot_rows;
  long long start = 0;
  const Line line = find_entry<kThreads>(d, batch, search, &start);
  const Entry entry = entry_of(d, batch);
  start += static_cast<long long>(sequence) * entry.cut.pieces * entry.cut.cost();
  const Slots slots = find_slots<kThreads>(d, line, entry, start, list);
  if (slots.count == 0) return;
  const tile::BlockView<T> view = tile::block_view<T>(p, batch, sequence / d.row_tiles);
  const int packed_row = sequence % d.row_tiles * d.slot_rows + row;
  if (packed_row >= view.rows) return;
  __syncthreads();

  const int column = 2 * static_cast<int>(threadIdx.x);
  tile::SoftmaxState state = tile::empty_softmax();
  float2 o = make_float2(0.0f, 0.0f);
  for (int first = 0; first < slots.count; first += kAhead) {
    float2 more[kAhead], states[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const float* const slot = d.partials + static_cast<long long>(list[min(first + i, slots.count - 1)]) *
                                                 d.slot_rows * (kValueDim + 2);
      more[i] = *reinterpret_cast<const float2*>(slot + row * kValueDim + column);
      states[i] = *reinterpret_cast<const float2*>(slot + d.slot_rows * kValueDim + 2 * row);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i >= slots.count) break;
      const tile::MergeFactors f = tile::merge(state, {states[i].x, states[i].y});
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
