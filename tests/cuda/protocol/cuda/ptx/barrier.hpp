// Stands in for src/cuda/ptx/barrier.hpp: see machine.hpp. A warp arrives as its first thread does, but at
// barriers that count threads as all of them.
#pragma once

#include "machine.hpp"

namespace tessera::cuda::ptx {

inline void barrier_init(unsigned barrier, int arrivals) {
  testing_cuda::machine->start_barrier(barrier, arrivals);
}
inline void barrier_init_fence() {}

inline void barrier_arrive(unsigned barrier) {
  const bool counts_threads = testing_cuda::machine->barrier(barrier).arrivals % 128 == 0;
  testing_cuda::machine->arrive(barrier, counts_threads ? 32 : 1);
}
inline void barrier_expect(unsigned barrier, unsigned bytes) {
  testing_cuda::machine->arrive(barrier, 1, bytes);
}
inline bool barrier_done(unsigned barrier, unsigned parity) {
  testing_cuda::machine->perhaps_pause();
  return (testing_cuda::machine->barrier(barrier).phase & 1) != parity;
}
inline void barrier_wait(unsigned barrier, unsigned parity) {
  if (barrier_done(barrier, parity)) return;
  const auto& b = testing_cuda::machine->barrier(barrier);
  testing_cuda::machine->wait_until([&b, parity] { return (b.phase & 1) != parity; });
}

inline void named_sync(int id, int threads) { testing_cuda::machine->meet(id, threads, true); }
inline void named_arrive(int id, int threads) { testing_cuda::machine->meet(id, threads, false); }

}  // namespace tessera::cuda::ptx
