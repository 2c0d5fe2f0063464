// Takes the place of core/kernel_table.cpp in tessera_faulty: the real kernels, and one that changes a
// single output element of an otherwise right result, as a lost tail or a race would.
#include <tessera/tessera.h>

#include "core/kernel.hpp"
#include "cpu/backend.hpp"
#include "oracle/oracle.hpp"

namespace tessera::core {
namespace {

const Kernel& honest() {
  static const std::vector<Kernel> rows = cpu::kernels();
  for (const Kernel& kernel : rows)
    if (kernel.missing(tessera_device TESSERA_DEVICE_INIT).empty()) return kernel;
  return rows.back();
}

std::string missing(const tessera_device&) { return ""; }
Status supports(const Problem& problem) { return honest().supports(problem); }
Launch geometry(const Problem& problem, const tessera_device& device) {
  return honest().geometry(problem, device);
}
Status launch(const Problem& problem, const tessera_device& device, const Launch& how) {
  Status status = honest().launch(problem, device, how);
  if (status.ok()) {
    const std::int64_t last =
        problem.output.offset(problem.batch - 1, problem.heads - 1, problem.queries - 1) + problem.value_dim -
        1;
    const double right = oracle::load(problem.output.data, problem.dtype, last);
    oracle::store(problem.output.data, problem.dtype, last, right + 0.5);
  }
  return status;
}

}  // namespace

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> table = [] {
    std::vector<Kernel> rows = cpu::kernels();
    Kernel faulty;
    faulty.name = "cpu_faulty";
    faulty.device = TESSERA_CPU;
    faulty.summary = "wrong in one element";
    faulty.missing = missing;
    faulty.supports = supports;
    faulty.geometry = geometry;
    faulty.launch = launch;
    rows.push_back(faulty);
    return rows;
  }();
  return table;
}

}  // namespace tessera::core
