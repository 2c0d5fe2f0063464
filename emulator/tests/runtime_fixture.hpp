// A fresh machine for each test, with kernels that are functions of the test's.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "emulator/tests/stand_in.hpp"

// nvcc's stubs call it.
extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                                       dim3*, int*);

namespace emulator::testing {

// The parameters of every kernel here.
struct Add {
  int* to;
  int what;
};

class Runtime : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"TESSERA_EMU_DEVICE", "TESSERA_EMU_SMS", "TESSERA_EMU_SEED", "TESSERA_EMU_COVERAGE"})
      unsetenv(name);
    folder_ = ::testing::TempDir() + "emulator_runtime_" + std::to_string(getpid());
    std::ofstream(folder_ + ".80.ptx") << ".version 8.0 add_80 add other\n";
    std::ofstream(folder_ + ".90a.ptx") << ".version 8.0 add\n";
    std::ofstream(folder_ + ".broken.ptx") << "broken\n";
    std::ofstream(folder_ + ".index")
        << "module compute_80 " << folder_ << ".80.ptx\n"
        << "entry add sm_80:32:0 sm_89:64:8\nentry other sm_80:30:0 sm_90a:36:0\n"
        << "module compute_90a " << folder_ << ".90a.ptx\n"
        << "entry add sm_90a:40:0\nentry only_90\n"
        << "module compute_80 " << folder_ << ".broken.ptx\nentry bad\n";
    setenv("TESSERA_EMU_PTX", (folder_ + ".index").c_str(), 1);
    entries().clear();
    define("add", [](const Launch& launch) {
      const auto given = params(launch);
      *given.to += given.what;
      return std::vector<Report>{};
    });
    (void)cudaDeviceReset();
  }
  void TearDown() override { (void)cudaDeviceReset(); }

  static Add params(const Launch& launch) {
    Add given{};
    std::memcpy(&given, launch.params.data(), sizeof given);
    return given;
  }

  // Makes a kernel; its address is that of its name in the table of entries.
  const void* define(const char* name, std::function<std::vector<Report>(const Launch&)> run) {
    StandInEntry& entry = entries()[name];
    entry.info.param_bytes = sizeof(Add);
    entry.info.params = {{0, sizeof(Add)}};
    entry.info.max_threads = 256;
    entry.run = std::move(run);
    __cudaRegisterFunction(nullptr, stub(name), nullptr, name, -1, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
    return stub(name);
  }
  static const char* stub(const std::string& name) {
    static std::map<std::string, std::string> stubs;
    return stubs.emplace(name, name).first->second.c_str();
  }

  // With the attribute of programmatic dependent launch.
  static cudaError_t launch_early(const char* name, int* to, int what, cudaStream_t stream = nullptr) {
    Add given{to, what};
    void* arguments[] = {&given};
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = config.blockDim = dim3(1);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelExC(&config, stub(name), arguments);
  }
  static cudaError_t launch(const char* name, int* to, int what, cudaStream_t stream = nullptr) {
    Add given{to, what};
    void* arguments[] = {&given};
    return cudaLaunchKernel(stub(name), dim3(1), dim3(32), arguments, 0, stream);
  }

  // Four bytes on the GPU with this number in them.
  static int* number(int value) {
    void* out = nullptr;
    EXPECT_EQ(cudaMalloc(&out, sizeof value), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(out, &value, sizeof value, cudaMemcpyHostToDevice), cudaSuccess);
    return static_cast<int*>(out);
  }
  // Without waiting for anything.
  static int peek(const int* at) { return *at; }

  std::string folder_;
};

}  // namespace emulator::testing
