// What GPU there is, its memory, errors, and the driver's tensor maps.
#include <cuda.h>

#include <thread>

#include "emulator/exec/tensor_map.hpp"
#include "emulator/tests/runtime_fixture.hpp"

namespace emulator::testing {
namespace {

class Devices : public Runtime {};

TEST_F(Devices, AreDescribedByData) {
  struct {
    const char* name;
    int arch, sms;
    std::size_t shared;
  } const rows[] = {{"h200", 90, 132, 232448}, {"l4", 89, 58, 101376}, {"a100", 80, 108, 166912}};
  for (const auto& row : rows) {
    setenv("TESSERA_EMU_DEVICE", row.name, 1);
    (void)cudaDeviceReset();
    cudaDeviceProp p{};
    int count = 0, sms = 0;
    ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    EXPECT_EQ(count, 1);
    ASSERT_EQ(cudaGetDeviceProperties(&p, 0), cudaSuccess);
    EXPECT_EQ(10 * p.major + p.minor, row.arch);
    EXPECT_EQ(p.sharedMemPerBlockOptin, row.shared);
    EXPECT_EQ(p.multiProcessorCount, row.sms);
    ASSERT_EQ(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
    EXPECT_EQ(sms, row.sms);
    EXPECT_EQ(cudaGetDeviceProperties(&p, 1), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  }
}

TEST_F(Devices, TheEnvironmentSettlesTheRest) {
  setenv("TESSERA_EMU_SMS", "4", 1);
  setenv("TESSERA_EMU_SEED", "77", 1);
  (void)cudaDeviceReset();
  (void)number(0);
  EXPECT_EQ(asked().device.multiprocessors, 4);
  EXPECT_EQ(asked().settings.seed, 77u);
}

TEST_F(Devices, ABadEnvironmentIsNoGpuAndASentence) {
  const std::pair<const char*, const char*> bad[] = {{"TESSERA_EMU_DEVICE", "h300"},
                                                     {"TESSERA_EMU_SMS", "0"},
                                                     {"TESSERA_EMU_SMS", "4x"},
                                                     {"TESSERA_EMU_SEED", "-1"}};
  for (const auto& [variable, value] : bad) {
    setenv(variable, value, 1);
    (void)cudaDeviceReset();
    int count = -1;
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice) << variable;
    EXPECT_NE(::testing::internal::GetCapturedStderr().find(variable), std::string::npos);
    EXPECT_EQ(count, 0);
    unsetenv(variable);
  }
}

TEST_F(Devices, WhatIsNotDescribedIsAnErrorThatNamesIt) {
  int value = 0;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxTexture1DWidth, 0), cudaErrorNotSupported);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("attribute 21 "), std::string::npos);
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimitStackSize, 1024), cudaErrorNotSupported);
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault, &found),
            cudaErrorNotSupported);
  EXPECT_EQ(found, cudaDriverEntryPointSymbolNotFound);
}

class Memories : public Runtime {};

TEST_F(Memories, RangesAreExact) {
  char bytes[16] = {};
  void* p = nullptr;
  ASSERT_EQ(cudaMalloc(&p, 10), cudaSuccess);
  auto* const at = static_cast<char*>(p);
  EXPECT_EQ(cudaMemcpy(p, bytes, 10, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(p, bytes, 11, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(at + 3, bytes, 7, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(bytes, at + 3, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(at + 9, 1, 1), cudaSuccess);
  EXPECT_EQ(cudaMemset(at + 10, 1, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(at + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(Memories, TheExecutorLearnsWhatWasWritten) {
  char bytes[16] = {};
  void* p = nullptr;
  ASSERT_EQ(cudaMalloc(&p, 32), cudaSuccess);
  auto* const at = static_cast<char*>(p);
  EXPECT_FALSE(written(at, 1));
  ASSERT_EQ(cudaMemcpy(at + 4, bytes, 16, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_TRUE(written(at + 4, 16));
  EXPECT_FALSE(written(at + 3, 1) || written(at + 20, 1));
  ASSERT_EQ(cudaMemsetAsync(at + 20, 5, 12, nullptr), cudaSuccess);
  EXPECT_FALSE(written(at + 20, 1));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(written(at + 20, 12));
  EXPECT_EQ(at[31], 5);
}

TEST_F(Memories, TooMuchIsRefusedAndCounted) {
  std::size_t before = 0, free = 0, total = 0;
  void* p = nullptr;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&p, std::size_t{1} << 50), cudaErrorMemoryAllocation);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&p, 1000), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(before - free, 1000u);
}

TEST_F(Memories, APoolsMemoryLeavesInTheOrderOfItsStream) {
  cudaMemPoolProps wanted{};
  wanted.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  cudaStream_t stream = nullptr;
  void* p = nullptr;
  std::uint64_t all = ~std::uint64_t{0};
  ASSERT_EQ(cudaMemPoolCreate(&pool, &wanted), cudaSuccess);
  ASSERT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all), cudaSuccess);
  int no = 0;
  ASSERT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &no), cudaSuccess);
  EXPECT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &all), cudaErrorNotSupported);
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaMallocFromPoolAsync(&p, sizeof(int), pool, stream), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(p, 0, sizeof(int), stream), cudaSuccess);
  ASSERT_EQ(launch("add", static_cast<int*>(p), 3, stream), cudaSuccess);
  int seen = 0;
  define("other", [&](const Launch& l) {
    seen = *params(l).to;
    return std::vector<Report>{};
  });
  ASSERT_EQ(launch("other", static_cast<int*>(p), 0, stream), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(p, stream), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(p, stream), cudaErrorInvalidValue) << "twice";
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, p), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice) << "the stream is not there yet";
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(seen, 3);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, p), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaMallocFromPoolAsync(&p, 4, nullptr, stream), cudaErrorInvalidValue);
}

class TensorMaps : public Runtime {
 protected:
  template <class Function>
  static Function* driver(const char* name) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found),
              cudaSuccess);
    return reinterpret_cast<Function*>(function);
  }
  // A map of rank 2 with one thing changed by each test.
  CUresult encode() {
    return driver<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled")(
        &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, address, extents, strides, box, ones,
        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  alignas(64) CUtensorMap map{};
  void* address = reinterpret_cast<void*>(0x1000);
  cuuint64_t extents[2] = {100, 30}, strides[1] = {256};
  cuuint32_t box[2] = {64, 16}, ones[2] = {1, 1};
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
};

TEST_F(TensorMaps, HoldWhatWasEncoded) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(encode(), CUDA_SUCCESS);
  TensorMap made;
  std::memcpy(static_cast<void*>(&made), &map, sizeof made);
  EXPECT_EQ(made.magic, kTensorMapMagic);
  EXPECT_TRUE(made.element == TensorElement::kBFloat16 && made.element_bytes == 2 && made.rank == 2);
  EXPECT_TRUE(made.swizzle == TensorSwizzle::k128 && made.base == 0x1000 && made.strides[0] == 256);
  EXPECT_TRUE(made.extents[0] == 100 && made.extents[1] == 30 && made.box[0] == 64 && made.box[1] == 16);
  auto* const move = driver<decltype(cuTensorMapReplaceAddress)>("cuTensorMapReplaceAddress");
  EXPECT_EQ(move(&map, reinterpret_cast<void*>(0x2010)), CUDA_SUCCESS);
  std::memcpy(static_cast<void*>(&made), &map, sizeof made);
  EXPECT_EQ(made.base, 0x2010u);
  EXPECT_EQ(move(&map, reinterpret_cast<void*>(0x2011)), CUDA_ERROR_INVALID_VALUE);
  alignas(64) CUtensorMap none{};
  EXPECT_EQ(move(&none, address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TensorMaps, AreRefusedAsTheDriverRefusesThem) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const auto refuses = [this](auto& field, auto value) {
    const auto before = field;
    field = value;
    EXPECT_EQ(encode(), CUDA_ERROR_INVALID_VALUE) << value;
    field = before;
    EXPECT_EQ(encode(), CUDA_SUCCESS);
  };
  refuses(strides[0], 250u);
  refuses(strides[0], std::uint64_t{1} << 40);
  refuses(extents[1], 0u);
  refuses(box[1], 257u);
  refuses(box[0], 65u);
  refuses(box[0], 128u);  // more than the swizzle goes over
  refuses(ones[0], 2u);
  refuses(address, reinterpret_cast<void*>(0x1008));
}

TEST_F(TensorMaps, WantAContextInTheThread) {
  std::thread([this] {
    CUcontext context = nullptr;
    auto* const current = driver<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent");
    EXPECT_EQ(current(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);
    EXPECT_EQ(encode(), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(current(&context), CUDA_SUCCESS);
    EXPECT_NE(context, nullptr);
    EXPECT_EQ(encode(), CUDA_SUCCESS);
  }).join();
}

}  // namespace
}  // namespace emulator::testing
