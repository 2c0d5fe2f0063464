#include "emulator/conformance/gpu.hpp"

#include <dlfcn.h>

#include <cstring>
#include <stdexcept>

namespace emulator::conformance {
namespace {

using Address = unsigned long long;
struct Module;
struct Function;

}  // namespace

template <class F>
F* Gpu::find(const char* name) const {
  void* found = dlsym(library_, name);
  if (found == nullptr) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  return reinterpret_cast<F*>(found);
}

void Gpu::check(int status, const char* what) const {
  if (status == 0) return;
  const char* text = nullptr;
  find<int(int, const char**)>("cuGetErrorString")(status, &text);
  throw std::runtime_error(std::string(what) + ": " + (text != nullptr ? text : std::to_string(status)));
}

Gpu::Gpu() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
  if (library_ == nullptr) throw std::runtime_error("there is no libcuda.so.1 here");
  check(find<int(unsigned)>("cuInit")(0), "cuInit");
  int device = 0;
  check(find<int(int*, int)>("cuDeviceGet")(&device, 0), "cuDeviceGet");
  char text[128] = {};
  check(find<int(char*, int, int)>("cuDeviceGetName")(text, 127, device), "cuDeviceGetName");
  name_ = text;
  void* context = nullptr;
  check(find<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device), "cuDevicePrimaryCtxRetain");
  check(find<int(void*)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
}

std::vector<std::uint32_t> Gpu::run(const Case& one) {
  Module* module = nullptr;
  Function* function = nullptr;
  check(find<int(Module**, const void*)>("cuModuleLoadData")(&module, one.ptx.c_str()), "cuModuleLoadData");
  check(find<int(Function**, Module*, const char*)>("cuModuleGetFunction")(&function, module, "conform"),
        "cuModuleGetFunction");
  const auto allocate = find<int(Address*, std::size_t)>("cuMemAlloc_v2");
  const std::size_t in_bytes = one.input.size() * 4, out_bytes = one.items * one.item_words * 4;
  Address in = 0, out = 0;
  check(allocate(&in, in_bytes), "cuMemAlloc");
  check(allocate(&out, out_bytes), "cuMemAlloc");
  check(find<int(Address, const void*, std::size_t)>("cuMemcpyHtoD_v2")(in, one.input.data(), in_bytes),
        "cuMemcpyHtoD");
  check(find<int(Address, unsigned char, std::size_t)>("cuMemsetD8_v2")(out, 0, out_bytes), "cuMemset");
  alignas(64) unsigned char map[128] = {};
  if (one.tensor) {
    const Tensor& t = *one.tensor;
    constexpr int kUint8 = 0, kFloat16 = 6;
    const unsigned ones[5] = {1, 1, 1, 1, 1};
    const unsigned long long extents[5] = {t.extents[0], t.extents[1], t.extents[2], t.extents[3],
                                           t.extents[4]};
    const unsigned long long strides[4] = {t.strides[0], t.strides[1], t.strides[2], t.strides[3]};
    check(find<int(void*, int, unsigned, void*, const unsigned long long*, const unsigned long long*,
                   const unsigned*, const unsigned*, int, int, int, int)>("cuTensorMapEncodeTiled")(
              map, t.element_bytes == 1 ? kUint8 : kFloat16, t.rank, reinterpret_cast<void*>(in + t.offset),
              extents, strides, t.box.data(), ones, 0, static_cast<int>(t.swizzle), 0, 0),
          "cuTensorMapEncodeTiled");
  }
  constexpr int kMaxDynamicShared = 8;
  check(find<int(Function*, int, int)>("cuFuncSetAttribute")(function, kMaxDynamicShared,
                                                             static_cast<int>(one.shared_bytes)),
        "cuFuncSetAttribute");
  void* params[3] = {&in, &out, map};
  check(
      find<int(Function*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
               void**)>("cuLaunchKernel")(function, one.blocks, 1, 1, one.threads, 1, 1,
                                          static_cast<unsigned>(one.shared_bytes), nullptr, params, nullptr),
      "cuLaunchKernel");
  check(find<int()>("cuCtxSynchronize")(), "cuCtxSynchronize");
  std::vector<std::uint32_t> results(out_bytes / 4);
  check(find<int(void*, Address, std::size_t)>("cuMemcpyDtoH_v2")(results.data(), out, out_bytes),
        "cuMemcpyDtoH");
  const auto release = find<int(Address)>("cuMemFree_v2");
  check(release(in), "cuMemFree");
  check(release(out), "cuMemFree");
  check(find<int(Module*)>("cuModuleUnload")(module), "cuModuleUnload");
  return results;
}

}  // namespace emulator::conformance
