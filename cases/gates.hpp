// The correctness gates: a kernel is judged here and nowhere else. See docs/correctness.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cases/instance.hpp"
#include "oracle/oracle.hpp"

namespace tessera::cases {

struct Verdict {
  bool passed = false;
  std::string why;         // empty if passed; else the first gate that failed, with place and values
  double worst_error = 0;  // max |output - oracle| over finite elements
  double worst_ratio = 0;  // max of error / bound over output and lse; > 1 fails
  std::string reproduce;   // a `tessera verify ...` command line for this very check
  std::int64_t rows = 0;   // (batch, head, query) rows of the case, and how many of them met the oracle:
  std::int64_t rows_judged = 0;  // a large case is judged on its corners and on rows drawn by the seed
};

// Runs one kernel (by name) on the case: oracle, bound, NaN and inf positions first, guard bands,
// two runs that must agree bit for bit, on a CPU a third with another thread count. `threads` 0 = all
// cores. A kernel with a tolerance of its own (core::Kernel) is held to that in place of the bound, and one
// with an arithmetic of its own to the bound of that.
Verdict judge(const Case& c, Input input, std::uint64_t seed, const tessera_device& device);

// The same in two steps, so that several kernels share one truth, and a result that no kernel of the
// library computed can be judged too.
struct Bounds {
  std::vector<double> output_bound, lse_bound;  // largest error allowed, by element
  double plain_output_error = 0;                // what the same-precision yardstick is off by, at most
  double plain_lse_error = 0;
};
// Its own bounds are those of float arithmetic.
struct Expected : Bounds {
  std::vector<oracle::Row> rows;  // the judged rows, in order
  oracle::Result truth;           // of those rows
  // Of 8-bit inputs: for each other arithmetic that a kernel of the library has on this problem.
  std::vector<std::pair<oracle::Arithmetic, Bounds>> others;

  // What a result that came out of this arithmetic is held to.
  [[nodiscard]] const Bounds& bounds(oracle::Arithmetic arithmetic) const;
};
Expected expect(const Instance& instance);
// The same for a problem over anybody's memory and rows of one's choice.
Expected expect(const tessera_attention& problem, std::vector<oracle::Row> rows);

// Whose bounds a result of this device is held to: those of the kernel asked for, or that the plan takes.
oracle::Arithmetic arithmetic_of(const tessera_attention& problem, const tessera_device& device);

// Empty, or why there is no result. The problem's memory is host memory, whatever the device.
using Attend = std::function<std::string(const tessera_attention&, const tessera_device&)>;
// On a GPU the tensors are copied there, computed, and the outputs copied back.
std::string attend_with_library(const tessera_attention& problem, const tessera_device& device);
// The library's kernel. On a GPU every buffer is there with its guard bands, the inputs stay there from run
// to run, and more is asked: several runs at once must agree, and neighbours in the batch must not matter.
Verdict judge(Instance& instance, const Expected& expected, const tessera_device& device);
Verdict judge(Instance& instance, const Expected& expected, const tessera_device& device,
              const Attend& attend);

}  // namespace tessera::cases
