// The one table of kernels. A backend contributes rows; plan(), verify, bench and `tessera kernels` all
// read the same rows, so there is no second place that knows what is supported.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "core/status.hpp"

namespace tessera::core {

// How one problem will be run by one kernel.
struct Launch {
  std::int64_t workspace_bytes = 0;
  std::int64_t work_items = 1;
  std::int32_t threads = 1;
  std::int32_t splits = 1;
  std::string reason;  // why this geometry, in a sentence
};

// What a GPU kernel may take; the compiler's report is held to it. 0 = not a GPU kernel.
struct Budget {
  int registers = 0;     // per thread
  int shared_bytes = 0;  // per block, static and dynamic together
  int spill_bytes = 0;   // per thread: what docs/sm80.md and docs/sm90.md account for
};

struct Kernel {
  std::string_view name;  // "cpu_avx2": device, then what sets it apart
  tessera_device_kind device = 0;
  std::string_view summary;  // one line for people
  // Empty if this machine can run the kernel, else why not.
  std::string (*missing)(const tessera_device& device);
  // OK, or the sentence why this kernel cannot compute a valid problem.
  Status (*supports)(const Problem& problem);
  // May be null. Of a problem it can compute: empty, or the sentence why a kernel further down the table,
  // which can too, is the better choice. Not asked where the kernel was asked for by name.
  std::string (*rather_not)(const Problem& problem, const tessera_device& device) = nullptr;
  Launch (*geometry)(const Problem& problem, const tessera_device& device);
  Status (*launch)(const Problem& problem, const tessera_device& device, const Launch& launch);
  int rung = 0;  // of the ladder in docs/ladder.md; 0 = not one of its kernels
  // Judged by atol = rtol = this instead of the derived bound: for kernels that trade accuracy. 0 = the
  // bound.
  double tolerance = 0;
  Budget budget;
  std::string_view symbol;     // what its CUDA functions are called: "ladder::scalar<"
  std::string_view only_arch;  // "sm_90a": compiled for that arch alone; empty: for every arch of the build
};

// All kernels of this build, best first within a device.
const std::vector<Kernel>& kernels();

}  // namespace tessera::core
