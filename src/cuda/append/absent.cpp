// In a build without nvcc no GPU is ever found, so nobody gets here.
#include "cuda/append/prepare.hpp"

namespace tessera::cuda::append {

core::Status prepare(const core::Problem&, const core::Device&, std::shared_ptr<const core::Prepared>,
                     std::shared_ptr<const core::Prepared>*) {
  return core::unsupported("this build has no CUDA kernels");
}

}  // namespace tessera::cuda::append
