#include "arrays.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "dtypes.hpp"

namespace tessera::python {
namespace {

constexpr const char* kVersioned = "dltensor_versioned";
constexpr const char* kUnversioned = "dltensor";

// The struct behind __array_struct__, fixed by NumPy's array interface protocol, version 3.
struct ArrayInterface {
  int two;
  int rank;
  char kind;
  int item_size;
  int flags;
  Py_ssize_t* shape;
  Py_ssize_t* strides;  // in bytes
  void* data;
  PyObject* descriptor;
};
constexpr int kNotSwapped = 0x0200;
constexpr int kWriteable = 0x0400;

// object.name, or null; an exception is left only if it is something else than a missing attribute.
Ref optional_attribute(PyObject* object, PyObject* name) {
  Ref value(PyObject_GetAttr(object, name));
  if (!value && PyErr_ExceptionMatches(PyExc_AttributeError) != 0) PyErr_Clear();
  return value;
}

// __dlpack__ with the newest protocol first; producers from before 1.0 do not know max_version.
Ref ask_for_capsule(PyObject* object, bool on_cuda, void* stream) {
  static PyObject* const method_name = PyUnicode_InternFromString("__dlpack__");
  const Ref method(PyObject_GetAttr(object, method_name));
  const Ref nothing(method ? PyTuple_New(0) : nullptr);
  const Ref keywords(nothing ? PyDict_New() : nullptr);
  const Ref version(keywords ? Py_BuildValue("(ii)", 1, 0) : nullptr);
  if (!version || PyDict_SetItemString(keywords.get(), "max_version", version.get()) != 0) return Ref();
  if (on_cuda) {
    // The protocol writes the legacy default stream as 1, because 0 is ambiguous.
    const Ref number(stream == nullptr ? PyLong_FromLong(1) : PyLong_FromVoidPtr(stream));
    if (!number || PyDict_SetItemString(keywords.get(), "stream", number.get()) != 0) return Ref();
  }
  Ref capsule(PyObject_Call(method.get(), nothing.get(), keywords.get()));
  if (capsule || PyErr_ExceptionMatches(PyExc_TypeError) == 0) return capsule;
  PyErr_Clear();
  if (PyDict_DelItemString(keywords.get(), "max_version") != 0) return Ref();
  return Ref(PyObject_Call(method.get(), nothing.get(), keywords.get()));
}

bool device_of(PyObject* object, dlpack::Device* device) {
  const Ref pair(PyObject_CallMethod(object, "__dlpack_device__", nullptr));
  if (!pair) return false;
  // Frameworks answer with enumerations of their own, which convert to int but need not be int.
  const Ref type(PySequence_GetItem(pair.get(), 0));
  const Ref index(PySequence_GetItem(pair.get(), 1));
  const Ref type_number(type ? PyNumber_Long(type.get()) : nullptr);
  const Ref index_number(index ? PyNumber_Long(index.get()) : nullptr);
  if (!type_number || !index_number) return false;
  device->type = static_cast<std::int32_t>(PyLong_AsLong(type_number.get()));
  device->index = static_cast<std::int32_t>(PyLong_AsLong(index_number.get()));
  return PyErr_Occurred() == nullptr;
}

}  // namespace

View::~View() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
}

bool View::read(PyObject* object, const char* name, void* stream) {
  return read_any(object, name, stream) && (tensor_.dtype != kUint8 || refuse_dtype(name, "uint8"));
}

bool View::read_writable(PyObject* object, const char* name, void* stream) {
  return read(object, name, stream) && check_writable();
}

bool View::read_bytes(PyObject* object, const char* name, void* stream) {
  if (!read_any(object, name, stream)) return false;
  if (tensor_.dtype != kUint8) {
    PyErr_Format(PyExc_TypeError, "%s is no uint8 array; a contiguous one of one dimension is accepted",
                 name);
    return false;
  }
  if (tensor_.rank != 1 || tensor_.strides[0] != 1) {
    PyErr_Format(PyExc_ValueError,
                 "%s is not contiguous in one dimension; such an array of uint8 is accepted", name);
    return false;
  }
  return check_writable();
}

bool View::check_writable(const char* because) const {
  if (read_only_)
    PyErr_Format(PyExc_ValueError, "%s is read-only%s; a writable array is accepted", name_, because);
  return !read_only_;
}

bool View::read_any(PyObject* object, const char* name, void* stream) {
  static PyObject* const array_struct = PyUnicode_InternFromString("__array_struct__");
  static PyObject* const array_interface = PyUnicode_InternFromString("__array_interface__");
  static PyObject* const dlpack_method = PyUnicode_InternFromString("__dlpack__");
  name_ = name;
  const Family family = family_of(object);
  read_only_ = family.framework == Framework::jax;  // whatever its exporter says
  if (family.exchange != nullptr)
    return read_exchange(object, *family.exchange) || read_codes(object, family, stream);
  if (family.framework != Framework::numpy) {
    if (optional_attribute(object, dlpack_method))
      return read_dlpack(object, family, stream) || read_codes(object, family, stream);
    if (PyErr_Occurred() != nullptr) return false;
  }
  // Kept: of a NumPy scalar it owns the only array that there is.
  if (Ref capsule = optional_attribute(object, array_struct)) {
    capsule_ = std::move(capsule);
    return read_array_struct(capsule_.get(), object);
  }
  if (PyErr_Occurred() != nullptr) return false;
  if (const Ref dict = optional_attribute(object, array_interface))
    return read_array_interface(dict.get(), object);
  if (PyErr_Occurred() != nullptr) return false;
  if (PyObject_CheckBuffer(object) != 0) return read_buffer(object);
  const Ref type_name(PyObject_GetAttrString(family.type, "__name__"));
  if (type_name) {
    PyErr_Format(PyExc_TypeError,
                 "%s is a %U; an array that speaks DLPack, the array interface or the buffer protocol is "
                 "accepted (NumPy, PyTorch, JAX, CuPy, ...)",
                 name, type_name.get());
  }
  return false;
}

bool View::read_exchange(PyObject* object, const dlpack::Exchange& exchange) {
  dlpack::Tensor source{};
  return exchange.borrow(object, &source) == 0 && take(source);
}

bool View::read_dlpack(PyObject* object, const Family& family, void* stream) {
  dlpack::Device device{};
  if (!device_of(object, &device)) return false;
  Ref detached;
  if (family.framework == Framework::torch) {
    // Whether a gradient is wanted was settled before; here a tensor is but its memory.
    detached = Ref(PyObject_CallMethod(object, "detach", nullptr));
    if (!detached) return false;
    object = detached.get();
  }
  const bool on_cuda = device.type == dlpack::kCuda || device.type == dlpack::kCudaManaged;
  capsule_ = ask_for_capsule(object, on_cuda, stream);
  return capsule_ && read_capsule(capsule_.get());
}

// A version of PyTorch that does not export its 8-bit floats exports their bytes. Otherwise the exception
// stays.
bool View::read_codes(PyObject* object, const Family& family, void* stream) {
  if (family.framework != Framework::torch || codes_) return false;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const tessera_dtype dtype = torch_codes(object);
  if (dtype == 0) {
    PyErr_Restore(type, value, trace);
    return false;
  }
  for (PyObject* each : {type, value, trace}) Py_XDECREF(each);
  const Ref uint8(PyObject_GetAttrString(family.module, "uint8"));
  codes_ = Ref(uint8 ? PyObject_CallMethod(object, "view", "O", uint8.get()) : nullptr);
  if (!codes_ || !read_any(codes_.get(), name_, stream)) return false;
  tensor_.dtype = dtype;
  return true;
}

// The capsule is not renamed to "used_...": it keeps owning its tensor, and this View keeps it.
bool View::read_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kVersioned) != 0) {
    const auto* managed =
        static_cast<const dlpack::ManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, kVersioned));
    if (managed->version.major != dlpack::kMajor) {
      PyErr_Format(PyExc_BufferError, "%s came as DLPack version %u; version 1 is accepted", name_,
                   managed->version.major);
      return false;
    }
    read_only_ = read_only_ || (managed->flags & dlpack::kReadOnly) != 0;
    return take(managed->tensor);
  }
  const auto* managed =
      static_cast<const dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule, kUnversioned));
  return managed != nullptr && take(managed->tensor);
}

bool View::take(const dlpack::Tensor& source) {
  switch (source.device.type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
    case dlpack::kRocmHost:
      device_ = {TESSERA_CPU, 0};
      break;
    case dlpack::kCuda:
    case dlpack::kCudaManaged:
      device_ = {TESSERA_CUDA, source.device.index};
      break;
    default:
      PyErr_Format(PyExc_ValueError, "%s is on a device of DLPack type %d; the CPU and CUDA are accepted",
                   name_, static_cast<int>(source.device.type));
      return false;
  }
  tensor_.dtype = from_dlpack(source.dtype);
  if (tensor_.dtype == 0) return refuse_dtype(name_, dlpack_type_name(source.dtype).c_str());
  tensor_.data = static_cast<char*>(source.data) + source.byte_offset;
  tensor_.rank = source.ndim;
  std::int64_t contiguous = 1;
  for (int d = std::min(source.ndim, TESSERA_MAX_RANK) - 1; d >= 0; --d) {
    tensor_.shape[d] = source.shape[d];
    tensor_.strides[d] = source.strides != nullptr ? source.strides[d] : contiguous;
    contiguous *= source.shape[d];
  }
  tidy_strides();
  return true;
}

bool View::read_array_struct(PyObject* capsule, PyObject* object) {
  const auto* array = static_cast<const ArrayInterface*>(PyCapsule_GetPointer(capsule, nullptr));
  if (array == nullptr) return false;
  if (array->two != 2) {
    PyErr_Format(PyExc_ValueError, "%s has an __array_struct__ that is no array interface", name_);
    return false;
  }
  if ((array->flags & kNotSwapped) == 0) return refuse_dtype(name_, "in foreign byte order");
  tensor_.dtype = from_kind(array->kind, array->item_size);
  if (tensor_.dtype == 0) tensor_.dtype = from_dtype_name(object, name_);
  if (tensor_.dtype == 0) return false;
  read_only_ = (array->flags & kWriteable) == 0;
  return take_bytes(array->data, array->rank, array->shape, array->strides, array->item_size);
}

bool View::read_array_interface(PyObject* dict, PyObject* object) {
  const auto item = [&](const char* key) { return PyDict_GetItemString(dict, key); };  // borrowed
  if (PyDict_Check(dict) == 0 || item("shape") == nullptr || item("typestr") == nullptr ||
      item("data") == nullptr || PyTuple_Check(item("shape")) == 0) {
    PyErr_Format(PyExc_ValueError, "%s has an __array_interface__ without shape, typestr and data", name_);
    return false;
  }
  const char* type = PyUnicode_AsUTF8AndSize(item("typestr"), nullptr);
  if (type == nullptr) return false;
  if (std::strlen(type) < 3 || type[0] == '>') return refuse_dtype(name_, type);
  const Py_ssize_t item_size = std::strtol(type + 2, nullptr, 10);
  tensor_.dtype = from_kind(type[1], item_size);
  if (tensor_.dtype == 0) tensor_.dtype = from_dtype_name(object, name_);
  if (tensor_.dtype == 0) return false;

  const Ref address(PySequence_GetItem(item("data"), 0));
  const Ref read_only(PySequence_GetItem(item("data"), 1));
  void* data = address ? PyLong_AsVoidPtr(address.get()) : nullptr;
  if (!read_only || PyErr_Occurred() != nullptr) return false;
  read_only_ = PyObject_IsTrue(read_only.get()) != 0;

  const Py_ssize_t rank = PyTuple_Size(item("shape"));
  const int read = static_cast<int>(std::min<Py_ssize_t>(rank, TESSERA_MAX_RANK));
  PyObject* strides = item("strides");
  const bool has_strides = strides != nullptr && strides != Py_None;
  Py_ssize_t sizes[TESSERA_MAX_RANK] = {}, steps[TESSERA_MAX_RANK] = {};
  Py_ssize_t contiguous = item_size;
  for (int d = read - 1; d >= 0; --d) {
    sizes[d] = PyLong_AsSsize_t(PyTuple_GetItem(item("shape"), d));
    steps[d] = has_strides ? PyLong_AsSsize_t(PyTuple_GetItem(strides, d)) : contiguous;
    contiguous *= sizes[d];
  }
  if (PyErr_Occurred() != nullptr) return false;
  return take_bytes(data, static_cast<int>(rank), sizes, steps, item_size);
}

bool View::read_buffer(PyObject* object) {
  if (PyObject_GetBuffer(object, &buffer_, PyBUF_STRIDED_RO | PyBUF_FORMAT) != 0) return false;
  tensor_.dtype = from_format(buffer_.format, buffer_.itemsize);
  if (tensor_.dtype == 0) return refuse_dtype(name_, buffer_.format != nullptr ? buffer_.format : "bytes");
  read_only_ = buffer_.readonly != 0;
  return take_bytes(buffer_.buf, buffer_.ndim, buffer_.shape, buffer_.strides, buffer_.itemsize);
}

bool View::take_bytes(void* data, int rank, const Py_ssize_t* shape, const Py_ssize_t* byte_strides,
                      Py_ssize_t item_size) {
  tensor_.data = data;
  tensor_.rank = rank;
  for (int d = 0; d < std::min(rank, TESSERA_MAX_RANK); ++d) {
    tensor_.shape[d] = shape[d];
    if (shape[d] > 1 && byte_strides[d] % item_size != 0) {
      PyErr_Format(PyExc_ValueError,
                   "%s has a stride of %zd bytes in dimension %d; whole elements (%zd bytes) are accepted",
                   name_, byte_strides[d], d, item_size);
      return false;
    }
    tensor_.strides[d] = byte_strides[d] / item_size;
  }
  tidy_strides();
  return true;
}

// The stride of a dimension that is never stepped along means nothing, and frameworks put anything there.
void View::tidy_strides() {
  const int rank = std::min(tensor_.rank, TESSERA_MAX_RANK);
  const bool empty = std::any_of(tensor_.shape, tensor_.shape + rank, [](std::int64_t n) { return n == 0; });
  for (int d = 0; d < rank; ++d) {
    if (empty || tensor_.shape[d] == 1) tensor_.strides[d] = 1;
  }
}

void View::collapse_last(std::int64_t full_size) {
  const int last = std::min(tensor_.rank, TESSERA_MAX_RANK) - 1;
  if (last < 0 || tensor_.strides[last] != 0) return;
  tensor_.strides[last] = 1;  // of another size, the library refuses it for its shape
  if (tensor_.shape[last] == full_size) tensor_.shape[last] = 1;
}

void View::one_as_4d() {
  std::int64_t count = 1;
  for (int d = 0; d < std::min(tensor_.rank, TESSERA_MAX_RANK); ++d) count *= tensor_.shape[d];
  if (count == 1 && tensor_.rank < TESSERA_MAX_RANK)
    tensor_ = tessera_tensor_4d(tensor_.data, tensor_.dtype, 1, 1, 1, 1);
}

bool View::dense_rows() const {
  if (tensor_.rank != TESSERA_MAX_RANK || tensor_.strides[3] != 1) return false;
  int order[3] = {0, 1, 2};
  std::sort(order, order + 3, [&](int a, int b) { return tensor_.strides[a] < tensor_.strides[b]; });
  std::int64_t expected = tensor_.shape[3];
  for (const int d : order) {
    if (tensor_.shape[d] == 1) continue;
    if (tensor_.strides[d] != expected) return false;
    expected *= tensor_.shape[d];
  }
  return true;
}

std::array<int, 3> View::memory_order() const {
  std::array<int, 3> order{0, 1, 2};
  int ordered[3], count = 0;
  for (const int d : order) {
    if (tensor_.shape[d] > 1 && tensor_.strides[d] > 0) ordered[count++] = d;
  }
  int slots[3];
  std::copy(ordered, ordered + count, slots);
  std::stable_sort(ordered, ordered + count,
                   [&](int a, int b) { return tensor_.strides[a] > tensor_.strides[b]; });
  for (int i = 0; i < count; ++i) order[slots[i]] = ordered[i];
  return order;
}

}  // namespace tessera::python
