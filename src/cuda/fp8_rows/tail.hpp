// The same over keys in two tensors.
#pragma once

#include "cuda/fp8_rows/kernel.hpp"
#include "cuda/tile/tail_rows.hpp"

namespace tessera::cuda::fp8_rows {

// Key: a code, a byte each, or the query's type.
template <class Key>
struct TailRows : tile::TailRows<Key> {
  template <class View>
  __device__ TailRows(const TailParams& p, const View& v, tile::RowIndex at)
      : tile::TailRows<Key>(p.problem, p.mixed.coded, p.mixed.query, p.tail, v, at) {}
};

// Four blocks an SM: left to itself the compiler aims at more, and spills.
template <class Key, class T>
__global__ void __launch_bounds__(kThreads, 4) attend_tails(const __grid_constant__ TailParams params) {
  if constexpr (sm80::pdl(kArch)) {
    ptx::launch_dependents();
    ptx::wait_for_dependencies();
  }
  tile::clear_unowned_rows<T>(params.problem);
  attend_rows<TailRows<Key>, T>(params);
}

}  // namespace tessera::cuda::fp8_rows
