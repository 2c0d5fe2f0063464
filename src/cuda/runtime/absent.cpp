// The CUDA part of a build without nvcc: no kernels, no GPU, and sentences that say so.
#include "cuda/backend.hpp"
#include "cuda/runtime/runtime.hpp"
#include "cuda/runtime/tensor_map.hpp"

namespace tessera::cuda {

std::vector<core::Kernel> kernels() { return {}; }

namespace runtime {
namespace {

constexpr const char* kAbsent = "this build of Tessera has no CUDA kernels";

core::Status absent() { return {TESSERA_DEVICE_UNAVAILABLE, kAbsent}; }

}  // namespace

bool in_build() { return false; }

const Gpu* find_gpu(int, std::string* why) {
  if (why != nullptr) *why = kAbsent;
  return nullptr;
}

void pretend_gpus(std::vector<Gpu>) {}
core::Status check_reachable(const core::Problem&, const tessera_device&) { return absent(); }
core::Status launch(const Launch&, void*, const tessera_device&) { return absent(); }
core::Status inspect(const void*, const tessera_device&, unsigned, unsigned, Function*) { return absent(); }
int code_arch(const void*, int) { return 0; }
core::Status encode(const BoxedTensor&, TensorMap*) { return absent(); }

}  // namespace runtime
}  // namespace tessera::cuda
