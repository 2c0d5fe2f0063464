// mbarriers in shared memory, and rings of slots that a producer fills and consumers empty. sm_90 and newer.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/barrier.hpp"

namespace tessera::cuda::tile {

struct Barrier {
  unsigned long long word;

  __device__ unsigned address() const { return ptx::shared_address(&word); }
  __device__ void init(int arrivals) { ptx::barrier_init(address(), arrivals); }
  __device__ void arrive() { ptx::barrier_arrive(address()); }
  // Arrives, and the phase also waits for so many bytes of copies.
  __device__ void expect(unsigned bytes) { ptx::barrier_expect(address(), bytes); }
  // Until the phase of this parity (0, 1, 0, ...) is complete.
  __device__ void wait(unsigned parity) const { ptx::barrier_wait(address(), parity); }
};

// Where the n-th of all tiles lies, and the parity of the phase that it is in its slot's barriers.
template <int kSlots>
struct RingIndex {
  __device__ static unsigned slot(unsigned n) { return n % kSlots; }
  __device__ static unsigned parity(unsigned n) { return n / kSlots & 1; }
  __device__ static void wait(const Barrier (&barriers)[kSlots], unsigned n, unsigned flip = 0) {
    ptx::barrier_wait(barriers[slot(n)].address(), parity(n) ^ flip);
  }
};

// Seen through the arrays of its barriers, one each for every slot: as a struct around them, it would cost
// additions in every loop.
template <int kSlots>
struct Ring : RingIndex<kSlots> {
  using Index = RingIndex<kSlots>;
  Barrier (&full)[kSlots];   // its bytes have landed
  Barrier (&empty)[kSlots];  // every reader's warps are done with it

  __device__ Ring(Barrier (&filled)[kSlots], Barrier (&emptied)[kSlots]) : full(filled), empty(emptied) {}
  __device__ void wait_full(unsigned n) const { Index::wait(full, n); }
  // Asked early, it saves the wait's own latency later.
  __device__ bool is_full(unsigned n) const {
    return ptx::barrier_done(full[Index::slot(n)].address(), Index::parity(n));
  }
  // Until the n-th tile may be asked for: the one that was in its slot has been read.
  __device__ void wait_empty(unsigned n) const { Index::wait(empty, n, 1); }
  // Each warp for itself: that one is done with its rows' product says nothing of the others.
  __device__ void release(unsigned n) const {
    const unsigned barrier = empty[Index::slot(n)].address();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(barrier);
  }
};

}  // namespace tessera::cuda::tile
