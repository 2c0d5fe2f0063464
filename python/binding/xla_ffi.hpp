// The part of XLA's foreign function interface (a versioned C interface) that one handler needs, written
// down here so that building Tessera needs no JAX and any JAX can load the result. Only what has kept its
// place since version 0.0 is used; tests/abi_check.cpp compares the layouts with the header of the JAX
// that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::python::xla {

inline constexpr int kMajor = 0;

enum ExtensionType : int { kMetadataExtension = 1 };
struct Extension {
  std::size_t struct_size;
  ExtensionType type;
  Extension* next;
};

struct ApiVersion {
  std::size_t struct_size;
  Extension* extensions;
  int major, minor;
};

enum ErrorCode : int {
  kInvalidArgument = 3,
  kResourceExhausted = 8,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
};
struct Error;
struct ErrorCreateArgs {
  std::size_t struct_size;
  Extension* extensions;
  const char* message;
  ErrorCode code;
};

enum DataType : int {
  kPred = 1,
  kS8 = 2,
  kS32 = 4,
  kS64 = 5,
  kF16 = 10,
  kF32 = 11,
  kBf16 = 16,
  kF8E5M2 = 19,
  kF8E4M3Fn = 20,
};

// Always dense, last dimension fastest.
struct Buffer {
  std::size_t struct_size;
  Extension* extensions;
  DataType dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};

enum AttributeType : int { kScalarAttribute = 3, kStringAttribute = 4 };
struct ByteSpan {
  const char* data;
  std::size_t size;
};
struct Scalar {
  DataType dtype;
  void* value;
};

// Arguments and results have one layout; types[i] is 1 for a buffer, the only kind there is.
struct Operands {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  int* types;
  void** values;
};
struct Attributes {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  AttributeType* types;
  ByteSpan** names;
  void** values;
};

struct Context;
struct StreamGetArgs {
  std::size_t struct_size;
  Extension* extensions;
  Context* context;
  void* stream;  // out
};

struct DeviceOrdinalGetArgs {
  std::size_t struct_size;
  Extension* extensions;
  Context* context;
  std::int32_t device_ordinal;  // out
};

struct Api {
  std::size_t struct_size;
  Extension* extensions;
  ApiVersion version;
  const void* internal;
  Error* (*error_create)(ErrorCreateArgs*);
  void (*error_get_message)(void*);
  void (*error_destroy)(void*);
  Error* (*handler_register)(void*);
  Error* (*stream_get)(StreamGetArgs*);
  // Not needed here: types, contexts, state, device memory, threads, futures and the run's number.
  void (*others[12])();
  Error* (*device_ordinal_get)(DeviceOrdinalGetArgs*);  // there if struct_size says so
};

enum Stage : int { kExecute = 3 };
struct CallFrame {
  std::size_t struct_size;
  Extension* extensions;
  const Api* api;
  Context* context;
  Stage stage;
  Operands arguments;
  Operands results;
  Attributes attributes;
};

struct Metadata {
  std::size_t struct_size;
  ApiVersion version;
  std::uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

using Handler = Error*(CallFrame*);

}  // namespace tessera::python::xla
