// The backends of this build: the one place that knows all of them.
#include "core/backend.hpp"
#include "cpu/backend.hpp"
#include "cuda/backend.hpp"

namespace tessera::core {

const std::vector<const Backend*>& backends() {
  static const std::vector<const Backend*> all = {&cpu::backend(), &cuda::backend()};
  return all;
}

}  // namespace tessera::core
