// Launches: which PTX is found, what reaches the executor, what is refused, and what a kernel's report does.
#include "emulator/tests/runtime_fixture.hpp"

extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void*);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*);

namespace emulator::testing {
namespace {

class Launches : public Runtime {};

std::string last_part(const std::string& path) {
  return path.substr(path.find_last_of('.', path.size() - 5) + 1);
}

TEST_F(Launches, ReachTheExecutorAsTheyWereAskedFor) {
  Launch got;
  define("other", [&](const Launch& l) {
    got = l;
    return std::vector<Report>{};
  });
  int* const a = number(0);
  Add given{a, 7};
  void* arguments[] = {&given};
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeAccessPolicyWindow;
  attributes[1].val.accessPolicyWindow = {a, 4, 0.5f, cudaAccessPropertyPersisting,
                                          cudaAccessPropertyStreaming};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(3, 4, 5);
  config.blockDim = dim3(8, 2, 4);
  config.dynamicSmemBytes = 1000;
  config.attrs = attributes;
  config.numAttrs = 2;
  ASSERT_EQ(cudaLaunchKernelExC(&config, stub("other"), arguments), cudaSuccess);
  given = {};  // parameters are copied at the launch
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(got.entry, "other");
  EXPECT_EQ(got.grid, (std::array<unsigned, 3>{3, 4, 5}));
  EXPECT_EQ(got.block, (std::array<unsigned, 3>{8, 2, 4}));
  EXPECT_EQ(got.dynamic_shared_bytes, 1000u);
  EXPECT_TRUE(got.overlaps_previous);
  EXPECT_EQ(params(got).to, a);
  EXPECT_EQ(params(got).what, 7);
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  EXPECT_EQ(cudaLaunchKernelExC(&config, stub("other"), arguments), cudaErrorNotSupported);
}

TEST_F(Launches, EachArchGetsItsPtx) {
  struct {
    const char* device;
    const char* file;
    int code_arch, registers;
  } const rows[] = {{"h200", "90a.ptx", 90, 40}, {"l4", "80.ptx", 80, 64}, {"a100", "80.ptx", 80, 32}};
  for (const auto& row : rows) {
    setenv("TESSERA_EMU_DEVICE", row.device, 1);
    (void)cudaDeviceReset();
    cudaFuncAttributes attributes{};
    ASSERT_EQ(cudaFuncGetAttributes(&attributes, stub("add")), cudaSuccess) << row.device;
    EXPECT_EQ(attributes.ptxVersion, row.code_arch);
    EXPECT_EQ(attributes.numRegs, row.registers);
    ASSERT_EQ(asked().loaded.size(), 1u);
    EXPECT_EQ(last_part(asked().loaded[0]), row.file);
  }
}

// Where there is no PTX for the GPU itself, its code was assembled from that of an older one.
TEST_F(Launches, CodeOfAnOlderPtxIsTheGpusOwn) {
  define("other", {});
  cudaFuncAttributes attributes{};
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, stub("other")), cudaSuccess);
  EXPECT_EQ(attributes.ptxVersion, 80);
  EXPECT_EQ(attributes.numRegs, 36);
}

TEST_F(Launches, WhatHasNoPtxIsRefused) {
  static const int nothing = 0;
  define("only_90", {});
  define("nowhere", {});
  define("bad", {});
  int* const a = number(0);
  Add given{a, 1};
  void* arguments[] = {&given};
  EXPECT_EQ(cudaLaunchKernel(&nothing, dim3(1), dim3(1), arguments, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(launch("nowhere", a, 1), cudaErrorNoKernelImageForDevice);
  EXPECT_EQ(launch("bad", a, 1), cudaErrorInvalidPtx);
  EXPECT_EQ(launch("add", a, 1), cudaSuccess);
  setenv("TESSERA_EMU_DEVICE", "l4", 1);
  (void)cudaDeviceReset();
  EXPECT_EQ(launch("only_90", number(0), 1), cudaErrorNoKernelImageForDevice);
  setenv("TESSERA_EMU_PTX", "/nowhere/at/all", 1);
  (void)cudaDeviceReset();
  EXPECT_EQ(launch("add", number(0), 1), cudaErrorInvalidKernelImage);
}

TEST_F(Launches, SharedMemoryPastTheFirst48KbMustBeAskedFor) {
  int* const a = number(0);
  Add given{a, 1};
  void* arguments[] = {&given};
  entries()["add"].info.static_shared_bytes = 1024;
  const auto with = [&](std::size_t shared) {
    return cudaLaunchKernel(stub("add"), dim3(1), dim3(32), arguments, shared, nullptr);
  };
  const auto allow = [&](int bytes) {
    return cudaFuncSetAttribute(stub("add"), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  EXPECT_EQ(with(47 * 1024), cudaSuccess);
  EXPECT_EQ(with(47 * 1024 + 1), cudaErrorInvalidValue);
  EXPECT_EQ(allow(226 * 1024), cudaSuccess);
  EXPECT_EQ(with(226 * 1024), cudaSuccess);
  EXPECT_EQ(allow(226 * 1024 + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(stub("add"), cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
            cudaErrorNotSupported);
}

TEST_F(Launches, BadGridsAndBlocksAreRefused) {
  Add given{number(0), 1};
  void* arguments[] = {&given};
  const auto with = [&](dim3 grid, dim3 block) {
    return cudaLaunchKernel(stub("add"), grid, block, arguments, 0, nullptr);
  };
  EXPECT_EQ(with(dim3(1), dim3(256)), cudaSuccess);
  EXPECT_EQ(with(dim3(1), dim3(257)), cudaErrorInvalidValue);  // its .maxntid
  EXPECT_EQ(with(dim3(1), dim3(1025)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(with(dim3(1), dim3(1, 1, 65)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(with(dim3(0), dim3(1)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(with(dim3(1, 65536), dim3(1)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// Registers, threads, blocks and shared memory, each in turn, as the CUDA occupancy calculator has them.
TEST_F(Launches, OccupancyIsTheLeastOfFour) {
  const auto blocks = [](int threads, std::size_t shared) {
    int out = -1;
    EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&out, stub("add"), threads, shared), cudaSuccess);
    return out;
  };
  EXPECT_EQ(blocks(128, 0), 12);          // 40 registers: 1280 a warp, 12 warps to a quarter of an SM
  EXPECT_EQ(blocks(32, 0), 32);           // blocks
  EXPECT_EQ(blocks(128, 100 * 1024), 2);  // shared memory: 101 KB of 228
  setenv("TESSERA_EMU_DEVICE", "a100", 1);
  (void)cudaDeviceReset();
  EXPECT_EQ(blocks(256, 0), 8);  // 32 registers: threads
}

TEST_F(Launches, CoverageNamesEachEntryOnce) {
  const std::string file = folder_ + ".coverage";
  std::remove(file.c_str());
  setenv("TESSERA_EMU_COVERAGE", file.c_str(), 1);
  (void)cudaDeviceReset();
  int* const a = number(0);
  for (int n = 0; n < 3; ++n) ASSERT_EQ(launch("add", a, 1), cudaSuccess);
  EXPECT_FALSE(std::ifstream(file).good()) << "nothing has run yet";
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::ifstream in(file);
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  EXPECT_EQ(line, "compute_90a add");
  EXPECT_FALSE(std::getline(in, line));
}

TEST_F(Launches, AReportBreaksTheGpuForGood) {
  const std::pair<const char*, cudaError_t> kinds[] = {{"out of bounds: a load", cudaErrorIllegalAddress},
                                                       {"misaligned: a load", cudaErrorMisalignedAddress},
                                                       {"deadlock: nobody arrives", cudaErrorLaunchTimeout},
                                                       {"anything else", cudaErrorLaunchFailure}};
  for (const auto& [what, code] : kinds) {
    (void)cudaDeviceReset();
    define("other", [&, what = what](const Launch&) {
      Report report;
      report.what = what;
      return std::vector<Report>{report};
    });
    int* const a = number(1);
    ASSERT_EQ(launch("other", a, 1), cudaSuccess) << "a launch does not wait";
    ASSERT_EQ(launch("add", a, 1), cudaSuccess);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(cudaDeviceSynchronize(), code);
    EXPECT_NE(::testing::internal::GetCapturedStderr().find(what), std::string::npos);
    EXPECT_EQ(peek(a), 1) << "nothing runs after it";
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 4), code);
    EXPECT_EQ(cudaGetLastError(), code);
    EXPECT_EQ(cudaGetLastError(), code) << "asking does not mend it";
  }
}

TEST_F(Launches, WhatTheExecutorCannotDoBreaksTheGpuToo) {
  define("other",
         [](const Launch&) -> std::vector<Report> { throw std::runtime_error("x.ptx:3: no such form"); });
  ASSERT_EQ(launch("other", number(1), 1), cudaSuccess);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("x.ptx:3: no such form"), std::string::npos);
}

TEST_F(Launches, PtxCanBeLoadedAsALibrary) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  define("late", [](const Launch& l) {
    *params(l).to = params(l).what;
    return std::vector<Report>{};
  });
  const auto load = [&](const char* text) {
    return cudaLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  EXPECT_EQ(load("\177ELF"), cudaErrorNotSupported);
  EXPECT_EQ(load(".version 8.0 broken"), cudaErrorInvalidPtx);
  ASSERT_EQ(load(".version 8.0 late"), cudaSuccess);
  EXPECT_EQ(cudaLibraryGetKernel(&kernel, library, "missing"), cudaErrorSymbolNotFound);
  ASSERT_EQ(cudaLibraryGetKernel(&kernel, library, "late"), cudaSuccess);
  int* const a = number(0);
  Add given{a, 9};
  void* arguments[] = {&given};
  ASSERT_EQ(cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(peek(a), 9);
  EXPECT_EQ(cudaLibraryUnload(library), cudaSuccess);
  EXPECT_EQ(cudaLibraryUnload(library), cudaErrorInvalidResourceHandle);
}

TEST_F(Launches, TheThreeAngleBracketsAreAPushAndAPop) {
  dim3 grid, block;
  std::size_t shared = 0;
  void* stream = nullptr;
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
  int there = 0;
  EXPECT_EQ(__cudaPushCallConfiguration(dim3(2, 3), dim3(4), 5, &there), 0u);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
  EXPECT_TRUE(grid.x == 2 && grid.y == 3 && block.x == 4 && shared == 5 && stream == &there);
}

}  // namespace
}  // namespace emulator::testing
