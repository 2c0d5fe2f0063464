// THE selector: which kernel computes a problem on a device, why, and at what cost.
#pragma once

#include <memory>
#include <string>

#include "core/kernel.hpp"

namespace tessera::core {

struct Cost {
  double flops = 0;  // 2 * visible pairs * (dim + value_dim)
  double bytes = 0;  // every visible input once, every output once
};

struct Plan {
  const Kernel* kernel = nullptr;
  std::shared_ptr<const Prepared> prepared;
};

Status check_device(const tessera_device& device);
// `device` is one that passed check_device. Of the kernels that can, the one that is estimated to take least.
Status plan(const Problem& problem, const tessera_device& device, Plan* out);
// Why the plan has this kernel, and for each one above it in the table, why not that.
std::string why(const Plan& plan, const Problem& problem, const tessera_device& device);

// Empty if the kernel can run on this device, else why not.
std::string missing(const Kernel& kernel, const tessera_device& device);

// Reads no tensor memory: key_lengths count as full, a mask tensor as all visible, rows and keys between
// offsets as shared out evenly.
Cost cost(const Problem& problem);

// (query, key) pairs that the band leaves visible, for one batch entry (of offsets: an average one) and head.
double visible_pairs(const Problem& problem);

}  // namespace tessera::core
