// Which row tiles a block computes. As many blocks as the GPU has SMs; each takes every gridDim-th unit of
// the list. A unit is one row tile, or, where later rows see more keys, a pair: the first and the last, the
// second and the last but one, ... of a head, which together are always the same work. Units of a head stand
// side by side, so that the blocks at work share few heads' K and V in L2.
#pragma once

#include "cuda/params.hpp"

namespace tessera::cuda::sm90 {

struct Schedule {
  int row_tiles;
  int paired;
  tile::Divider units;  // of a head
  tile::Divider heads;
  int total;  // units of all heads and batch entries
};

struct Place {
  int row_tile, head, batch;
};

class Tiles {
 public:
  __device__ explicit Tiles(const Schedule& schedule)
      : schedule_(&schedule), unit_(static_cast<int>(blockIdx.x)), second_(false) {}

  __device__ bool done() const { return unit_ >= schedule_->total; }
  __device__ Place place() const {
    const int head = schedule_->units.divide(unit_);
    const int unit = unit_ - head * static_cast<int>(schedule_->units.divisor);
    const int batch = schedule_->heads.divide(head);
    // The longer of a pair first.
    const bool from_end = schedule_->paired != 0 && !second_;
    return {from_end ? schedule_->row_tiles - 1 - unit : unit,
            head - batch * static_cast<int>(schedule_->heads.divisor), batch};
  }
  __device__ void advance() {
    if (schedule_->paired != 0 && !second_) {
      const int unit = unit_ - schedule_->units.divide(unit_) * static_cast<int>(schedule_->units.divisor);
      second_ = 2 * unit + 1 < schedule_->row_tiles;  // the middle tile of an odd number has no partner
      if (second_) return;
    }
    second_ = false;
    unit_ += static_cast<int>(gridDim.x);
  }

 private:
  const Schedule* schedule_;
  int unit_;
  bool second_;
};

}  // namespace tessera::cuda::sm90
