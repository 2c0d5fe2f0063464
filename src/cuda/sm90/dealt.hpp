// Row tiles that are dealt out as blocks become free: with a mask tensor nobody knows beforehand which are
// much work. A counter in the workspace says how many are given away; behind it stands for every row tile
// which block took it, for those who have to go through a block's row tiles again.
#pragma once

#include "cuda/ptx/global_atomic.hpp"
#include "cuda/sm90/params.hpp"

namespace tessera::cuda::sm90 {

// Asked by a whole warp. Where nothing is dealt out, as Tiles has them.
class DealtTiles : public Tiles {
 public:
  __device__ explicit DealtTiles(const Sm90MaskParams& p) : Tiles(p.schedule), p_(p) {
    if (p_.dealt == nullptr) return;
    step_ = static_cast<int>(blockIdx.x);
    take();
  }
  __device__ bool done() const { return p_.dealt == nullptr ? Tiles::done() : step_ >= p_.schedule.singles; }
  __device__ TileIndex index() const { return p_.dealt == nullptr ? Tiles::index() : index_of(step_); }
  __device__ void advance() {
    if (p_.dealt == nullptr) {
      Tiles::advance();
    } else {
      step_ = __shfl_sync(0xffffffffu, next_, 0);
      take();
    }
  }

 private:
  // One in advance: an answer takes as long as some key tiles.
  __device__ void take() {
    if (step_ >= p_.schedule.singles || threadIdx.x % 32 != 0) return;
    p_.dealt[1 + step_] = static_cast<int>(blockIdx.x);
    next_ = static_cast<int>(gridDim.x) + ptx::fetch_add(p_.dealt, 1);
  }

  const Sm90MaskParams& p_;
  int next_ = 0;
};

// f(row tile) for each that the block has taken.
template <class F>
__device__ inline void for_dealt(const Sm90MaskParams& p, const F& f) {
  if (p.dealt == nullptr) {
    for (Tiles again(p.schedule); !again.done(); again.advance()) f(again.index());
    return;
  }
  const Tiles all(p.schedule);
#pragma unroll 1
  for (int n = 0; n < p.schedule.singles; ++n)
    if (p.dealt[1 + n] == static_cast<int>(blockIdx.x)) f(all.index_of(n));
}

}  // namespace tessera::cuda::sm90
