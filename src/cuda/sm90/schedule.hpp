// Which row tiles a block computes. About as many blocks as the GPU has SMs. Tiles of a head stand side by
// side as long as they are not sorted, so that the blocks at work share few heads' K and V in L2.
//
// Where all tiles are the same work, every block takes one in each round. Where later rows see more keys, it
// takes a pair of a long and a short one: the first and the last of a head, the second and the last but one,
// ..., which together are the same work where there are as many keys as queries. The last round of pairs
// would keep few blocks busy; so it and mostly the one before are taken apart, and their tiles are dealt out
// one by one, the longest first.
#pragma once

#include "cuda/params.hpp"

namespace tessera::cuda::sm90 {

// Of the list of single tiles. As listed: tile n is row tile n % divisor of head n / divisor (a pair is named
// by its shorter tile). Sorted: tile n is of row tile `longest` - n / divisor, and of the n % divisor-th
// head.
struct Part {
  int from;  // where it begins in the list
  tile::Divider divider;
  int longest, first_head;  // sorted
};

struct Schedule {
  int row_tiles;    // of a head
  int pair_rounds;  // in which every block takes a pair
  int singles;      // tiles that are dealt out one by one, behind the pairs
  int sorted;       // these are not part 0, as listed, but parts 1, 2 and 3, sorted
  Part parts[4];
  tile::Divider heads;
  int by_head;  // heads are listed as batch entries of a head side by side, not the other way round
};

struct TileIndex {
  int row_tile, head, batch;
};

class Tiles {
 public:
  // A block with two teams counts as two.
  __device__ explicit Tiles(const Schedule& schedule, int team = 0, int teams = 1)
      : step_(0), schedule_(&schedule), team_(team), teams_(teams) {}

  __device__ bool done() const { return !in_pairs() && single() >= schedule_->singles; }
  __device__ TileIndex index() const { return index_of(in_pairs() ? pair() : single()); }
  __device__ TileIndex index_of(int n) const {
    const Schedule& s = *schedule_;
    const bool listed = in_pairs() || s.sorted == 0;
    const Part& part = s.parts[listed ? 0 : 1 + (n >= s.parts[2].from) + (n >= s.parts[3].from)];
    const int quotient = part.divider.divide(n - part.from);
    const int remainder = n - part.from - quotient * static_cast<int>(part.divider.divisor);
    const bool from_end = in_pairs() && step_ % 2 == 0;  // the longer of a pair first
    const int row = !listed ? part.longest - quotient : from_end ? s.row_tiles - 1 - remainder : remainder;
    const int head = listed ? quotient : part.first_head + remainder;
    const int outer = s.heads.divide(head), inner = head - outer * static_cast<int>(s.heads.divisor);
    return s.by_head != 0 ? TileIndex{row, outer, inner} : TileIndex{row, inner, outer};
  }
  __device__ void advance() {
    ++step_;
    // The middle tile of an odd number has no partner.
    if (in_pairs() && step_ % 2 == 1 && 2 * index().row_tile + 1 == schedule_->row_tiles) ++step_;
  }

 protected:
  int step_;

 private:
  __device__ bool in_pairs() const { return step_ < 2 * schedule_->pair_rounds; }
  __device__ int pair() const { return step_ / 2 * blocks() + block(); }
  // To and fro: who had the longest of one round has the shortest of the next.
  __device__ int single() const {
    const int round = step_ - 2 * schedule_->pair_rounds;
    return round * blocks() + (round % 2 == 0 ? block() : blocks() - 1 - block());
  }
  __device__ int block() const { return static_cast<int>(blockIdx.x + team_ * gridDim.x); }
  __device__ int blocks() const { return static_cast<int>(gridDim.x) * teams_; }

  const Schedule* schedule_;
  int team_, teams_;
};

}  // namespace tessera::cuda::sm90
