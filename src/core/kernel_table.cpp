#include "core/kernel.hpp"
#include "cpu/backend.hpp"
#include "cuda/backend.hpp"

namespace tessera::core {

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> table = [] {
    std::vector<Kernel> rows = cpu::kernels();
    for (Kernel& row : cuda::kernels()) rows.push_back(row);
    return rows;
  }();
  return table;
}

}  // namespace tessera::core
