// Chains and sequences that more than one block has a part of, and sequences of several chains: what there is
// of them is left in the workspace, and who comes last merges it, in its order. By a block's consumers, of
// which each warp has a row at a time.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/global_atomic.hpp"
#include "cuda/serving/few.hpp"

namespace tessera::cuda::serving {

static_assert(kMostAtOnce >= 1 << kChainShift && kMostAtOnce >= kMostPieces >> kChainShift &&
              kMostAtOnce >= kMostLargePieces >> kLargeChainShift);

// Counts `more` in and says whether that makes `all`. A counter begins at kNone, and who comes last leaves it
// there, so one addition is all that it takes, and nobody waits for a turn. Memory that no call has counted
// in yet holds anything: who finds that sets the counter, or, if another has, counts in again.
__device__ inline bool arrive(unsigned long long* counter, int more, int all) {
  const auto add = static_cast<unsigned long long>(more);
  unsigned long long was = ptx::add_and_order(counter, add);
  while (was - kNone >= kMostAtOnce) {
    const unsigned long long other = was + add;
    was = ptx::swap_and_order(counter, other, kNone + add);
    if (was == other) {
      was = kNone;
    } else if (was - kNone < kMostAtOnce) {
      was = ptx::add_and_order(counter, add);
    } else {
      was -= add;
    }
  }
  if (was + add != kNone + static_cast<unsigned long long>(all)) return false;
  *counter = kNone;
  return true;
}

// Row max and sum of up to 32 slots, lane n having slot n's: what merge_state comes to step by step.
struct LaneFactors {
  tile::MergeFactors f;
  float row_max, sum;  // row_max: of all

  __device__ explicit LaneFactors(const float2& own) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float so_far = fmaxf(tile::kLowest, own.x);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_up_sync(0xffffffffu, so_far, step);
      if (lane >= step) so_far = fmaxf(so_far, other);
    }
    const float left = __shfl_up_sync(0xffffffffu, so_far, 1);
    f = {ptx::exp2_approx((lane == 0 ? tile::kLowest : left) - so_far), ptx::exp2_approx(own.x - so_far)};
    sum = own.y;
    row_max = __shfl_sync(0xffffffffu, so_far, 31);
  }
};

// Divides and writes a row from `column` on, some neighbours to each lane of a warp; says whether it holds
// NaN although its sum does not.
template <Config C, class T, bool kOptions, int kColumns>
__device__ inline bool write_row(const ServingParams& d, const Task& task, int row, int column,
                                 const tile::SoftmaxState& state, float (&x)[kColumns]) {
  const Params& p = d.problem;
  const tile::AnyView<T> view = view_of<T>(p, task);
  const tile::RowIndex at = view.index(task.first_row + row);
  const tile::RowEnd<T> of = end_row<kOptions>(p, view, at, state, C.exponents(), column == 0);
  const tile::OutputRow<T> out(p, view, at);
  if (kOptions && p.priors.parts > 0) {
    of.finish(x, p.sizes.value_dim, [column](int i) { return column + i; });
  } else {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) x[c] = of.output(x[c]);
  }
  float check = 0.0f;  // NaN where one is not finite
#pragma unroll
  for (int c = 0; c < kColumns; c += 2) {
    if (column + c < p.sizes.value_dim) check = fmaf(x[c], 0.0f, check);
    if (column + c + 1 < p.sizes.value_dim) check = fmaf(x[c + 1], 0.0f, check);
    if constexpr (kOptions) {
      put_pair<C>(d, out, column + c, x[c], x[c + 1]);
    } else if (column + c < p.sizes.value_dim) {
      store_pair(out, column + c, x[c], x[c + 1]);
    }
  }
  return __any_sync(0xffffffffu, check != check && (C.coded() || of.state.sum == of.state.sum));
}

// kColumns neighbours.
template <int kColumns, class Read>
__device__ inline void load_columns(float (&x)[kColumns], const float* from, const Read& read) {
  constexpr int kWide = kColumns < 4 ? 2 : 4;
#pragma unroll
  for (int c = 0; c < kColumns; c += kWide) {
    if constexpr (kWide == 2) {
      const float2 y = read(reinterpret_cast<const float2*>(from + c));
      x[c] = y.x, x[c + 1] = y.y;
    } else {
      const float4 y = read(reinterpret_cast<const float4*>(from + c));
      x[c] = y.x, x[c + 1] = y.y, x[c + 2] = y.z, x[c + 3] = y.w;
    }
  }
}

template <Config C, class T, bool kOptions>
struct Merger {
  static constexpr unsigned kAll = 0xffffffffu;
  static constexpr int kColumns = C.value_dim / 32;  // of a lane
  static constexpr int kAtOnce = kColumns <= 8        ? 4
                                 : C.sum_in_registers ? 1
                                                      : 2;  // slots, where they go to registers
  static constexpr int kRowsAtOnce = C.merge_rows();

  const ServingParams& d;
  Shared<C>& shared;
  const Task& task;
  bool ring_is_free;
  const Slots slots{d, shared.line, task};

  __device__ static int lane() { return thread<C>() % 32; }
  __device__ static int warp() { return thread<C>() / 32; }
  __device__ float* slot(int n) const { return d.partials + n * slot_floats(d.slot_rows, C.value_dim); }

  // By the block, which has stored `more` of `all`: whether it comes last.
  __device__ bool comes_last(int block, bool of_chains, int more, int all) const {
    meet<C>();
    if (threadIdx.x == 0) shared.last = arrive(d.counters + 2 * block + (of_chains ? 1 : 0), more, all);
    meet<C>();
    return shared.last;
  }

  // A warp's rows that are merged at once: row `first` and those C.warps() apart.
  struct Rows {
    int first, count;
    tile::SoftmaxState state[kRowsAtOnce];
    float x[kRowsAtOnce][kColumns];  // of the lane

    __device__ int row(int j) const { return first + j * C.warps(); }
  };

  // Lane n knows the n-th slot, `mine`. What they come to goes to slot `to`, or is written where that is -1.
  // Returns which rows hold NaN although their sums do not: bit i is row warp() + i * C.warps().
  __device__ unsigned merge(int count, int mine, int to) const {
    // Where no tiles are to come, each warp has a part of the ring: so many floats, and so many rows.
    constexpr int kRoom = C.stages * C.slot_bytes() / C.warps() / 4;
    const int staged = ring_is_free ? min(kRoom / (count * C.value_dim), kRowsAtOnce) : 0;
    const int rows = min(d.slot_rows, task.rows - task.first_row), at_once = max(staged, 1);
    unsigned suspects = 0;
    Rows of;
    for (of.first = warp(); of.first < rows; of.first += at_once * C.warps()) {
      of.count = min((rows - of.first + C.warps() - 1) / C.warps(), at_once);
      if (staged > 0) {
        fold_staged(of, count, mine, reinterpret_cast<float*>(shared.ring) + warp() * kRoom);
      } else {
        fold(of, count, mine);
      }
#pragma unroll 1
      for (int j = 0; j < of.count; ++j) {
        if (end_row_at(of.row(j), of.state[0], of.x[0], to)) suspects |= 1u << of.row(j) / C.warps();
#pragma unroll
        for (int k = 0; k + 1 < kRowsAtOnce; ++k) {  // an index that is not known would take memory
          of.state[k] = of.state[k + 1];
#pragma unroll
          for (int c = 0; c < kColumns; ++c) of.x[k][c] = of.x[k + 1][c];
        }
      }
    }
    return suspects;
  }
  __device__ bool end_row_at(int row, const tile::SoftmaxState& state_of, float (&x)[kColumns],
                             int to) const {
    if (to < 0) return write(row, state_of, x);
#pragma unroll
    for (int c = 0; c < kColumns; c += 2)
      *reinterpret_cast<float2*>(slot(to) + row * C.value_dim + kColumns * lane() + c) =
          make_float2(x[c], x[c + 1]);
    if (lane() == 0) *state(to, row) = make_float2(state_of.row_max, state_of.sum);
    return false;
  }

  // The steps of row j of `rows`, from what the lane knows.
  __device__ void prepare(Rows& rows, int j, const float2& own) const {
    const LaneFactors lanes(own);
    rows.state[j] = {lanes.row_max, 0.0f};
#pragma unroll
    for (int c = 0; c < kColumns; ++c) rows.x[j][c] = 0.0f;
    shared.steps[warp()][j][lane()] = {lanes.f.first, lanes.f.second, lanes.sum, 0.0f};
  }
  __device__ void take(Rows& rows, int j, int n, const float (&more)[kColumns]) const {
    const MergeStep step = shared.steps[warp()][j][n];
    const tile::MergeFactors f = {step.first, step.second};
    rows.state[j].sum = merged(rows.state[j].sum, step.sum, f);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) rows.x[j][c] = merged(rows.x[j][c], more[c], f);
  }

  // By way of the ring: everything is asked for at once.
  __device__ void fold_staged(Rows& rows, int count, int mine, float* room) const {
    constexpr int kChunks = C.value_dim / 4;  // of 16 bytes
    const int all = count * C.value_dim;      // of a row
    __syncwarp();                             // all have read what was there
#pragma unroll 1
    for (int j = 0; j < rows.count; ++j)
#pragma unroll 4
      for (int n = lane(); n - lane() < count * kChunks; n += 32) {
        const int from = __shfl_sync(kAll, mine, n / kChunks);
        if (n < count * kChunks)
          ptx::copy_async_16(ptx::shared_address(room + j * all + 4 * n),
                             slot(from) + rows.row(j) * C.value_dim + n % kChunks * 4, true);
      }
    ptx::commit_copies();
    float2 own[kRowsAtOnce];
#pragma unroll
    for (int j = 0; j < kRowsAtOnce; ++j)
      own[j] = j < rows.count && lane() < count ? __ldcg(state(mine, rows.row(j)))
                                                : make_float2(tile::kLowest, 0.0f);
#pragma unroll
    for (int j = 0; j < kRowsAtOnce; ++j) prepare(rows, j, own[j]);
    ptx::wait_copies<0>();
    __syncwarp();
#pragma unroll(C.keys_apart() ? 8 : 2)
    for (int n = 0; n < count; ++n)
#pragma unroll
      for (int j = 0; j < kRowsAtOnce; ++j) {
        float more[kColumns];
        load_columns(more, room + min(j, rows.count - 1) * all + n * C.value_dim + kColumns * lane(),
                     [](const auto* from) { return *from; });
        take(rows, j, n, more);
      }
  }
  // Through registers, one row.
  __device__ void fold(Rows& rows, int count, int mine) const {
    const int row = rows.row(0);
    const float2 own = lane() < count ? __ldcg(state(mine, row)) : make_float2(tile::kLowest, 0.0f);
    __syncwarp();  // all have read what was there
    prepare(rows, 0, own);
    __syncwarp();
#pragma unroll 1
    for (int first = 0; first < count; first += kAtOnce) {
      float more[kAtOnce][kColumns];
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
        const int from = __shfl_sync(kAll, mine, first + n);
        if (first + n < count)
          load_columns(more[n], slot(from) + row * C.value_dim + kColumns * lane(),
                       [](const auto* at) { return __ldcg(at); });
      }
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n)
        if (first + n < count) take(rows, 0, first + n, more[n]);
    }
  }
  __device__ float2* state(int n, int row) const {
    return reinterpret_cast<float2*>(slot(n) + d.slot_rows * C.value_dim + 2 * row);
  }

  __device__ bool write(int row, const tile::SoftmaxState& state, float (&x)[kColumns]) const {
    return write_row<C, T, kOptions>(d, task, row, kColumns * lane(), state, x);
  }

  // The block has left what it has of a chain; `whole`: all of it, in the chain's slot. Returns what merge()
  // does.
  __device__ unsigned end(bool whole) const {
    unsigned suspects = 0;
#pragma unroll 1
    for (bool of_chains = whole;; of_chains = true) {
      const bool ends = of_chains || task.chains == 1;  // the sequence
      if (!(of_chains ? all_chains_there() : all_pieces_there())) return 0;
      int count = task.chains;
      const int mine = of_chains ? slots.of_chain(min(lane(), count - 1)) : slots.of_parts(&count);
      suspects = merge(count, mine, ends ? -1 : slots.of_chain(task.chain));
      if (ends) break;
    }
    if (task.alone) meet<C>();  // the block's next sequence gets the same slots
    return suspects;
  }
  __device__ bool all_chains_there() const {
    if (!task.alone) return comes_last(slots.line.block_of(task.line_at), true, 1, task.chains);
    if (task.chain + 1 < task.chains) return false;
    __threadfence();
    meet<C>();
    return true;
  }
  __device__ bool all_pieces_there() const {
    return comes_last(slots.chain_owner(), false, task.end_piece - task.first_piece,
                      slots.chain_end() - slots.chain_first());
  }
};

}  // namespace tessera::cuda::serving
