#include "cuda/serving/coded_instance.hpp"

namespace tessera::cuda::serving {
template <>
CodedFunctions coded_functions<Codes::e5m2>() {
  return coded_functions_of<ptx::E5m2>();
}
}  // namespace tessera::cuda::serving
