#include "cuda/serving/coded_instance.hpp"

namespace tessera::cuda::serving {
template <>
CodedFunctions coded_functions<Codes::i8>() {
  return coded_functions_of<ptx::I8>();
}
}  // namespace tessera::cuda::serving
