// tessera_quantise over arrays that Python has made.
#pragma once

#include <tessera/tessera.h>

#include "python.hpp"

namespace tessera::python {

// (x, codes, scales, means or None, scale_rows, hadamard, threads) -> status, the last three arrays written.
// False: a Python exception is set, and *status is not.
bool quantise(PyObject* arguments, int threads, tessera_status* status);

}  // namespace tessera::python
