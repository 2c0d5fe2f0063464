// The products of a block's 64 rows by wgmma, which reads Q, K and V where they lie in shared memory.
#pragma once

#include "cuda/ptx/barrier.hpp"
#include "cuda/serving/configs.hpp"
#include "cuda/sm90/products.hpp"

namespace tessera::cuda::serving {

template <Config C, class T>
struct Warpgroup {
  static constexpr sm90::Config kTile = {
      .dim = C.tile.dim, .value_dim = C.tile.value_dim, .consumers = 1, .keys = C.tile.keys};

  // What the thread has copied to shared memory is there for the tensor cores, as soon as all threads have
  // met.
  __device__ static void hand_over() { ptx::fence_for_tensor_cores(); }

  __device__ static void multiply_key(sm90::Scores<kTile>& s, const char* memory, int slot) {
    sm90::start_scores<kTile, T>(
        s, sm90::query_matrix(memory),
        sm90::tile_matrix<kTile>(memory + C.tile.query_bytes() + slot * C.tile.key_bytes()));
    ptx::wgmma_wait<0>();
    ptx::pin(s);
  }
  __device__ static void multiply_value(sm90::Output<kTile>& o, const sm90::Probs<kTile>& probs,
                                        const char* memory, int slot) {
    sm90::start_output<kTile, T>(
        o, probs,
        sm90::tile_matrix<kTile>(memory + C.tile.query_bytes() + C.tile.stages * C.tile.key_bytes() +
                                 slot * C.tile.value_bytes()));
    ptx::wgmma_wait<0>();
    ptx::pin(o);
  }
};

}  // namespace tessera::cuda::serving
