// The second kernel: ends the sequences that more than one block had a part of. For every block of the first
// kernel, which may have begun one, a few blocks here share its packed rows. Pieces are merged in their
// order; all of them are asked for at once, as far as there is room.
#pragma once

#include "cuda/serving/dispatch.hpp"
#include "cuda/serving/finish.hpp"
#include "cuda/serving/run.hpp"

namespace tessera::cuda::serving {

template <int kValueDim>
struct MergeShared {
  static constexpr int kRoom = kMergeRoom;

  alignas(16) float output[kRoom][kValueDim];
  float2 state[kMostPieces + 1];  // row max and sum
  int at[kMostPieces + 1];        // in the workspace
};

// Of the sequence that this block of the first kernel began and did not end.
__device__ inline Note find_note(const ServingParams& d, int block) {
  if (!alike(d)) return *reinterpret_cast<const Note*>(d.notes + block * kNoteWords);
  const Line line{d.alike.share, d.alike.rest};
  const int pieces = d.alike.pieces, end = line.first_of(block + 1);
  const int start = d.alike.by_pieces.divide(end - 1) * pieces;
  if (start + pieces == end || start < line.first_of(block)) return {.pieces = 0};
  const int batch = d.alike.by_units.divide(start);
  const Entry entry = entry_alike(d);
  const int sequence = d.alike.by_pieces.divide(start - batch * d.alike.units);
  return note_of(task_of<kTileKeys>(d, batch, entry, sequence, 0, end - start), entry, start, line);
}

// Its slots: the pieces that its first block had, merged, then each of the others.
template <class Memory>
__device__ inline int find_slots(const ServingParams& d, const Note& note, int block, Memory* memory) {
  if (threadIdx.x == 0) memory->at[0] = block * d.slots;
  for (int piece = note.in_first + static_cast<int>(threadIdx.x); piece < note.pieces;
       piece += kMergeThreads) {
    const int owner = note.line.block_of(note.start + piece * note.cost);
    const int owners_first = first_from(note.line.first_of(owner), note.start, note.cost);
    memory->at[1 + piece - note.in_first] = owner * d.slots + 1 + piece - owners_first;
  }
  return 1 + note.pieces - note.in_first;
}

// What merge_state comes to step by step, worked out for 32 slots at once: lane n has slot n's. `before`: the
// row max of those before them.
struct LaneFactors {
  tile::MergeFactors f;
  float sum;

  __device__ LaneFactors(const float2* state, int count, float* before) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const float2 own = lane < count ? state[lane] : make_float2(*before, 0.0f);
    float row_max = fmaxf(*before, own.x);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_up_sync(0xffffffffu, row_max, step);
      if (lane >= step) row_max = fmaxf(row_max, other);
    }
    const float left = __shfl_up_sync(0xffffffffu, row_max, 1);
    f = {ptx::exp2_approx((lane == 0 ? *before : left) - row_max), ptx::exp2_approx(own.x - row_max)};
    sum = own.y;
    *before = __shfl_sync(0xffffffffu, row_max, 31);
  }
};

// One packed row, by the block.
template <class T, int kValueDim, bool kOptions>
__device__ inline void merge_row(const ServingParams& d, MergeShared<kValueDim>* memory, int count, int row,
                                 const tile::AnyView<T>& view, int pack_index, int packed_row) {
  using Memory = MergeShared<kValueDim>;
  constexpr int kChunks = kValueDim / 4;  // of 16 bytes
  const Params& p = d.problem;
  const int thread = static_cast<int>(threadIdx.x), column = 2 * thread;
  const auto slot = [&](int n) { return d.partials + memory->at[n] * slot_floats(d.slot_rows, kValueDim); };
  const auto ask = [&](int first) {
#pragma unroll 4
    for (int n = thread; n < min(count - first, Memory::kRoom) * kChunks; n += kMergeThreads)
      ptx::copy_async_16(ptx::shared_address(&memory->output[n / kChunks][n % kChunks * 4]),
                         slot(first + n / kChunks) + row * kValueDim + n % kChunks * 4, true);
    ptx::commit_copies();
  };
  ask(0);
  for (int n = thread; n < count; n += kMergeThreads)
    memory->state[n] = *reinterpret_cast<const float2*>(slot(n) + d.slot_rows * kValueDim + 2 * row);
  tile::SoftmaxState state = tile::empty_softmax();
  float2 o = make_float2(0.0f, 0.0f);
#pragma unroll 1
  for (int first = 0; first < count; first += Memory::kRoom) {
    ptx::wait_copies<0>();
    __syncthreads();
#pragma unroll 1
    for (int group = first; group < min(count, first + Memory::kRoom); group += 32) {
      const LaneFactors lanes(memory->state + group, count - group, &state.row_max);
#pragma unroll 8
      for (int i = 0; i < min(count - group, 32); ++i) {
        const tile::MergeFactors f = {__shfl_sync(0xffffffffu, lanes.f.first, i),
                                      __shfl_sync(0xffffffffu, lanes.f.second, i)};
        state.sum = merged(state.sum, __shfl_sync(0xffffffffu, lanes.sum, i), f);
        if (column < kValueDim) {
          const float2 more = *reinterpret_cast<const float2*>(&memory->output[group - first + i][column]);
          o = make_float2(merged(o.x, more.x, f), merged(o.y, more.y, f));
        }
      }
    }
    if (first + Memory::kRoom >= count) break;
    __syncthreads();
    ask(first + Memory::kRoom);
  }
  const tile::RowIndex at = view.index(packed_row);
  const tile::RowEnd<T> end = end_row<kOptions>(p, view, at, state, d.few != 0, thread == 0);
  bool suspect = false;
  if (column < p.sizes.value_dim) {
    float x[2] = {o.x, o.y};
    if (kOptions && p.priors.parts > 0) {
      end.finish(x, p.sizes.value_dim, [column](int i) { return column + i; });
    } else {
      x[0] = end.output(x[0]), x[1] = end.output(x[1]);
    }
    const tile::OutputRow<T> out(p, view, at);
    if constexpr (kOptions) {
      out.put_pair(column, p.sizes.value_dim, x[0], x[1]);
    } else {
      store_pair(out, column, x[0], x[1]);
    }
    const float check = fmaf(x[0], 0.0f, column + 1 < p.sizes.value_dim ? x[1] * 0.0f : 0.0f);
    suspect = check != check && end.state.sum == end.state.sum;
  }
  if (__syncthreads_or(suspect ? 1 : 0) != 0 && threadIdx.x < 32)
    compute_carefully<T>(&p, view.batch, pack_index, packed_row);
}

// What block blockIdx.x of the first kernel has left, if anything. Most have nothing; one waits all the same:
// when this kernel is done, so is the one before it.
template <class T, int kValueDim, bool kOptions>
__device__ inline void merge_sequence(const ServingParams& d, MergeShared<kValueDim>* memory) {
  const auto block = static_cast<int>(blockIdx.x);
  if (!alike(d) || (block == 0 && blockIdx.y == 0)) wait_for_kernels_before();
  const Note note = find_note(d, block);
  if (note.pieces == 0) return;
  Task task;  // as much of it as a view needs
  task.batch = note.batch;
  task.pack_index = note.pack_index;
  task.rows = note.rows;
  task.first_query = note.first_query;
  task.keys = note.keys;
  task.offset = note.offset;
  const tile::AnyView<T> view = view_of<T>(d.problem, task);
  const int count = find_slots(d, note, block, memory);
  __syncthreads();
  wait_for_kernels_before();
#pragma unroll 1
  for (int row = static_cast<int>(blockIdx.y); row < min(d.slot_rows, note.rows - note.first_row);
       row += static_cast<int>(gridDim.y))
    merge_row<T, kValueDim, kOptions>(d, memory, count, row, view, note.pack_index, note.first_row + row);
}

}  // namespace tessera::cuda::serving
