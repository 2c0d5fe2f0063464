// The part of DLPack 1.x that a consumer needs, written down from its specification: the tensor struct,
// the two capsule payloads ("dltensor" and "dltensor_versioned") and the table of C functions that newer
// frameworks hang on their tensor type (__dlpack_c_exchange_api__), which spares three Python calls per
// tensor. Layouts are fixed by that specification; tests/abi_check.cpp compares them with a real header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::python::dlpack {

enum DeviceType : std::int32_t {
  kCpu = 1,
  kCuda = 2,
  kCudaHost = 3,
  kRocmHost = 11,
  kCudaManaged = 13,
};

struct Device {
  std::int32_t type;
  std::int32_t index;
};

enum TypeCode : std::uint8_t {
  kInt = 0,
  kUint = 1,
  kUnsigned = 1,
  kFloat = 2,
  kBfloat = 4,
  kBool = 6,
  kFloat8E4M3Fn = 10,
  kFloat8E5M2 = 12,
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null means contiguous
  std::uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* manager;
  void (*deleter)(ManagedTensor*);
};

struct Version {
  std::uint32_t major, minor;
};

inline constexpr std::uint32_t kMajor = 1;
inline constexpr std::uint64_t kReadOnly = 1;  // bit of ManagedTensorVersioned::flags

struct ManagedTensorVersioned {
  Version version;
  void* manager;
  void (*deleter)(ManagedTensorVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};

struct ExchangeHeader {
  Version version;
  ExchangeHeader* previous;
};

// All functions return 0, or -1 with a Python exception set.
struct Exchange {
  ExchangeHeader header;
  int (*allocate)(Tensor* prototype, ManagedTensorVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedTensorVersioned** out);
  int (*managed_to_object)(ManagedTensorVersioned* tensor, void** out);
  int (*borrow)(void* object, Tensor* out);  // may be null; *out lives as long as the object
  int (*current_stream)(std::int32_t device_type, std::int32_t device_index, void** out);
};

}  // namespace tessera::python::dlpack
