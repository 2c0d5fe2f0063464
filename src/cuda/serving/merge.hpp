// The second kernel: ends the sequences that more than one block had a part of. Between every two blocks of
// the first kernel one may be cut: a few blocks here share its packed rows, a thread has two columns. Pieces
// are merged in their order.
#pragma once

#include "cuda/serving/finish.hpp"
#include "cuda/serving/run.hpp"

namespace tessera::cuda::serving {

template <int kValueDim>
inline constexpr int kMergeThreads = kValueDim / 2;

// What was left of a row, in shared memory: the pieces that the sequence's first block had, merged, then each
// of the others. All are asked for at once, as far as there is room.
template <int kValueDim>
struct Slots {
  static constexpr int kRoom = 32;

  alignas(16) float output[kRoom][kValueDim];
  float2 state[kMostPieces + 1];                // row max and sum
  tile::MergeFactors factors[kMostPieces + 1];  // of all before it, and its own
  int at[kMostPieces + 1];                      // in the workspace
};

// The number of slots of the sequence that begins at `start`, of which one block does not have all.
template <int kThreads, class Slots>
__device__ inline int find_slots(const ServingParams& d, const Line& line, const Entry& entry,
                                 long long start, Slots* slots) {
  const int cost = entry.cut.cost(), pieces = entry.cut.pieces;
  const int block = line.block_of(start);
  const auto in_first = static_cast<int>(first_from(line.first_of(block + 1), start, cost));
  if (threadIdx.x == 0) slots->at[0] = block * d.slots;
  for (int piece = in_first + static_cast<int>(threadIdx.x); piece < pieces; piece += kThreads) {
    const int owner = line.block_of(start + static_cast<long long>(piece) * cost);
    const auto owners_first = static_cast<int>(first_from(line.first_of(owner), start, cost));
    slots->at[1 + piece - in_first] = owner * d.slots + 1 + piece - owners_first;
  }
  return 1 + pieces - in_first;
}

// What merge_state would come to step by step, worked out for all slots at once, by one warp. Returns the
// row max of all.
template <class Slots>
__device__ inline float find_factors(Slots* slots, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float before = tile::empty_softmax().row_max;
  for (int first = 0; first < count; first += 32) {
    const float own = first + lane < count ? slots->state[first + lane].x : before;
    float row_max = fmaxf(before, own);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_up_sync(0xffffffffu, row_max, step);
      if (lane >= step) row_max = fmaxf(row_max, other);
    }
    const float left = __shfl_up_sync(0xffffffffu, row_max, 1);
    if (first + lane < count)
      slots->factors[first + lane] = {ptx::exp2_approx((lane == 0 ? before : left) - row_max),
                                      ptx::exp2_approx(own - row_max)};
    before = __shfl_sync(0xffffffffu, row_max, 31);
  }
  return before;
}

// Row `row` of a slot, of which there are `count`, is packed row `packed_row` of the entry.
template <class T, int kValueDim>
__device__ inline void merge_row(const ServingParams& d, Slots<kValueDim>* slots, int count, int row,
                                 const tile::AnyView<T>& view, int pack_index, int packed_row) {
  constexpr int kThreads = kMergeThreads<kValueDim>, kRoom = Slots<kValueDim>::kRoom;
  const Params& p = d.problem;
  const int thread = static_cast<int>(threadIdx.x), column = 2 * thread;
  const auto slot = [&](int i) { return d.partials + slots->at[i] * slot_floats(d.slot_rows, kValueDim); };
  const auto ask = [&](int first) {
    constexpr int kChunks = kValueDim / 4;  // of 16 bytes
    for (int n = thread; n < min(count - first, kRoom) * kChunks; n += kThreads) {
      const int i = n / kChunks, chunk = n % kChunks;
      ptx::copy_async_16(ptx::shared_address(&slots->output[i][4 * chunk]),
                         slot(first + i) + row * kValueDim + 4 * chunk, true);
    }
    ptx::commit_copies();
  };
  __syncthreads();  // the slots are known, and everyone is done with the row before
  ask(0);
  for (int i = thread; i < count; i += kThreads)
    slots->state[i] = *reinterpret_cast<const float2*>(slot(i) + d.slot_rows * kValueDim + 2 * row);
  __syncthreads();
  tile::SoftmaxState state = tile::empty_softmax();
  state.row_max = find_factors(slots, count);  // every warp the same
  float2 o = make_float2(0.0f, 0.0f);
  for (int first = 0; first < count; first += kRoom) {
    ptx::wait_copies<0>();
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < min(count - first, kRoom); ++i) {
      const tile::MergeFactors f = slots->factors[first + i];
      const float2 more = *reinterpret_cast<const float2*>(&slots->output[i][column]);
      state.sum = merged(state.sum, slots->state[first + i].y, f);
      o = make_float2(merged(o.x, more.x, f), merged(o.y, more.y, f));
    }
    if (first + kRoom >= count) break;
    __syncthreads();
    ask(first + kRoom);
  }
  const tile::RowIndex at = view.index(packed_row);
  const tile::RowEnd<T> end =
      end_row<T>(d, view, at, state, {tile::OptionScores::factor(p)}, threadIdx.x == 0);
  bool suspect = false;
  if (column < p.sizes.value_dim) {
    float x[2] = {o.x, o.y};
    if (d.plain != 0) {
      x[0] = end.output(x[0]), x[1] = end.output(x[1]);
    } else {
      end.finish(x, p.sizes.value_dim, [column](int i) { return column + i; });
    }
    tile::OutputRow<T>(p, view, at).put_pair(column, p.sizes.value_dim, x[0], x[1]);
    const float check = fmaf(x[0], 0.0f, column + 1 < p.sizes.value_dim ? x[1] * 0.0f : 0.0f);
    suspect = check != check && end.state.sum == end.state.sum;
  }
  if (__syncthreads_or(suspect ? 1 : 0) != 0 && threadIdx.x < 32)
    tile::careful_row<T, false, true>(p, view.batch, pack_index, packed_row);
}

// The sequence that block blockIdx.x + 1 of the first kernel begins inside of, if it does, and is the first
// to. Most have none; one waits all the same: when this kernel is done, so is the one before it.
template <class T, int kValueDim>
__device__ inline void merge_sequence(const ServingParams& d, Slots<kValueDim>* slots, long long* search) {
  constexpr int kThreads = kMergeThreads<kValueDim>;
  const Params& p = d.problem;
  const int block = static_cast<int>(blockIdx.x) + 1;
  if (d.reads_lengths != 0 || (blockIdx.x == 0 && blockIdx.y == 0)) wait_for_kernels_before();
  Place place;
  const Line line = find_first<kThreads>(d, block, search, &place);
  const Entry entry = place.batch < p.sizes.batch ? entry_of(d, place.batch) : Entry{};
  const auto unit = static_cast<int>(first_from(line.first_of(block), place.start, entry.cut.cost()));
  if (unit >= entry.units() || unit % entry.cut.pieces == 0) return;
  const int sequence = unit / entry.cut.pieces;
  const long long start =
      place.start + static_cast<long long>(sequence) * entry.cut.pieces * entry.cut.cost();
  if (line.block_of(start) + 1 != block) return;
  const int pack_index = sequence / entry.row_tiles, first_row = entry.row_tile(sequence) * d.tile_rows;
  const tile::AnyView<T> view = view_of<T>(d, place.batch, pack_index);
  __syncthreads();  // what the search left is read
  const int count = find_slots<kThreads>(d, line, entry, start, slots);
  wait_for_kernels_before();
#pragma unroll 1
  for (int row = static_cast<int>(blockIdx.y); row < min(d.slot_rows, view.rows - first_row);
       row += static_cast<int>(gridDim.y))
    merge_row<T, kValueDim>(d, slots, count, row, view, pack_index, first_row + row);
}

}  // namespace tessera::cuda::serving
