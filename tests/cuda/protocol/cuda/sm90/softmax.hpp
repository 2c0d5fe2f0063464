// Stands in for src/cuda/sm90/softmax.hpp: takes time, and now and then something has grown.
#pragma once

#include "cuda/sm90/fragments.hpp"
#include "machine.hpp"

namespace tessera::cuda::sm90 {

struct Rows {};

template <Config C, class T>
void start_softmax(Weights<C>&, const Scores<C>&, Rows&, float) {
  testing_cuda::machine->perhaps_pause();
}
template <Config C, class T>
bool continue_softmax(Weights<C>&, const Scores<C>&, Rows&, float) {
  testing_cuda::machine->perhaps_pause();
  return testing_cuda::machine->chance(0.8);
}
template <Config C, class T>
void grown_softmax(Weights<C>&, const Scores<C>&, Rows&, float, float (&)[2]) {
  testing_cuda::machine->perhaps_pause();
}
template <Config C>
void rescale(Output<C>&, const float (&)[2]) {}

}  // namespace tessera::cuda::sm90
