// Stands in for src/cuda/sm90/softmax.hpp: takes time, and now and then something has grown.
#pragma once

#include "cuda/sm90/fragments.hpp"
#include "machine.hpp"

namespace tessera::cuda::sm90 {

struct RowState {};

inline bool any_far_out(const RowState&) { return testing_cuda::machine->chance(0.1); }

template <Config C, class T>
void start_softmax(Probs<C>&, const Scores<C>&, RowState&, float) {
  testing_cuda::machine->perhaps_pause();
}
template <Config C, class T, class Shift>
bool continue_softmax(Probs<C>&, const Scores<C>&, RowState&, const Shift&, float) {
  testing_cuda::machine->perhaps_pause();
  return testing_cuda::machine->chance(0.8);
}
template <Config C, class T>
bool continue_softmax(Probs<C>& probs, const Scores<C>& s, RowState& rows, float factor) {
  return continue_softmax<C, T>(probs, s, rows, 0, factor);
}
template <Config C, class T>
void grown_softmax(Probs<C>&, const Scores<C>&, RowState&, float, float (&shrink)[2]) {
  shrink[0] = shrink[1] = 1;
  testing_cuda::machine->perhaps_pause();
}
template <Config C, class T, class ShiftOf>
void grown_softmax_shifted(Probs<C>& probs, const Scores<C>& s, RowState& rows, const ShiftOf& shift_of,
                           float factor, float (&shrink)[2]) {
  shift_of(rows);
  grown_softmax<C, T>(probs, s, rows, factor, shrink);
}
}  // namespace tessera::cuda::sm90
