// Which framework an array comes from: how to read it fast, allocate a result of the same kind, and ask
// for its current CUDA stream. Frameworks are found in sys.modules and never imported: a program that
// holds one of its arrays has imported it already.
#pragma once

#include <tessera/tessera.h>

#include <array>
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
  bool plain = true;                           // false: a tensor of PyTorch with rules of its own
  const dlpack::Exchange* exchange = nullptr;  // only where the type offers it and is the exact one
};

// The family of an object's type; remembered per type.
Family family_of(PyObject* object);

// A new array of the same kind, device, dtype, shape and memory order as `like`.
Ref allocate_like(const Family& family, PyObject* like);

// The output [b, h, q, d]: of the same kind, device and dtype as `like`, its first three dimensions in this
// order in memory, outermost first. `dtype`, where it is not null, is another one: the framework's own, or
// its name.
Ref allocate_output(const Family& family, PyObject* like, const std::int64_t* shape,
                    const std::array<int, 3>& order, PyObject* dtype);

// The float32 array [b, h, q], dense, of the same kind and on the same device as `like`.
Ref allocate_lse(const Family& family, PyObject* like, const std::int64_t* shape);

// A uint8 array of one dimension, of the same kind and on the same device as `like`.
Ref allocate_bytes(const Family& family, PyObject* like, std::int64_t count);

// The stream that the framework is working on now; null for a CPU.
bool current_stream(const Family& family, Device device, void** stream);

// True if autograd would record an operation on these tensors of PyTorch, or may have to push tangents
// through it (inside a forward-mode level).
bool wants_derivative(const Family& family, PyObject* const* tensors, int count, bool* wanted);

// Tells autograd that a tensor of PyTorch was written to, so that it finds out when a backward pass would
// read what was there before.
bool note_write(const Family& family, PyObject* tensor);

}  // namespace tessera::python
