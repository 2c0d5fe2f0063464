// What warps of a block tell each other of the row tile that is next, and of a tile of V that is not all to
// be seen.
#pragma once

#include "cuda/sm90/config.hpp"
#include "cuda/sm90/schedule.hpp"
#include "cuda/sm90/walk.hpp"
#include "cuda/tile/ring.hpp"

namespace tessera::cuda::sm90 {

// A row tile to be computed; row tile -1: there are no more.
struct Task {
  TileIndex at;
  KeyTiles keys;
  int rotation = 0;  // of its key tiles (walk.hpp)
  int offset = 0;    // query i stands at position i + offset
};

// Of a ragged or paged batch: what a dense one's sizes say.
struct EntryTask : Task {
  int queries, all_keys;       // of the entry
  int first_query, first_key;  // where they lie
  int kv_head;
  int seen_begin, seen_end;  // keys that some row of the tile sees; none: 0, 0

  __device__ tile::Band band(const Params& p) const {
    return {all_keys, offset, p.visibility.left, p.visibility.right};
  }
};

template <bool kEntries>
struct TaskFor {
  using Type = Task;
};
template <>
struct TaskFor<true> {
  using Type = EntryTask;
};
template <Config C>
using TaskOf = typename TaskFor<C.entries>::Type;

// A tile of V that has rows which no row of Q may meet: those before `low`, and those from `high` on. Slot
// -1: there are no more.
struct Cut {
  int slot, low, high;
};

template <bool kEntries, int kStages>
struct EntryPart {};

// Tasks, from the warp that takes them from the list to the two that ask for their tiles. And cuts: V lands
// on a barrier of its own, then is cleared in part, and then its slot is full. At most kStages are under way,
// and the word that there are no more.
template <int kStages>
struct alignas(1024) EntryPart<true, kStages> {
  static constexpr int kPlans = 2, kCuts = kStages + 1;

  tile::Barrier plan_full[kPlans], plan_empty[kPlans];
  tile::Barrier wanted;  // the next task
  tile::Barrier cut_full[kCuts];
  EntryTask plan[kPlans];
  Cut cut[kCuts];

  __device__ tile::Ring<kPlans> plan_ring() { return {plan_full, plan_empty}; }
  __device__ void start() {
    for (int n = 0; n < kPlans; ++n) {
      plan_full[n].init(1);
      plan_empty[n].init(2);
    }
    wanted.init(1);
    for (int n = 0; n < kCuts; ++n) cut_full[n].init(1);
  }
};

}  // namespace tessera::cuda::sm90
