// TMA (PTX ISA, "cp.async.bulk.tensor"): one thread asks for a whole box of a tensor,
// an mbarrier counts its bytes. Boxes that reach over the tensor's edge read zeros and write nothing there.
// sm_90 and newer.
#pragma once

#include "cuda/ptx/tensor_map.hpp"

namespace tessera::cuda::ptx {

__device__ inline void prefetch_tensor_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Coordinates: column, row, head, batch.
__device__ inline void tma_load(unsigned to, const TensorMap* map, unsigned barrier, int column, int row,
                                int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

// The same with a policy of cache_policy.hpp.
__device__ inline void tma_load(unsigned to, const TensorMap* map, unsigned barrier, int column, int row,
                                int head, int batch, unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch), "l"(policy)
      : "memory");
}

// The same box, to L2 alone.
__device__ inline void tma_prefetch(const TensorMap* map, int column, int row, int head, int batch,
                                    unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.prefetch.tensor.4d.L2.global.L2::cache_hint [%0, {%1, %2, %3, %4}], %5;" ::"l"(map),
      "r"(column), "r"(row), "r"(head), "r"(batch), "l"(policy)
      : "memory");
}

// Bytes that lie side by side; addresses and size are multiples of 16.
__device__ inline void bulk_load(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

}  // namespace tessera::cuda::ptx
