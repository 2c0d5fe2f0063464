// The CUDA part of a build without nvcc: no kernels, no GPU, and sentences that say so.
#include "cuda/backend.hpp"
#include "cuda/quantise/run.hpp"
#include "cuda/runtime/runtime.hpp"

namespace tessera::cuda {

constexpr const char* kAbsent = "this build of Tessera has no CUDA kernels";

std::vector<core::Kernel> kernels() { return {}; }

core::Status quantise::run(const codes::Problem&, const tessera_device&) {
  return {TESSERA_DEVICE_UNAVAILABLE, kAbsent};
}

namespace runtime {
namespace {

class Absent final : public Runtime {
 public:
  bool in_build() const override { return false; }
  const Gpu* find_gpu(int, std::string* why) const override {
    if (why != nullptr) *why = kAbsent;
    return nullptr;
  }
  core::Status check_memory(std::span<const Named>, const tessera_device&) const override { return absent(); }
  core::Status make_ready(const Step&, int) const override { return absent(); }
  core::Status launch(const Step&, const core::Addresses&, void*, const tessera_device&) const override {
    return absent();
  }
  core::Status allocate(std::int64_t, const tessera_device&, void**) const override { return absent(); }
  core::Status release(void*, const tessera_device&) const override { return absent(); }
  core::Status inspect(const void*, int, unsigned, unsigned, Function*) const override { return absent(); }
  core::Status code_arch(const void*, int, int*) const override { return absent(); }
  core::Status encode(const BoxedTensor&, int, TensorMap*) const override { return absent(); }
  core::Status move_map(TensorMap*, void*) const override { return absent(); }

 private:
  static core::Status absent() { return {TESSERA_DEVICE_UNAVAILABLE, kAbsent}; }
};

}  // namespace

const Runtime& build_runtime() {
  static const Absent none;
  return none;
}

}  // namespace runtime
}  // namespace tessera::cuda
