// Division by a number that the host knows: a multiplication and a shift instead of forty instructions.
#pragma once

#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::tile {

// Exact for 0 <= n < 2^31 and 1 <= divisor < 2^31: with s = ceil(log2 d) and m = floor(2^32 (2^s - d) / d) +
// 1, n / d = (high half of m * n, plus n) >> s.
struct Divider {
  unsigned divisor, multiplier, shift;

  TESSERA_HOST_DEVICE int divide(int n) const {
#if defined(__CUDA_ARCH__)
    const unsigned high = __umulhi(static_cast<unsigned>(n), multiplier);
#else
    const auto high =
        static_cast<unsigned>(static_cast<unsigned long long>(static_cast<unsigned>(n)) * multiplier >> 32);
#endif
    return static_cast<int>((high + static_cast<unsigned>(n)) >> shift);
  }
};

TESSERA_HOST_DEVICE Divider make_divider(int divisor) {
  const auto d = static_cast<unsigned long long>(divisor);
  unsigned shift = 0;
  while ((1ull << shift) < d) ++shift;
  const unsigned long long multiplier = ((1ull << 32) * ((1ull << shift) - d)) / d + 1;
  return {static_cast<unsigned>(d), static_cast<unsigned>(multiplier), shift};
}

}  // namespace tessera::cuda::tile
