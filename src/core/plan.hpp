// THE selector: which kernel computes a problem on a device, why, and at what cost.
#pragma once

#include <string>

#include "core/kernel.hpp"

namespace tessera::core {

struct Cost {
  double flops = 0;  // 2 * visible pairs * (dim + value_dim)
  double bytes = 0;  // every visible input once, every output once
};

struct Plan {
  const Kernel* kernel = nullptr;
  Launch launch;
  Cost cost;
  std::string reason;  // why this kernel, and for each better one that was passed over, why not
};

Status check_device(const tessera_device& device);
Status plan(const Problem& problem, const tessera_device& device, Plan* out);

// Reads no tensor memory: key_lengths count as full, a mask tensor as all visible.
Cost cost(const Problem& problem);

// (query, key) pairs that the band leaves visible, for one batch entry and head.
double visible_pairs(const Problem& problem);

}  // namespace tessera::core
