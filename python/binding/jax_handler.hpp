// The entry points that XLA calls, wrapped for jax.ffi.register_ffi_target.
#pragma once

#include "python.hpp"

namespace tessera::python {

// {"cpu": capsule, "CUDA": capsule}, or null with an exception set.
PyObject* jax_targets();

}  // namespace tessera::python
