// Stands in for src/cuda/sm90/epilogue.hpp: the test looks at what was computed.
#pragma once

#include <functional>

#include "cuda/sm90/params.hpp"
#include "cuda/sm90/softmax.hpp"

namespace tessera::cuda::sm90 {

inline std::function<void(const TileIndex& at, int first_row)> when_written;

template <Config C, class T>
bool write_output(const Params&, const TileIndex& at, int first_row, RowState&, const Output<C>&) {
  testing_cuda::machine->perhaps_pause();
  when_written(at, first_row);
  return false;
}
template <class T, bool kMaskTensor>
void recompute_suspects(const Params&, const TileIndex&, int, int) {}

}  // namespace tessera::cuda::sm90
