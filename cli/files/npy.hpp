// NumPy's .npy format, versions 1.0, 2.0 and 3.0: a magic, a length, a Python dict literal, the data.
//
//   \x93NUMPY 1 0 <u16 length> {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n <data>
//   \x93NUMPY 2 0 <u32 length> the same; 3 0 as well, its text UTF-8
//
// Accepted: one array of a number or bool type, any byte order, C or Fortran order. bfloat16 has no
// descr of its own: ml_dtypes writes '<V2', which is read as raw16 and written for bf16.
#pragma once

#include "cli/files/array.hpp"

namespace tessera::files {

// On failure returns nothing and puts into *error what is wrong, without the file's name.
// The array's bytes point into `file`.
std::optional<Array> parse_npy(Bytes file, std::string* error);

// Everything in front of the data of a C-order little-endian array; byte for byte what NumPy writes.
std::string npy_header(Element element, const Shape& shape);

}  // namespace tessera::files
