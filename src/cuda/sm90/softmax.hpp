// The softmax of a tile of scores: what a row's first tile, any later one, and one that has grown need. The
// steps are tile/row_softmax.hpp's.
#pragma once

#include "cuda/sm90/fragments.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda::sm90 {

using tile::RowState;

inline constexpr int kChains = 4;

// The first tile of a row.
template <Config C, class T, class Factor>
__device__ inline void start_softmax(Probs<C>& probs, const Scores<C>& s, RowState& rows, Factor factor) {
  tile::start_row_max<kChains>(s, rows, factor);
  tile::exponentiate<T>(probs, s, rows, factor, rows.sum);
}

// Any later one, shifted by the row max or more (exponentiate_shifted), as long as nothing has grown too far.
// False if something has: then only P is written, and grown_softmax is to follow.
template <auto C, class T, class Shift, class Factor>
__device__ inline bool continue_softmax(Probs<C>& probs, const Scores<C>& s, RowState& rows,
                                        const Shift& shift, Factor factor) {
  float sum[2];
  tile::exponentiate_shifted<T, C.thread_rows()>(probs, s, shift, tile::row_factors(rows, factor), sum);
  if (tile::any_grown<C.thread_rows()>(sum)) return false;
  tile::add_sums<C.thread_rows()>(rows, sum);
  return true;
}

// Some row of the warp has a factor of its own (tile::MaskedFactor). One that has seen nothing yet has not.
__device__ inline bool any_far_out(const RowState& rows) {
  const auto far_out = [](float x) { return tile::is_far_out(x) && x != tile::kLowest; };
  return __any_sync(0xffffffffu, far_out(rows.row_max[0]) || far_out(rows.row_max[1]));
}

// The same by the row max alone: nothing else is to be added to the scores any more.
template <auto C, class T, class Factor>
__device__ inline bool continue_softmax(Probs<C>& probs, const Scores<C>& s, RowState& rows, Factor factor) {
  return continue_softmax<C, T>(
      probs, s, rows, [&](int r, int) { return -rows.row_max[r]; }, factor);
}

// The same where something may have grown; rows that have not keep their bits. O has to be multiplied by
// `shrink`.
template <auto C, class T, class Factor>
__device__ inline void grown_softmax(Probs<C>& probs, const Scores<C>& s, RowState& rows, Factor factor,
                                     float (&shrink)[2]) {
  float sum[2];
  tile::exponentiate<T, C.thread_rows()>(probs, s, rows, factor, sum);
  tile::start_over<kChains, C.thread_rows()>(s, rows, factor, sum, threadIdx.x % 32, shrink);
  tile::exponentiate<T, C.thread_rows()>(probs, s, rows, factor, sum);
  tile::add_sums<C.thread_rows()>(rows, sum);
}

// And where they are shifted by more than the row max: shift_of(rows) says by what.
template <Config C, class T, class ShiftOf>
__device__ inline void grown_softmax_shifted(Probs<C>& probs, const Scores<C>& s, RowState& rows,
                                             const ShiftOf& shift_of, float factor, float (&shrink)[2]) {
  float sum[2];
  tile::exponentiate_shifted<T>(probs, s, shift_of(rows), factor, sum);
  tile::start_over_shifted(s, rows, shift_of(RowState{}), factor, sum, threadIdx.x % 32, shrink);
  tile::exponentiate_shifted<T>(probs, s, shift_of(rows), factor, sum);
  tile::add_sums(rows, sum);
}

}  // namespace tessera::cuda::sm90
