#include "core/kernel.hpp"
#include "cpu/backend.hpp"

namespace tessera::core {

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> table = cpu::kernels();
  return table;
}

}  // namespace tessera::core
