// Takes the place of core/kernel_table.cpp in tessera_faulty: the real kernels, and two that change a single
// output element of an otherwise right result, as a lost tail or a race would. One of them is off by little,
// and its tolerance allows that.
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
Status launch_off_by(double error, const Problem& problem, const tessera_device& device, const Launch& how) {
  Status status = honest().launch(problem, device, how);
  if (status.ok()) {
    const std::int64_t last =
        problem.output.offset(problem.batch - 1, problem.heads - 1, problem.queries - 1) + problem.value_dim -
        1;
    const double right = oracle::load(problem.output.data, problem.dtype, last);
    oracle::store(problem.output.data, problem.dtype, last, right + error);
  }
  return status;
}

Kernel row(std::string_view name, std::string_view summary) {
  Kernel kernel;
  kernel.name = name;
  kernel.device = TESSERA_CPU;
  kernel.summary = summary;
  kernel.missing = missing;
  kernel.supports = supports;
  kernel.geometry = geometry;
  kernel.launch = [](const Problem& p, const tessera_device& d, const Launch& how) {
    return launch_off_by(0.5, p, d, how);
  };
  return kernel;
}

}  // namespace

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> table = [] {
    std::vector<Kernel> rows = cpu::kernels();
    rows.push_back(row("cpu_faulty", "wrong in one element"));
    Kernel loose = row("cpu_loose", "off by 0.005 in one element, and allowed 0.01");
    loose.tolerance = 0.01;
    loose.launch = [](const Problem& p, const tessera_device& d, const Launch& how) {
      return launch_off_by(0.005, p, d, how);
    };
    rows.push_back(loose);
    return rows;
  }();
  return table;
}

}  // namespace tessera::core
