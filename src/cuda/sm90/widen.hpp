// K and V of 8 bits beside Q of 16: a warpgroup that makes tiles as the tensor cores read them of the codes
// that TMA has brought.
#pragma once

#include "cuda/sm90/params.hpp"
#include "cuda/sm90/shared.hpp"
#include "cuda/tile/widen_tile.hpp"

namespace tessera::cuda::sm90 {

template <Config C>
struct Widener {
  Shared<C>& shared;

  using Ring = tile::RingIndex<C.stages>;
  using StagedRing = tile::RingIndex<C.staged>;

  // Each warp for its part: codes have been read, what they became is written.
  __device__ static void done(tile::Barrier& full, tile::Barrier& staged) {
    ptx::fence_for_tensor_cores();
    __syncwarp();
    if (ptx::thread_x() % 32 != 0) return;
    full.arrive();
    staged.arrive();
  }

  template <class Code>
  __device__ void run() {
    auto& staging = shared.staging();
    const int thread = ptx::thread_x() % 128;
    const bool leads = thread % 32 == 0;
    if (C.joint() && leads) shared.key_full[0].arrive();  // before the first K there is no V
    unsigned n = 0;
#pragma unroll 1
    for (;; ++n) {
      const unsigned staged = StagedRing::slot(n), slot = Ring::slot(n);
      staging.key_ring().wait_full(n);
      if (staging.key_rows[staged].low < 0) break;
      shared.key_ring().wait_empty(n);
      tile::widen_tile<Code, C.keys, C.dim, false>(thread, ptx::shared_address(shared.key[slot]),
                                                   ptx::shared_address(staging.key[staged]));
      done(shared.key_full[slot], staging.key_empty[staged]);

      const unsigned values = C.joint() ? n + 1 : n, in = Ring::slot(values);
      auto ring = C.joint() ? shared.key_ring() : shared.value_ring();
      staging.value_ring().wait_full(n);
      const Staged rows = staging.value_rows[staged];
      ring.wait_empty(values);
      const unsigned to = ptx::shared_address(shared.value[in]),
                     from = ptx::shared_address(staging.value[staged]);
      if (rows.low <= 0 && rows.high >= C.keys) {
        tile::widen_tile<Code, C.keys, C.value_dim, false>(thread, to, from);
      } else {
        tile::widen_tile<Code, C.keys, C.value_dim, true>(thread, to, from, rows.low, rows.high);
      }
      done(ring.full[in], staging.value_empty[staged]);
    }
    if (!C.joint()) return;
    shared.key_ring().wait_empty(n);  // and no K behind the last V
    if (leads) shared.key_full[Ring::slot(n)].arrive();
  }
  __device__ void run(cuda::Codes codes) {
    if (codes == cuda::Codes::e4m3) {
      run<ptx::E4m3>();
    } else if (codes == cuda::Codes::e5m2) {
      run<ptx::E5m2>();
    } else {
      run<ptx::I8>();
    }
  }
};

}  // namespace tessera::cuda::sm90
