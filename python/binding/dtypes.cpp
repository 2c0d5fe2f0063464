#include "dtypes.hpp"

#include <cstring>

namespace tessera::python {
namespace {

tessera_dtype codes_named(const char* name) {
  if (std::strcmp(name, "float8_e4m3fn") == 0) return TESSERA_F8E4M3;
  if (std::strcmp(name, "float8_e5m2") == 0) return TESSERA_F8E5M2;
  return 0;
}

}  // namespace

bool refuse_dtype(const char* name, const char* dtype) {
  PyErr_Format(
      PyExc_TypeError,
      "%s has dtype %s; Tessera takes float32, float16, bfloat16, float8_e4m3fn, float8_e5m2 and (k, v) "
      "int8 arrays, bool or floating masks, int32 or int64 key_lengths, and float32 for alibi, sinks, "
      "scales and rope",
      name, dtype);
  return false;
}

tessera_dtype from_dlpack(dlpack::DataType type) {
  if (type.lanes != 1) return 0;
  const int code = type.code, bits = type.bits;
  if (code == dlpack::kFloat && bits == 32) return TESSERA_F32;
  if (code == dlpack::kFloat && bits == 16) return TESSERA_F16;
  if (code == dlpack::kBfloat && bits == 16) return TESSERA_BF16;
  if (code == dlpack::kBool && bits == 8) return TESSERA_BOOL;
  if (code == dlpack::kUint && bits == 8) return kUint8;
  if (code == dlpack::kInt && bits == 8) return TESSERA_I8;
  if (code == dlpack::kInt && bits == 32) return TESSERA_I32;
  if (code == dlpack::kInt && bits == 64) return TESSERA_I64;
  if (code == dlpack::kFloat8E4M3Fn && bits == 8) return TESSERA_F8E4M3;
  if (code == dlpack::kFloat8E5M2 && bits == 8) return TESSERA_F8E5M2;
  return 0;
}

std::string dlpack_type_name(dlpack::DataType type) {
  static constexpr const char* kNames[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const std::string base = type.code < 7 ? kNames[type.code] : "type " + std::to_string(type.code) + "/";
  return base + std::to_string(type.bits) + (type.lanes != 1 ? "x" + std::to_string(type.lanes) : "");
}

tessera_dtype from_kind(char kind, Py_ssize_t item_size) {
  if (kind == 'f' && item_size == 4) return TESSERA_F32;
  if (kind == 'f' && item_size == 2) return TESSERA_F16;
  if (kind == 'b' && item_size == 1) return TESSERA_BOOL;
  if (kind == 'u' && item_size == 1) return kUint8;
  if (kind == 'i' && item_size == 1) return TESSERA_I8;
  if (kind == 'i' && item_size == 4) return TESSERA_I32;
  if (kind == 'i' && item_size == 8) return TESSERA_I64;
  return 0;
}

tessera_dtype torch_codes(PyObject* tensor) {
  constexpr const char* kPrefix = "torch.";
  const Ref dtype(PyObject_GetAttrString(tensor, "dtype"));
  const Ref text(dtype ? PyObject_Str(dtype.get()) : nullptr);
  const char* utf8 = text ? PyUnicode_AsUTF8AndSize(text.get(), nullptr) : nullptr;
  if (utf8 == nullptr) PyErr_Clear();
  if (utf8 == nullptr || std::strncmp(utf8, kPrefix, std::strlen(kPrefix)) != 0) return 0;
  return codes_named(utf8 + std::strlen(kPrefix));
}

tessera_dtype from_dtype_name(PyObject* object, const char* name) {
  const Ref dtype(PyObject_GetAttrString(object, "dtype"));
  const Ref text(dtype ? PyObject_Str(dtype.get()) : nullptr);
  const char* utf8 = text ? PyUnicode_AsUTF8AndSize(text.get(), nullptr) : nullptr;
  if (utf8 == nullptr) return 0;
  if (std::strcmp(utf8, "bfloat16") == 0) return TESSERA_BF16;
  if (const tessera_dtype codes = codes_named(utf8); codes != 0) return codes;
  refuse_dtype(name, utf8);
  return 0;
}

tessera_dtype from_format(const char* format, Py_ssize_t item_size) {
  if (format == nullptr) return 0;
  if (*format == '@' || *format == '=') ++format;
  if (*format == '\0' || format[1] != '\0') return 0;
  switch (*format) {
    case 'f':
      return TESSERA_F32;
    case 'e':
      return TESSERA_F16;
    case '?':
      return TESSERA_BOOL;
    case 'B':
      return kUint8;
    case 'b':
      return TESSERA_I8;
    case 'i':
    case 'l':
    case 'q':
      return from_kind('i', item_size);
    default:
      return 0;
  }
}

}  // namespace tessera::python
