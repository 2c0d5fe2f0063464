// Compiles only if the layouts that the binding writes down itself are those of the real headers. Never run.
// WITH_XLA, WITH_DLPACK: which of them are installed.
#include <cstddef>

#include "dlpack.hpp"
#include "xla_ffi.hpp"

#define SAME(ours, field, theirs, their_field) \
  static_assert(offsetof(ours, field) == offsetof(theirs, their_field), #ours "." #field)

#ifdef WITH_XLA
#include <xla/ffi/api/c_api.h>
namespace xla_ours = tessera::python::xla;
// By what it is the base of: its own name has changed between versions.
using XlaExtension = decltype(XLA_FFI_Metadata_Extension::extension_base);
SAME(xla_ours::Extension, type, XlaExtension, type);
SAME(xla_ours::Extension, next, XlaExtension, next);
SAME(xla_ours::ApiVersion, major, XLA_FFI_Api_Version, major_version);
SAME(xla_ours::ApiVersion, minor, XLA_FFI_Api_Version, minor_version);
SAME(xla_ours::ErrorCreateArgs, message, XLA_FFI_Error_Create_Args, message);
SAME(xla_ours::ErrorCreateArgs, code, XLA_FFI_Error_Create_Args, errc);
SAME(xla_ours::Buffer, dtype, XLA_FFI_Buffer, dtype);
SAME(xla_ours::Buffer, data, XLA_FFI_Buffer, data);
SAME(xla_ours::Buffer, rank, XLA_FFI_Buffer, rank);
SAME(xla_ours::Buffer, dims, XLA_FFI_Buffer, dims);
SAME(xla_ours::Scalar, dtype, XLA_FFI_Scalar, dtype);
SAME(xla_ours::Scalar, value, XLA_FFI_Scalar, value);
SAME(xla_ours::ByteSpan, data, XLA_FFI_ByteSpan, ptr);
SAME(xla_ours::ByteSpan, size, XLA_FFI_ByteSpan, len);
SAME(xla_ours::Operands, size, XLA_FFI_Args, size);
SAME(xla_ours::Operands, values, XLA_FFI_Args, args);
SAME(xla_ours::Operands, values, XLA_FFI_Rets, rets);
SAME(xla_ours::Attributes, size, XLA_FFI_Attrs, size);
SAME(xla_ours::Attributes, types, XLA_FFI_Attrs, types);
SAME(xla_ours::Attributes, names, XLA_FFI_Attrs, names);
SAME(xla_ours::Attributes, values, XLA_FFI_Attrs, attrs);
SAME(xla_ours::StreamGetArgs, context, XLA_FFI_Stream_Get_Args, ctx);
SAME(xla_ours::StreamGetArgs, stream, XLA_FFI_Stream_Get_Args, stream);
SAME(xla_ours::Api, version, XLA_FFI_Api, api_version);
SAME(xla_ours::Api, error_create, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(xla_ours::Api, stream_get, XLA_FFI_Api, XLA_FFI_Stream_Get);
SAME(xla_ours::CallFrame, api, XLA_FFI_CallFrame, api);
SAME(xla_ours::CallFrame, context, XLA_FFI_CallFrame, ctx);
SAME(xla_ours::CallFrame, stage, XLA_FFI_CallFrame, stage);
SAME(xla_ours::CallFrame, arguments, XLA_FFI_CallFrame, args);
SAME(xla_ours::CallFrame, results, XLA_FFI_CallFrame, rets);
SAME(xla_ours::CallFrame, attributes, XLA_FFI_CallFrame, attrs);
SAME(xla_ours::Metadata, version, XLA_FFI_Metadata, api_version);
SAME(xla_ours::Metadata, traits, XLA_FFI_Metadata, traits);
SAME(xla_ours::MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);
static_assert(xla_ours::kMajor == XLA_FFI_API_MAJOR);
static_assert(int{xla_ours::kMetadataExtension} == XLA_FFI_Extension_Metadata);
static_assert(int{xla_ours::kPred} == XLA_FFI_DataType_PRED && int{xla_ours::kS32} == XLA_FFI_DataType_S32);
static_assert(int{xla_ours::kS64} == XLA_FFI_DataType_S64 && int{xla_ours::kF16} == XLA_FFI_DataType_F16);
static_assert(int{xla_ours::kF32} == XLA_FFI_DataType_F32 && int{xla_ours::kBf16} == XLA_FFI_DataType_BF16);
static_assert(int{xla_ours::kS8} == XLA_FFI_DataType_S8);
static_assert(int{xla_ours::kF8E5M2} == XLA_FFI_DataType_F8E5M2);
static_assert(int{xla_ours::kF8E4M3Fn} == XLA_FFI_DataType_F8E4M3FN);
static_assert(int{xla_ours::kScalarAttribute} == XLA_FFI_AttrType_SCALAR);
static_assert(int{xla_ours::kStringAttribute} == XLA_FFI_AttrType_STRING);
static_assert(int{xla_ours::kInvalidArgument} == XLA_FFI_Error_Code_INVALID_ARGUMENT);
static_assert(int{xla_ours::kUnavailable} == XLA_FFI_Error_Code_UNAVAILABLE);
#endif

#ifdef WITH_DLPACK
#include <ATen/dlpack.h>
namespace dl_ours = tessera::python::dlpack;
static_assert(sizeof(dl_ours::Tensor) == sizeof(DLTensor));
SAME(dl_ours::Tensor, device, DLTensor, device);
SAME(dl_ours::Tensor, ndim, DLTensor, ndim);
SAME(dl_ours::Tensor, dtype, DLTensor, dtype);
SAME(dl_ours::Tensor, shape, DLTensor, shape);
SAME(dl_ours::Tensor, strides, DLTensor, strides);
SAME(dl_ours::Tensor, byte_offset, DLTensor, byte_offset);
SAME(dl_ours::ManagedTensor, deleter, DLManagedTensor, deleter);
SAME(dl_ours::ManagedTensorVersioned, flags, DLManagedTensorVersioned, flags);
SAME(dl_ours::ManagedTensorVersioned, tensor, DLManagedTensorVersioned, dl_tensor);
static_assert(dl_ours::kReadOnly == DLPACK_FLAG_BITMASK_READ_ONLY);
static_assert(int{dl_ours::kCuda} == kDLCUDA && int{dl_ours::kCudaManaged} == kDLCUDAManaged);
static_assert(int{dl_ours::kCudaHost} == kDLCUDAHost && int{dl_ours::kRocmHost} == kDLROCMHost);
static_assert(int{dl_ours::kBfloat} == kDLBfloat && int{dl_ours::kBool} == kDLBool);
#if DLPACK_MINOR_VERSION >= 1
static_assert(int{dl_ours::kFloat8E4M3Fn} == kDLFloat8_e4m3fn && int{dl_ours::kFloat8E5M2} == kDLFloat8_e5m2);
#endif
#if DLPACK_MINOR_VERSION >= 3
SAME(dl_ours::Exchange, allocate, DLPackExchangeAPI, managed_tensor_allocator);
SAME(dl_ours::Exchange, borrow, DLPackExchangeAPI, dltensor_from_py_object_no_sync);
SAME(dl_ours::Exchange, current_stream, DLPackExchangeAPI, current_work_stream);
#endif
#endif
