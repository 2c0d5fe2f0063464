// What the tests that compute on a GPU share: skip without one, and a small problem that lies there.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cases/gates.hpp"
#include "core/plan.hpp"
#include "cuda/runtime/runtime.hpp"
#include "tests/case_of.hpp"

namespace tessera::testing_cuda {

// Why the GPU tests cannot run here; empty if they can.
inline std::string no_gpu() {
  std::string why;
  if (cuda::runtime::find_gpu(0, &why) != nullptr) return "";
  return why;
}

#define SKIP_WITHOUT_GPU() \
  if (const std::string why = tessera::testing_cuda::no_gpu(); !why.empty()) GTEST_SKIP() << why

inline tessera_device gpu_device() {
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = TESSERA_CUDA;
  return device;
}

using testing_cases::case_of;

// Devices that force one kernel each, for every CUDA kernel this machine can run.
inline std::vector<tessera_device> kernels_here() {
  std::vector<tessera_device> out;
  for (const core::Kernel& kernel : core::kernels()) {
    tessera_device device = gpu_device();
    if (kernel.device != TESSERA_CUDA || !core::missing(kernel, device).empty()) continue;
    device.kernel = kernel.name.data();  // names are literals
    out.push_back(device);
  }
  return out;
}

inline bool supports(const tessera_device& device, const tessera_attention& attention) {
  core::Problem problem;
  if (!core::validate(attention, &problem).ok()) return false;
  for (const core::Kernel& kernel : core::kernels())
    if (kernel.name == device.kernel) return core::takes(kernel, problem).ok();
  return false;
}

// An instance and its twin on the GPU.
struct OnGpu {
  explicit OnGpu(const std::string& words) : instance(case_of(words), cases::Input::normal, 1) {
    const core::Status status = instance.mirror(0, &mirror);
    EXPECT_TRUE(status.ok()) << status.message;
    if (status.ok()) problem = mirror->problem(instance.problem());
  }
  cases::Instance instance;
  cases::Mirror* mirror = nullptr;
  tessera_attention problem = TESSERA_ATTENTION_INIT;
};

}  // namespace tessera::testing_cuda
