// Problems from words, and what would be planned for them on a GPU that is not here.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cases/case.hpp"
#include "cases/tensors.hpp"
#include "core/plan.hpp"
#include "tests/case_of.hpp"
#include "tests/cuda/pretend.hpp"

namespace tessera::testing_cuda {

inline constexpr int kSms = 132;  // of an H200

inline core::Problem problem(const std::string& words) {
  core::Problem made;
  const core::Status status = cases::validated(testing_cases::case_of(words), &made);
  EXPECT_TRUE(status.ok()) << words << ": " << status.message;
  return made;
}

inline cuda::runtime::Gpu pretended_gpu(int arch) {
  cuda::runtime::Gpu gpu;
  gpu.name = "pretended";
  gpu.arch = arch;
  gpu.sms = kSms;
  return gpu;
}

// A plan in words: which kernel, why it, and why it is cut up as it is.
struct Planned {
  std::string kernel, reason, words;
};

inline Planned planned(const core::Problem& p, int arch, const char* kernel = nullptr) {
  const Pretend pretend({pretended_gpu(arch)});
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = TESSERA_CUDA;
  device.kernel = kernel;
  core::Plan plan;
  const core::Status status = core::plan(p, device, &plan);
  EXPECT_TRUE(status.ok()) << status.message;
  if (!status.ok()) return {};
  return {std::string(plan.kernel->name), core::why(plan, p, device), plan.prepared->words()};
}

}  // namespace tessera::testing_cuda
