// Which framework an array comes from: how to read it fast, allocate a result of the same kind, and ask
// for its current CUDA stream. Frameworks are found in sys.modules and never imported: a program that
// holds one of its arrays has imported it already.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>

#include "dlpack.hpp"
#include "python.hpp"

namespace tessera::python {

struct Device {
  tessera_device_kind kind;
  std::int32_t index;
  bool operator==(const Device&) const = default;
};

enum class Framework { numpy, torch, jax, cupy, other };

// What is known about one Python type. The references are borrowed: the object at hand keeps them alive.
struct Family {
  PyObject* type = nullptr;
  Framework framework = Framework::other;
  PyObject* module = nullptr;                  // numpy, torch, jax or cupy; null for other
  const dlpack::Exchange* exchange = nullptr;  // only where the type offers it and is the exact one
};

// The family of an object's type; remembered per type.
Family family_of(PyObject* object);

// A new array of the same kind and on the same device as `like`. dtype 0 means that of `like`, else
// TESSERA_F32. `keep_order` asks for like's memory order, for which the shape must be like's.
Ref allocate(const Family& family, PyObject* like, int rank, const std::int64_t* shape, tessera_dtype dtype,
             bool keep_order);

// The stream that the framework is working on now; null for a CPU.
bool current_stream(const Family& family, Device device, void** stream);

// True if autograd would record an operation on these tensors of PyTorch.
bool wants_gradient(const Family& family, PyObject* const* tensors, int count, bool* wanted);

}  // namespace tessera::python
