// The one table of kernels. A backend contributes rows; plan(), verify, bench and `tessera kernels` all
// read the same rows, so there is no second place that knows what is supported.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "core/status.hpp"

namespace tessera::core {

// A device that is here, as its backend knows it: a GPU's arch and SMs, say.
class Hardware {
 public:
  virtual ~Hardware() = default;
};

// Where a problem is to be computed.
struct Device {
  const tessera_device& request;
  const Hardware& hardware;
};

// What one kernel made of one problem: everything but the addresses is settled. What is planned, explained,
// kept and run is this same value.
class Prepared {
 public:
  virtual ~Prepared() = default;

  std::int64_t workspace_bytes = 0;
  bool has_own_memory = false;  // does without a workspace where none is given
  std::int64_t work_items = 1;
  std::int32_t threads = 1;
  std::int32_t splits = 1;

  // Why it is cut up like this, in a sentence. Made when somebody asks: most calls do not.
  [[nodiscard]] virtual std::string words() const = 0;
  // Runs it, or puts it on the stream. Any number of threads may do so at once, each with a workspace of its
  // own.
  virtual Status submit(const Addresses& at, const tessera_device& device) const = 0;
};

// How long a kernel would take. Compared between the kernels of one device, and only there.
struct Estimate {
  double us = std::numeric_limits<double>::infinity();
  std::string_view why;  // where us is infinite: why it is taken only if nothing else can
};

// What a GPU kernel may take; the compiler's report is held to it. 0 = not a GPU kernel.
struct Budget {
  int registers = 0;     // per thread
  int shared_bytes = 0;  // per block, static and dynamic together
  int spill_bytes = 0;   // per thread: what docs/sm80.md and docs/sm90.md account for
};

// The arithmetic whose plain form a kernel's errors are held to (oracle::Arithmetic; docs/correctness.md).
enum class Arithmetic {
  f32,           // scores, softmax and P V in float32
  fp8_accurate,  // of 8-bit inputs: Q K by Hopper's 8-bit tensor cores, P in 16 bits
  fp8_ada,       // the same by Ada's
  fp8_fast       // as fp8_accurate with P in 8 bits
};

struct Kernel {
  std::string_view name;  // "cpu_avx2": device, then what sets it apart
  tessera_device_kind device = 0;
  std::string_view summary;  // one line for people
  // Empty if this device can run the kernel, else why not.
  std::function<std::string(const Device& device)> missing;
  // OK, or the sentence why this kernel cannot compute a valid problem. Asked by takes() alone.
  std::function<Status(const Problem& problem)> supports;
  // Of a problem that it supports. Empty: the kernel is taken by name alone.
  std::function<Estimate(const Problem& problem, const Device& device)> estimate;
  std::function<Status(const Problem& problem, const Device& device, std::shared_ptr<const Prepared>* out)>
      prepare;
  bool mixed = false;      // takes keys and values of another dtype than the query's
  bool tail = false;       // takes keys whose last columns are a tensor of their own
  bool invariant = false;  // a row's bits never depend on the rest of the batch
  int rung = 0;            // of the ladder in docs/ladder.md; 0 = not one of its kernels
  // Judged by atol = rtol = this instead of the derived bound: for kernels that trade accuracy. 0 = the
  // bound.
  double tolerance = 0;
  // Of problems whose query has 8 bits. fp8_fast: of a kernel that rounds P to 8 bits where the problem
  // allows it.
  Arithmetic arithmetic = Arithmetic::f32;
  // What the bound of this problem is measured with.
  Arithmetic arithmetic_of(const Problem& problem) const {
    if (!is_8_bit(problem.dtype)) return Arithmetic::f32;
    const bool not_allowed =
        arithmetic == Arithmetic::fp8_fast && problem.precision != TESSERA_PRECISION_FAST;
    return not_allowed ? Arithmetic::fp8_accurate : arithmetic;
  }
  Budget budget;
  std::string_view symbol;     // what its CUDA functions are called: "ladder::scalar<"
  std::string_view only_arch;  // "sm_90a": compiled for that arch alone; empty: for every arch of the build
  int least_arch = 0;          // 89: compiled for none of the build's archs before sm_89
};

// OK, or the sentence why the kernel cannot compute a valid problem: its own, and what no row may overlook.
Status takes(const Kernel& kernel, const Problem& problem);

// All kernels of this build, best first within a device.
const std::vector<Kernel>& kernels();

}  // namespace tessera::core
