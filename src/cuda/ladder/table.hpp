// The rungs as the host sees them: what to launch, and with how much of everything. No CUDA header here;
// every function is defined beside its kernel's instances, in src/cuda/instances/ladder_<rung>.cu.
#pragma once

#include "cuda/dispatch.hpp"

namespace tessera::cuda::ladder {

// A kernel for one dtype and padded head dim, over a grid of (row tiles, heads, batch entries).
struct Rung {
  const void* function;  // null where the rung has none
  int rows;              // query rows of a block
  int threads;
  int shared_bytes;  // dynamic; over 48 KB it has to be asked for
};

// `dim` is 64 or 128: the larger of the two head dims, rounded up.
Rung shared_padded(Element element, int dim);
Rung shared(Element element, int dim);
Rung async(Element element, int dim);
Rung vector(Element element, int dim);  // from here on: rows 16-byte aligned, head dims multiples of 8
Rung tensor_qk(Element element, int dim);
Rung tensor_tiled(Element element, int dim);
Rung tensor_tiled_f16(Element element, int dim);  // f16 alone
Rung tensor_pv(Element element, int dim);

}  // namespace tessera::cuda::ladder
