// The second kernel of variants whose pieces leave much behind (Config::large_ends): ends the sequences that
// several blocks have parts of. Who comes last would read it all by himself, some hundred KB; here every row
// has warps of its own. The bits are the same (merge.hpp).
//
//   grid: a block of the first kernel but the last, whose last sequence goes on in others' stretches; rows
#pragma once

#include "cuda/serving/kernel.hpp"

namespace tessera::cuda::serving {

template <Config C, class T, bool kOptions, class Kind>
struct RowMerger {
  static constexpr unsigned kAll = 0xffffffffu;
  static constexpr int kParts = merge_parts(C), kColumns = C.value_dim / kParts / 32;  // of a lane
  static constexpr int kMostSlots = 1 << kLargeChainShift;                             // of a chain

  struct Row {
    tile::SoftmaxState state = tile::empty_softmax();
    float x[kColumns] = {};

    __device__ void take(const tile::SoftmaxState& more, const float (&of)[kColumns]) {
      const tile::MergeFactors f = merge_state(state, more);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) x[c] = merged(x[c], of[c], f);
    }
  };

  const typename Kind::Params& d;
  const Slots& slots;
  Task& task;
  int row, column;  // the lane's first

  // What the slots of a chain hold, `mine` being lane n's n-th; all are asked for at once.
  __device__ Row chain(int mine, int count) const {
    float more[kMostSlots][kColumns];
    float2 state[kMostSlots];
#pragma unroll
    for (int n = 0; n < kMostSlots; ++n) {
      const int from = __shfl_sync(kAll, mine, n);
      if (n >= count) continue;
      const float* const slot = d.partials + from * slot_floats(d.slot_rows, C.value_dim);
      load_columns(more[n], slot + row * C.value_dim + column, [](const auto* at) { return __ldcg(at); });
      state[n] = __ldcg(reinterpret_cast<const float2*>(slot + d.slot_rows * C.value_dim + 2 * row));
    }
    Row of;
    if (count == 1) {  // as it is: to merge it with nothing would make -0 into 0
      of.state = {state[0].x, state[0].y};
#pragma unroll
      for (int c = 0; c < kColumns; ++c) of.x[c] = more[0][c];
      return of;
    }
#pragma unroll
    for (int n = 0; n < kMostSlots; ++n)
      if (n < count) of.take({state[n].x, state[n].y}, more[n]);
    return of;
  }
  __device__ void run() {
    Row all;
#pragma unroll 1
    for (task.chain = 0; task.chain < task.chains; ++task.chain) {
      int count = 1;
      int mine = slots.of_parts(&count);
      if (count == 1) mine = slots.of_chain(task.chain);  // one block had all of it
      const Row of = chain(mine, count);
      if (task.chains == 1) {
        all = of;
      } else {
        all.take(of.state, of.x);
      }
    }
    bool suspect = write_row<C, T, kOptions>(d, task, row, column, all.state, all.x);
    if constexpr (kParts > 1) suspect = __syncthreads_or(suspect ? 1 : 0) != 0 && threadIdx.x < 32;
    if (suspect) Kind::compute_carefully(&d, task.batch, task.pack_index, task.first_row + row);
  }
};

// The sequence that begins in a block's stretch and does not end there, if there is one.
template <int kKeys>
__device__ inline bool find_spanning(const ServingParams& d, int block, Line* line, Task* task) {
  Place place;
  Entry entry;
  bool others = false;
  *line = find_first(d, block + 1, &place, &entry, &others);
  if (place.n >= d.problem.sizes.batch * d.passes) return false;
  const int unit = first_from(line->first_of(block + 1), place.start, entry.cost);
  const int sequence = unit / entry.cut.pieces;
  if (unit == sequence * entry.cut.pieces) return false;
  *task = task_of<kKeys>(d, place.n, entry, place.start, sequence, 0, {0, 0});
  return line->block_of(task->line_at) == block;
}

template <Config C, class T, bool kOptions, class Kind = Wide<C, T, kOptions>>
__device__ __forceinline__ void merge_rows_of(const typename Kind::Params& d) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  // Kernels behind this one take its end for that of the one before it, too: so all blocks wait.
  if (!alike(d)) wait_for_kernels_before();
  Line line;
  Task task;
  const bool some = find_spanning<C.keys>(d, static_cast<int>(blockIdx.x), &line, &task);
  if (alike(d)) wait_for_kernels_before();
  if (!some) return;
  using Body = RowMerger<C, T, kOptions, Kind>;
  const int row = static_cast<int>(blockIdx.y) * merge_rows_at_once(C) + warp / Body::kParts;
  if (row >= min(d.slot_rows, task.rows - task.first_row)) return;
  const Slots slots{d, line, task};
  Body{d, slots, task, row, warp % Body::kParts * (32 * Body::kColumns) + Body::kColumns * lane}.run();
}

}  // namespace tessera::cuda::serving
