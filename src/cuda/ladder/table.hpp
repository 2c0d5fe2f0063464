// The rungs as the host sees them: what to launch, and with how much of everything. No CUDA header here;
// every function is defined beside its kernel's instances, in src/cuda/instances/ladder_<rung>.cu.
#pragma once

namespace tessera::cuda::ladder {

// A kernel for one dtype and padded head dim, over a grid of (row tiles, heads, batch entries).
struct Rung {
  const void* function;  // null where the rung has none
  int rows;              // query rows of a block
  int threads;
  int shared_bytes;  // dynamic; over 48 KB it has to be asked for
};

// `dim` is 64 or 128: the larger of the two head dims, rounded up.
Rung shared_padded(bool bf16, int dim);
Rung shared(bool bf16, int dim);
Rung async(bool bf16, int dim);
Rung vector(bool bf16, int dim);  // from here on: rows 16-byte aligned, head dims multiples of 8
Rung tensor_qk(bool bf16, int dim);
Rung tensor_tiled(bool bf16, int dim);
Rung tensor_tiled_f16(bool bf16, int dim);  // f16 alone
Rung tensor_pv(bool bf16, int dim);

}  // namespace tessera::cuda::ladder
