#include "cuda/serving/coded_instance.hpp"

namespace tessera::cuda::serving {
template <>
CodedFunctions coded_functions<Codes::e4m3>() {
  return coded_functions_of<ptx::E4m3>();
}
}  // namespace tessera::cuda::serving
