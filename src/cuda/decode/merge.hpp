// The second kernel: ends the sequences that more than one block had a part of. A block for each packed row;
// pieces are merged in their order. What they left comes through shared memory, as much at once as there is
// room for: asked for a few at a time, 128 of them would take longer than everything else here.
#pragma once

#include "cuda/decode/finish.hpp"
#include "cuda/decode/run.hpp"
#include "cuda/ptx/async_copy.hpp"

namespace tessera::cuda::decode {

// What was left of a row: the pieces that the sequence's first block had, merged, then each of the others.
struct Slots {
  int at[kMostPieces + 1];        // in the workspace
  float2 state[kMostPieces + 1];  // row max and sum
  tile::MergeFactors step[kMostPieces + 1];
  float row_max;  // of all
};

// The number of slots of the sequence that begins at `start`; 0 where one block had all of it, and ended it.
__device__ inline int find_slots(const DecodeParams& d, const Line& line, const Entry& entry, long long start,
                                 Slots* slots) {
  const int cost = entry.cut.cost(), pieces = entry.cut.pieces;
  const int block = line.block_of(start);
  const auto in_first = static_cast<int>(first_from(line.first_of(block + 1), start, cost));
  if (in_first >= pieces) return 0;
  if (threadIdx.x == 0) slots->at[0] = block * d.slots;
  for (int piece = in_first + static_cast<int>(threadIdx.x); piece < pieces; piece += kMergeThreads) {
    const int owner = line.block_of(start + static_cast<long long>(piece) * cost);
    const auto owners_first = static_cast<int>(first_from(line.first_of(owner), start, cost));
    slots->at[1 + piece - in_first] = owner * d.slots + 1 + piece - owners_first;
  }
  return 1 + pieces - in_first;
}

// By one warp: what merge_state comes to, slot after slot. Only the largest row max so far goes from one slot
// to the next, which lanes find out together.
__device__ inline void find_steps(Slots* slots, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float before = tile::empty_softmax().row_max;
  for (int first = 0; first < count; first += 32) {
    const float own = first + lane < count ? slots->state[first + lane].x : before;
    float so_far = fmaxf(before, own);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_up_sync(0xffffffffu, so_far, step);
      if (lane >= step) so_far = fmaxf(so_far, other);
    }
    const float left = __shfl_up_sync(0xffffffffu, so_far, 1);
    if (first + lane < count)
      slots->step[first + lane] = {ptx::exp2_approx((lane == 0 ? before : left) - so_far),
                                   ptx::exp2_approx(own - so_far)};
    before = __shfl_sync(0xffffffffu, so_far, 31);
  }
  if (lane == 0) slots->row_max = before;
}

// A row's slots, and O of some of them in shared memory.
template <int kValueDim>
struct Left {
  static constexpr int kChunks = kValueDim / 4;  // of 16 bytes

  const DecodeParams& d;
  Slots* slots;
  float* staged;
  int row, count;

  __device__ const float* slot(int i) const {
    return d.partials + slots->at[i] * slot_floats(d.slot_rows, kValueDim);
  }
  __device__ void ask(int first, int end) const {
#pragma unroll 4
    for (int n = static_cast<int>(threadIdx.x); n < (end - first) * kChunks; n += kMergeThreads)
      ptx::copy_async_16(ptx::shared_address(staged + 4 * n),
                         slot(first + n / kChunks) + row * kValueDim + n % kChunks * 4, true);
    ptx::commit_copies();
  }
  __device__ void load_states() const {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kMergeThreads)
      slots->state[i] = *reinterpret_cast<const float2*>(slot(i) + d.slot_rows * kValueDim + 2 * row);
  }
  // Slots [first, end), two columns of each.
  __device__ void fold(int first, int end, int column, float& sum, float2& o) const {
#pragma unroll 8
    for (int i = first; i < end; ++i) {
      const float2 more = *reinterpret_cast<const float2*>(staged + (i - first) * kValueDim + column);
      const tile::MergeFactors f = slots->step[i];
      sum = merged(sum, slots->state[i].y, f);
      o = make_float2(merged(o.x, more.x, f), merged(o.y, more.y, f));
    }
  }
};

// `staged`: room for O of d.staged slots.
template <class T, int kValueDim>
__device__ inline void merge_row(const DecodeParams& d, Slots* slots, long long* search, float* staged) {
  const Params& p = d.problem;
  const int batch = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.x) / d.slot_rows,
            row = static_cast<int>(blockIdx.x) % d.slot_rows;
  if (tile::reads_lengths(p)) wait_for_kernels_before();
  long long start = 0;
  const Line line = find_entry<kMergeThreads>(d, batch, search, &start);
  const Entry entry = entry_of(d, batch);
  start += static_cast<long long>(sequence) * entry.cut.pieces * entry.cut.cost();
  const int count = find_slots(d, line, entry, start, slots);
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

  const int column = 2 * static_cast<int>(threadIdx.x);
  const Left<kValueDim> left{d, slots, staged, row, count};
  left.ask(0, min(d.staged, count));
  left.load_states();
  __syncthreads();
  if (threadIdx.x < 32) find_steps(slots, count);
  float sum = 0.0f;
  float2 o = make_float2(0.0f, 0.0f);
  for (int first = 0; first < count; first += d.staged) {
    const int end = min(first + d.staged, count);
    if (first > 0) {
      __syncthreads();  // all are done with what was there
      left.ask(first, end);
    }
    ptx::wait_copies<0>();
    __syncthreads();
    if (column < kValueDim) left.fold(first, end, column, sum, o);
  }
  const tile::RowIndex at = view.index(packed_row);
  const RowEnd end =
      end_row(p, view, at, {slots->row_max, sum}, {tile::OptionScores::factor(p)}, threadIdx.x == 0);
  const float x = o.x * end.inverse, y = o.y * end.inverse;
  write_pair(tile::output_row(p, view, at), column, p.sizes.value_dim, x, y);
  const float check = fmaf(x, 0.0f, y * 0.0f);
  const bool suspect = column < p.sizes.value_dim && check != check && end.sum == end.sum;
  if (__syncthreads_or(suspect ? 1 : 0) != 0 && threadIdx.x < 32)
    tile::careful_row<T>(p, batch, sequence / d.row_tiles, packed_row);
}

}  // namespace tessera::cuda::decode
