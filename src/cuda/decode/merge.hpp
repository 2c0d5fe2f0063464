// The second kernel: ends the sequences that more than one block had a part of. A block for each packed row,
// a thread for two columns. First the softmax states alone, by one warp; then O, by factors that are known.
#pragma once

#include "cuda/decode/finish.hpp"
#include "cuda/decode/run.hpp"

namespace tessera::cuda::decode {

template <int kValueDim>
inline constexpr int kMergeThreads = kValueDim / 2;

// What was left of a row, in shared memory, unit by unit.
struct Units {
  const float* slot[kMostPieces];
  tile::MergeFactors in_chain[kMostPieces];  // the chain so far, and the unit
  tile::MergeFactors in_total[kMostPieces];  // by chain: the total so far, and the chain
  tile::SoftmaxState chain[kMostPieces];
  tile::SoftmaxState total;
};

// Units of a chain: four pieces, or the chain itself.
__device__ inline int chain_units(const Line& line) { return line.chains ? 1 : kChain; }

// Where each unit of a sequence is that begins at `start`.
template <int kThreads>
__device__ inline void find_units(const DecodeParams& d, const Line& line, const Entry& entry,
                                  long long start, int slot_floats, Units* units) {
  const int cost = entry.cut.cost(line.chains), count = entry.cut.units(line.chains);
  for (int unit = static_cast<int>(threadIdx.x); unit < count; unit += kThreads) {
    const int owner = line.block_of(start + static_cast<long long>(unit) * cost);
    const auto first = static_cast<int>(first_from(line.first_of(owner), start, cost));
    units->slot[unit] = d.partials + (first_slot(d, owner, first == 0) + unit - first) * slot_floats;
  }
}

// By one warp: each lane merges chains; then, the largest row max up to each chain being known, all factors.
__device__ inline void merge_states(Units* units, int count, int in_chain, int row, int state_offset) {
  const int lane = static_cast<int>(threadIdx.x), chains = ceil_divide(count, in_chain);
  float largest = tile::kLowest;  // of the chains before the ones at hand
  for (int first = 0; first < chains; first += 32) {
    const int chain = first + lane;
    tile::SoftmaxState state = tile::empty_softmax();
    if (chain < chains) {
      for (int unit = chain * in_chain; unit < min((chain + 1) * in_chain, count); ++unit) {
        const float2 more = *reinterpret_cast<const float2*>(units->slot[unit] + state_offset + 2 * row);
        units->in_chain[unit] = merge_state(state, {more.x, more.y});
      }
      units->chain[chain] = state;
    }
    float upto = fmaxf(largest, state.row_max);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_up_sync(0xffffffffu, upto, step);
      if (lane >= step) upto = fmaxf(upto, other);
    }
    const float before = __shfl_up_sync(0xffffffffu, upto, 1);
    if (chain < chains) {
      tile::SoftmaxState so_far = {lane == 0 ? largest : before, 0.0f};
      units->in_total[chain] = merge_state(so_far, state);
    }
    largest = __shfl_sync(0xffffffffu, upto, 31);
  }
  __syncwarp();
  if (lane == 0) {
    float sum = 0.0f;
    for (int chain = 0; chain < chains; ++chain)
      sum = merged(sum, units->chain[chain].sum, units->in_total[chain]);
    units->total = {largest, sum};
  }
}

template <class T, int kValueDim>
__device__ inline void merge_row(const DecodeParams& d, Units* units, Search* search) {
  constexpr int kThreads = kMergeThreads<kValueDim>;
  const Params& p = d.problem;
  const int batch = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.x) / d.slot_rows,
            row = static_cast<int>(blockIdx.x) % d.slot_rows;
  long long start = 0;
  const Line line = find_entry<kThreads>(d, batch, search, &start);
  const Entry entry = entry_of(d, batch);
  const int count = entry.cut.units(line.chains), cost = entry.cut.cost(line.chains);
  start += static_cast<long long>(sequence) * count * cost;
  if (line.block_of(start) == line.block_of(start + static_cast<long long>(count - 1) * cost))
    return;  // one block had all of it
  const tile::BlockView<T> view = tile::block_view<T>(p, batch, sequence / d.row_tiles);
  const int packed_row = sequence % d.row_tiles * d.slot_rows + row;
  if (packed_row >= view.rows) return;

  find_units<kThreads>(d, line, entry, start, d.slot_rows * (kValueDim + 2), units);
  __syncthreads();
  if (threadIdx.x < 32) merge_states(units, count, chain_units(line), row, d.slot_rows * kValueDim);
  __syncthreads();

  const int column = 2 * static_cast<int>(threadIdx.x), in_chain = chain_units(line);
  float2 o = make_float2(0.0f, 0.0f);
#pragma unroll 2
  for (int first = 0; first < count; first += in_chain) {
    float2 more[kChain], chain = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int i = 0; i < kChain; ++i)
      if (i < in_chain && first + i < count)
        more[i] = *reinterpret_cast<const float2*>(units->slot[first + i] + row * kValueDim + column);
#pragma unroll
    for (int i = 0; i < kChain; ++i)
      if (i < in_chain && first + i < count) {
        const tile::MergeFactors f = units->in_chain[first + i];
        chain = make_float2(merged(chain.x, more[i].x, f), merged(chain.y, more[i].y, f));
      }
    const tile::MergeFactors f = units->in_total[line.chains ? first : first / kChain];
    o = make_float2(merged(o.x, chain.x, f), merged(o.y, chain.y, f));
  }
  const tile::RowIndex at = view.index(packed_row);
  const RowEnd end = end_row(p, view, at, units->total, {tile::OptionScores::factor(p)}, threadIdx.x == 0);
  const float x = o.x * end.inverse, y = o.y * end.inverse;
  write_pair(tile::output_row(p, view, at), column, p.sizes.value_dim, x, y);
  const float check = fmaf(x, 0.0f, y * 0.0f);
  const bool suspect = column < p.sizes.value_dim && check != check && end.sum == end.sum;
  if (__syncthreads_or(suspect ? 1 : 0) != 0 && threadIdx.x < 32)
    tile::careful_row<T>(p, batch, sequence / d.row_tiles, packed_row);
}

}  // namespace tessera::cuda::decode
