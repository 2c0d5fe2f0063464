// One case of `tessera bench`: which kernels compete, verification, then timing on a CPU or a GPU.
#pragma once

#include <string>
#include <vector>

#include "cli/history.hpp"
#include "cli/select.hpp"

namespace tessera::cli {

struct BenchPlan {
  tessera_device device = TESSERA_DEVICE_INIT;
  std::vector<std::string> kernels;  // named ones; empty: the plan's choice; "all": every one
  bool ladder = false;               // every rung in order, then the production kernels
  double min_time_s = 0.5;
  std::uint64_t seed = 1;
};

// The GPU behind the device; null for a CPU.
const cuda::runtime::Gpu* gpu_of(const tessera_device& device);
// What rows of this device are recorded under: "cpu" or the GPU's name.
std::string device_label(const tessera_device& device);

// Rows in the order of the kernels; a kernel that cannot compute the case has no row. `incumbent` joins in.
std::vector<BenchRow> bench_case(const cases::Case& c, const BenchPlan& plan, const std::string& incumbent);

}  // namespace tessera::cli
