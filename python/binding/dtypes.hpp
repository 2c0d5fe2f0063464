// What the protocols call an element type, as a tessera_dtype; 0 where it is none of ours.
#pragma once

#include <tessera/tessera.h>

#include <string>

#include "dlpack.hpp"
#include "python.hpp"

namespace tessera::python {

// What scratch memory is made of; no dtype of the library's.
inline constexpr tessera_dtype kUint8 = -1;

// False, with an exception that says what `name` has and what is accepted.
bool refuse_dtype(const char* name, const char* dtype);

tessera_dtype from_dlpack(dlpack::DataType type);
std::string dlpack_type_name(dlpack::DataType type);

// The kind and size of the array interface: "<f4" and its relatives. Void stands for the types of
// ml_dtypes, which only their name tells apart.
tessera_dtype from_kind(char kind, Py_ssize_t item_size);

// The 8-bit floats of a tensor of PyTorch; 0, without an exception, if it has others.
tessera_dtype torch_codes(PyObject* tensor);

// By the name of object.dtype; 0 with a Python exception set if it is not one of ours.
tessera_dtype from_dtype_name(PyObject* object, const char* name);

// One native letter of the buffer protocol.
tessera_dtype from_format(const char* format, Py_ssize_t item_size);

}  // namespace tessera::python
