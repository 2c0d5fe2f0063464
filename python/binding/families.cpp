#include "families.hpp"

#include <array>
#include <cstring>

namespace tessera::python {
namespace {

// Types seen so far. The frameworks have a handful; when it overflows, the oldest entry is looked up anew.
constexpr std::size_t kRemembered = 24;
std::array<Family, kRemembered> g_families;
std::size_t g_next = 0;

// sys.modules[name], borrowed, or null without an exception.
PyObject* imported(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  return modules != nullptr ? PyDict_GetItemString(modules, name) : nullptr;
}

// isinstance(object, module.attribute); false where the module is absent or half imported.
bool is_a(PyObject* object, const char* module_name, const char* attribute, PyObject** module) {
  *module = imported(module_name);
  if (*module == nullptr) return false;
  const Ref type(PyObject_GetAttrString(*module, attribute));
  const int answer = type ? PyObject_IsInstance(object, type.get()) : -1;
  if (answer < 0) PyErr_Clear();
  return answer == 1;
}

Framework classify(PyObject* object, PyObject** module) {
  if (is_a(object, "numpy", "ndarray", module)) return Framework::numpy;
  if (is_a(object, "torch", "Tensor", module)) return Framework::torch;
  if (is_a(object, "jax", "Array", module)) return Framework::jax;
  if (is_a(object, "cupy", "ndarray", module)) return Framework::cupy;
  *module = nullptr;
  return Framework::other;
}

// Only the very type that offers the table, and torch.nn.Parameter, which is a plain tensor in memory: a
// subclass inherits the attribute though its instances may hold no memory at all (fake tensors do not).
bool is_plain_tensor_type(PyObject* type, PyObject* torch) {
  const Ref tensor(PyObject_GetAttrString(torch, "Tensor"));
  if (tensor && tensor.get() == type) return true;
  const Ref nn(PyObject_GetAttrString(torch, "nn"));
  const Ref parameter(nn ? PyObject_GetAttrString(nn.get(), "Parameter") : nullptr);
  PyErr_Clear();
  return parameter && parameter.get() == type;
}

const dlpack::Exchange* exchange_of(const Family& family) {
  if (family.framework == Framework::numpy || family.framework == Framework::jax) return nullptr;
  if (!family.plain) return nullptr;
  const Ref capsule(PyObject_GetAttrString(family.type, "__dlpack_c_exchange_api__"));
  if (!capsule || PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api") == 0) {
    PyErr_Clear();
    return nullptr;
  }
  auto* header =
      static_cast<dlpack::ExchangeHeader*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  while (header != nullptr && header->version.major > dlpack::kMajor) header = header->previous;
  if (header == nullptr || header->version.major != dlpack::kMajor) return nullptr;
  const auto* exchange = reinterpret_cast<const dlpack::Exchange*>(header);
  return exchange->borrow != nullptr ? exchange : nullptr;
}

Ref shape_tuple(int rank, const std::int64_t* shape) {
  Ref tuple(PyTuple_New(rank));
  for (int d = 0; tuple && d < rank; ++d) {
    PyObject* size = PyLong_FromLongLong(shape[d]);
    if (size == nullptr || PyTuple_SetItem(tuple.get(), d, size) != 0) return Ref();
  }
  return tuple;
}

// Attributes that every call looks up; interned once, kept for ever.
PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// module.empty(shape, dtype=..., **more), where `more` may name a device.
Ref call_empty(PyObject* module, const Ref& shape, PyObject* dtype, PyObject* device) {
  const Ref empty(PyObject_GetAttrString(module, "empty"));
  const Ref arguments(empty && shape ? PyTuple_Pack(1, shape.get()) : nullptr);
  const Ref keywords(arguments ? PyDict_New() : nullptr);
  if (!keywords || PyDict_SetItemString(keywords.get(), "dtype", dtype) != 0) return Ref();
  if (device != nullptr && PyDict_SetItemString(keywords.get(), "device", device) != 0) return Ref();
  return Ref(PyObject_Call(empty.get(), arguments.get(), keywords.get()));
}

// The module whose empty() makes arrays like `like`: the framework's own, or the array-API namespace. Else
// the exception says what to do `instead`.
Ref namespace_of(const Family& family, PyObject* like,
                 const char* instead = "pass out= (and leave return_lse off)") {
  if (family.framework == Framework::jax) return Ref(PyImport_ImportModule("numpy"));
  if (family.module != nullptr) return Ref::borrow(family.module);
  Ref space(PyObject_CallMethod(like, "__array_namespace__", nullptr));
  if (space) return space;
  PyErr_Clear();
  const Ref name(PyObject_GetAttrString(family.type, "__name__"));
  if (name) {
    PyErr_Format(PyExc_TypeError,
                 "q is a %U, of which Tessera cannot make new ones: %s, or convert it to an array of NumPy, "
                 "PyTorch, JAX or CuPy",
                 name.get(), instead);
  }
  return Ref();
}

// What a user calls a dtype: itself, or the attribute of the module that has its name. NumPy knows bfloat16
// by its name alone, and only where ml_dtypes has been imported.
Ref dtype_of(PyObject* space, PyObject* wanted) {
  if (PyUnicode_Check(wanted) == 0) return Ref::borrow(wanted);
  bool known = false;
  for (const char* name : {"float16", "bfloat16", "float32"})
    known = known || PyUnicode_CompareWithASCIIString(wanted, name) == 0;
  if (!known) {
    PyErr_Format(PyExc_ValueError, "output_dtype is %R; 'float16', 'bfloat16' or 'float32' is accepted",
                 wanted);
    return Ref();
  }
  Ref named(PyObject_GetAttr(space, wanted));
  if (named) return named;
  PyErr_Clear();
  named = Ref(PyObject_CallMethod(space, "dtype", "O", wanted));
  if (!named) {
    PyErr_Clear();
    PyErr_Format(
        PyExc_TypeError,
        "output_dtype is %R, which the framework of q has no type for (NumPy has bfloat16 once ml_dtypes is "
        "imported)",
        wanted);
  }
  return named;
}

// A new dense array of the same kind and on the same device as `like`, from like's module.
Ref allocate(const Family& family, PyObject* space, PyObject* like, int rank, const std::int64_t* shape,
             PyObject* dtype) {
  // NumPy has but one device, and CuPy allocates on the current one, which is where its arrays are used.
  const bool names_device = family.framework == Framework::torch || family.framework == Framework::other;
  const Ref device(names_device ? PyObject_GetAttrString(like, "device") : nullptr);
  if (names_device && !device) return Ref();
  return call_empty(space, shape_tuple(rank, shape), dtype, device.get());
}

// PyTorch keeps the level of forward-mode differentiation in a Python variable; -1 is outside of any.
bool in_forward_mode() {
  static PyObject* const level_name = interned("_current_level");
  static PyObject* const forward_ad = imported("torch.autograd.forward_ad");
  const Ref level(forward_ad != nullptr ? PyObject_GetAttr(forward_ad, level_name) : nullptr);
  const long number = level ? PyLong_AsLong(level.get()) : -1;
  if (PyErr_Occurred() != nullptr) PyErr_Clear();  // a version without it
  return number >= 0;
}

}  // namespace

Family family_of(PyObject* object) {
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  for (const Family& family : g_families) {
    if (family.type == type) return family;
  }
  Family found;
  found.type = type;
  found.framework = classify(object, &found.module);
  Py_INCREF(found.type);
  Py_XINCREF(found.module);
  found.plain = found.framework != Framework::torch || is_plain_tensor_type(type, found.module);
  found.exchange = exchange_of(found);
  Family& slot = g_families[g_next++ % kRemembered];
  const Family old = std::exchange(slot, found);
  Py_XDECREF(old.type);
  Py_XDECREF(old.module);
  return found;
}

Ref allocate_like(const Family& family, PyObject* like) {
  static PyObject* const name = interned("empty_like");
  const Ref empty_like(PyObject_GetAttr(family.module, name));
  if (!empty_like) return Ref();
  return Ref(PyObject_CallFunctionObjArgs(empty_like.get(), like, nullptr));
}

Ref allocate_output(const Family& family, PyObject* like, const std::int64_t* shape,
                    const std::array<int, 3>& order, PyObject* wanted) {
  const Ref space = namespace_of(family, like);
  if (!space) return Ref();
  const Ref dtype =
      wanted == nullptr ? Ref(PyObject_GetAttrString(like, "dtype")) : dtype_of(space.get(), wanted);
  if (!dtype) return Ref();
  // An array of another framework is only known to have empty().
  const bool permutes = family.framework != Framework::other && family.framework != Framework::jax;
  if (!permutes || order == std::array{0, 1, 2})
    return allocate(family, space.get(), like, 4, shape, dtype.get());
  const std::int64_t permuted[4] = {shape[order[0]], shape[order[1]], shape[order[2]], shape[3]};
  const Ref dense = allocate(family, space.get(), like, 4, permuted, dtype.get());
  int axes[3] = {};
  for (int i = 0; i < 3; ++i) axes[order[i]] = i;
  const char* transpose = family.framework == Framework::torch ? "permute" : "transpose";
  return Ref(dense ? PyObject_CallMethod(dense.get(), transpose, "iiii", axes[0], axes[1], axes[2], 3)
                   : nullptr);
}

Ref allocate_lse(const Family& family, PyObject* like, const std::int64_t* shape) {
  const Ref space = namespace_of(family, like);
  const Ref float32(space ? PyObject_GetAttrString(space.get(), "float32") : nullptr);
  return float32 ? allocate(family, space.get(), like, 3, shape, float32.get()) : Ref();
}

Ref allocate_bytes(const Family& family, PyObject* like, std::int64_t count) {
  const Ref space = namespace_of(family, like, "pass an array as workspace=");
  const Ref uint8(space ? PyObject_GetAttrString(space.get(), "uint8") : nullptr);
  return uint8 ? allocate(family, space.get(), like, 1, &count, uint8.get()) : Ref();
}

bool current_stream(const Family& family, Device device, void** stream) {
  *stream = nullptr;
  if (device.kind != TESSERA_CUDA) return true;
  if (family.exchange != nullptr)
    return family.exchange->current_stream(dlpack::kCuda, device.index, stream) == 0;
  Ref handle;
  if (family.framework == Framework::torch) {
    const Ref cuda(PyObject_GetAttrString(family.module, "cuda"));
    const Ref current(cuda ? PyObject_CallMethod(cuda.get(), "current_stream", "i", device.index) : nullptr);
    handle = Ref(current ? PyObject_GetAttrString(current.get(), "cuda_stream") : nullptr);
  } else if (family.framework == Framework::cupy) {
    const Ref cuda(PyObject_GetAttrString(family.module, "cuda"));
    const Ref current(cuda ? PyObject_CallMethod(cuda.get(), "get_current_stream", nullptr) : nullptr);
    handle = Ref(current ? PyObject_GetAttrString(current.get(), "ptr") : nullptr);
  } else {
    return true;  // the legacy default stream, which waits for everyone
  }
  if (!handle) return false;
  *stream = PyLong_AsVoidPtr(handle.get());
  return *stream != nullptr || PyErr_Occurred() == nullptr;
}

bool wants_derivative(const Family& family, PyObject* const* tensors, int count, bool* wanted) {
  *wanted = false;
  if (family.framework != Framework::torch) return true;
  if (in_forward_mode()) {
    *wanted = true;
    return true;
  }
  static PyObject* const requires_grad = interned("requires_grad");
  static PyObject* const is_grad_enabled = interned("is_grad_enabled");
  bool any = false;
  for (int i = 0; i < count && !any; ++i) {
    if (tensors[i] == nullptr || family_of(tensors[i]).framework != Framework::torch) continue;
    const Ref answer(PyObject_GetAttr(tensors[i], requires_grad));
    if (!answer) return false;
    any = answer.get() == Py_True;
  }
  if (!any) return true;
  const Ref enabled(PyObject_CallMethodObjArgs(family.module, is_grad_enabled, nullptr));
  if (!enabled) return false;
  *wanted = enabled.get() == Py_True;
  return true;
}

bool note_write(const Family& family, PyObject* tensor) {
  if (family.framework != Framework::torch) return true;
  // Inference tensors have no version, and autograd never saves them.
  static PyObject* const is_inference = interned("is_inference");
  const Ref inference(PyObject_CallMethodObjArgs(tensor, is_inference, nullptr));
  if (!inference) return false;
  if (inference.get() == Py_True) return true;
  static PyObject* increment = nullptr;  // looked up once, kept for ever
  if (increment == nullptr) {
    const Ref autograd(PyObject_GetAttrString(family.module, "autograd"));
    const Ref graph(autograd ? PyObject_GetAttrString(autograd.get(), "graph") : nullptr);
    increment = graph ? PyObject_GetAttrString(graph.get(), "increment_version") : nullptr;
    if (increment == nullptr) return false;
  }
  const Ref done(PyObject_CallFunctionObjArgs(increment, tensor, nullptr));
  return static_cast<bool>(done);
}

}  // namespace tessera::python
