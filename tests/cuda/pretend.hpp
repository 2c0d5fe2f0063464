// GPUs that are not here: stands in for the CUDA runtime, so that plans can be made for any arch on any
// machine. Steps can be looked at; nothing is launched.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cuda/runtime/runtime.hpp"
#include "cuda/runtime/sentences.hpp"
#include "cuda/sm80/configs.hpp"

namespace tessera::testing_cuda {

class Pretend final : public cuda::runtime::Runtime {
 public:
  using Gpu = cuda::runtime::Gpu;
  using Step = cuda::runtime::Step;

  // From now on, and until this is gone, these are the GPUs of the process.
  explicit Pretend(std::vector<Gpu> gpus) : gpus_(std::move(gpus)) {
    for (std::size_t n = 0; n < gpus_.size(); ++n) gpus_[n].index = static_cast<int>(n);
    cuda::runtime::stand_in(this);
  }
  ~Pretend() override { cuda::runtime::stand_in(nullptr); }
  Pretend(const Pretend&) = delete;
  Pretend& operator=(const Pretend&) = delete;

  const Gpu* find_gpu(int index, std::string* why) const override {
    std::string reason;
    const int count = static_cast<int>(gpus_.size());
    if (count == 0) {
      constexpr int kNoDevice = 100;
      reason = cuda::runtime::why_no_gpu({kNoDevice, "cudaErrorNoDevice", ""}, 13000, 13000);
    } else if (index >= count) {
      reason = cuda::runtime::why_no_index(index, count);
    } else {
      const Gpu& gpu = gpus_[static_cast<std::size_t>(index)];
      if (gpu.arch >= cuda::runtime::kLeastArch) return &gpu;
      reason = cuda::runtime::why_too_old(index, gpu.name, gpu.arch);
    }
    if (why != nullptr) *why = reason;
    return nullptr;
  }
  core::Status check_memory(std::span<const cuda::runtime::Named>, const tessera_device&) const override {
    return {};
  }
  core::Status make_ready(const Step&, int) const override { return {}; }
  core::Status launch(const Step& step, const core::Addresses& at, void* workspace,
                      const tessera_device&) const override {
    alignas(64) std::byte params[Step::kMostParams];
    std::memcpy(params, step.params.data(), step.params_bytes);
    core::Status status = step.place(params, at, workspace);
    launched_.push_back(step);
    std::memcpy(launched_.back().params.data(), params, step.params_bytes);
    return status;
  }
  core::Status allocate(std::int64_t, const tessera_device&, void** out) const override {
    *out = kOwnMemory;
    return {};
  }
  core::Status release(void*, const tessera_device&) const override { return {}; }
  core::Status inspect(const void*, int, unsigned, unsigned, cuda::runtime::Function* out) const override {
    *out = {};
    out->blocks_per_sm = 1;
    return {};
  }
  core::Status code_arch(const void*, int gpu, int* out) const override {
    *out = cuda::sm80::code_arch_of(gpus_[static_cast<std::size_t>(gpu)].arch);
    return {};
  }
  core::Status encode(const cuda::runtime::BoxedTensor& tensor, int, cuda::TensorMap* map) const override {
    return move_map(map, tensor.data);
  }
  core::Status move_map(cuda::TensorMap* map, void* data) const override {
    *reinterpret_cast<void**>(map) = data;
    return {};
  }

  // What a plan's own workspace is.
  static inline char kOwnMemory[256] = {};
  // What would have been launched, with the addresses in place.
  const std::vector<Step>& launched() const { return launched_; }

 private:
  std::vector<Gpu> gpus_;
  mutable std::vector<Step> launched_;
};

}  // namespace tessera::testing_cuda
