#include <stdexcept>

#include "machine.hpp"

namespace serving {

std::unique_ptr<Machine> make_cuda_machine() {
  throw std::runtime_error("--device is 'cuda', but this program was built without the CUDA toolkit");
}

}  // namespace serving
