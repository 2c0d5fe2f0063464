// GPUs as the core sees them; see core/backend.hpp. Part of every build: without nvcc no GPU is ever found.
#include "cuda/backend.hpp"

#include <utility>

#include "cuda/append/prepare.hpp"
#include "cuda/quantise/run.hpp"
#include "cuda/runtime/runtime.hpp"

namespace tessera::cuda {
namespace {

class CudaBackend final : public core::Backend {
 public:
  tessera_device_kind kind() const override { return TESSERA_CUDA; }
  std::string_view name() const override { return "cuda"; }
  std::vector<core::Kernel> kernels() const override { return cuda::kernels(); }
  core::Status check_request(const tessera_device& device) const override {
    if (device.run_tasks == nullptr) return {};
    return core::invalid("device.run_tasks is set, but a GPU runs no tasks; null is accepted");
  }
  const core::Hardware* find(const tessera_device& device, std::string* why) const override {
    return runtime::find_gpu(device.index, why);
  }
  core::Status prepare_append(const core::Problem& problem, const core::Device& device,
                              std::shared_ptr<const core::Prepared> attend,
                              std::shared_ptr<const core::Prepared>* out) const override {
    return append::prepare(problem, device, std::move(attend), out);
  }
  core::Status check_memory(const core::Addresses& at, const tessera_device& device) const override {
    core::PerTensor<runtime::Named> all;
    for (const core::TensorField& field : core::kTensorFields.values)
      all[field.id] = {field.name, at[field.id]};
    return runtime::current().check_memory(all.values, device);
  }
  core::Status quantise(const codes::Problem& problem, const tessera_device& device) const override {
    return quantise::run(problem, device);
  }
};

}  // namespace

const core::Backend& backend() {
  static const CudaBackend cuda;
  return cuda;
}

}  // namespace tessera::cuda
