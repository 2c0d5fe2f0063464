#include "call.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::python {
namespace {

constexpr const char* kNames[Arguments::kCount] = {"q",
                                                   "k",
                                                   "v",
                                                   "mask",
                                                   "causal",
                                                   "window",
                                                   "scale",
                                                   "softcap",
                                                   "alibi",
                                                   "sinks",
                                                   "key_lengths",
                                                   "return_lse",
                                                   "out",
                                                   "kernel",
                                                   "workspace",
                                                   "query_offsets",
                                                   "key_offsets",
                                                   "page_table",
                                                   "prior",
                                                   "mask_align",
                                                   "invariant",
                                                   "query_scales",
                                                   "key_scales",
                                                   "value_scales",
                                                   "scale_rows",
                                                   "precision",
                                                   "output_dtype",
                                                   "new_key",
                                                   "new_value",
                                                   "rope",
                                                   "positions",
                                                   "key_tail"};

constexpr int kAlignment = 256;  // of a workspace

// Keyword names arrive interned, so that comparing addresses nearly always decides.
int name_index(PyObject* keyword) {
  static PyObject* const* const interned = [] {
    static PyObject* names[Arguments::kCount];
    for (int i = 0; i < Arguments::kCount; ++i) names[i] = PyUnicode_InternFromString(kNames[i]);
    return names;
  }();
  for (int i = 0; i < Arguments::kCount; ++i) {
    if (interned[i] == keyword) return i;
  }
  for (int i = 0; i < Arguments::kCount; ++i) {
    if (PyUnicode_CompareWithASCIIString(keyword, kNames[i]) == 0) return i;
  }
  return -1;
}

bool read_precision(PyObject* text, tessera_precision* precision) {
  const bool is_text = PyUnicode_Check(text) != 0;
  if (is_text && PyUnicode_CompareWithASCIIString(text, "accurate") == 0) return true;
  if (is_text && PyUnicode_CompareWithASCIIString(text, "fast") == 0) {
    *precision = TESSERA_PRECISION_FAST;
    return true;
  }
  PyErr_Format(PyExc_ValueError, "precision is %R; 'accurate' or 'fast' is accepted", text);
  return false;
}

bool read_float(PyObject* value, const char* name, float* number) {
  const double wide = PyFloat_AsDouble(value);
  if (wide == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s is %R; a number or None is accepted", name, value);
    return false;
  }
  *number = static_cast<float>(wide);
  return true;
}

std::string device_name(Device device) {
  return device.kind == TESSERA_CPU ? "the CPU" : "cuda:" + std::to_string(device.index);
}

}  // namespace

bool Arguments::parse(const char* function, PyObject* const* args, Py_ssize_t positional,
                      PyObject* keyword_names) {
  if (positional > 3) {
    PyErr_Format(PyExc_TypeError, "%s() takes q, k and v by position, but %zd were given; name the others",
                 function, positional);
    return false;
  }
  std::copy(args, args + positional, values);
  const Py_ssize_t named = keyword_names != nullptr ? PyTuple_Size(keyword_names) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* keyword = PyTuple_GetItem(keyword_names, i);
    const int at = name_index(keyword);
    if (at < 0 || at < positional) {
      PyErr_Format(PyExc_TypeError, at < 0 ? "%s() has no argument %R" : "%s() got argument %R twice",
                   function, keyword);
      return false;
    }
    values[at] = args[positional + i];
  }
  for (PyObject*& value : values) {
    if (value == Py_None) value = nullptr;
  }
  for (int required = q; required <= v; ++required) {
    if (values[required] != nullptr) continue;
    PyErr_Format(PyExc_TypeError, "%s() needs %s", function, kNames[required]);
    return false;
  }
  return true;
}

bool Call::prepare(const Arguments& arguments, const Family& family, int threads, Purpose purpose) {
  if (!read_inputs(arguments, family) || !read_scalars(arguments)) return false;
  if (purpose == Purpose::run && !may_write_caches(arguments)) return false;
  if (!read_band(arguments[Arguments::causal], arguments[Arguments::window])) return false;
  if (PyObject* kernel = arguments[Arguments::kernel]; kernel != nullptr) {
    device_.kernel = PyUnicode_Check(kernel) != 0 ? PyUnicode_AsUTF8AndSize(kernel, nullptr) : nullptr;
    if (device_.kernel == nullptr) {
      if (PyErr_Occurred() == nullptr) {
        PyErr_Format(PyExc_TypeError, "kernel is %R; the name of a kernel or None is accepted", kernel);
      }
      return false;
    }
  }
  if (device_.kind == TESSERA_CPU) device_.threads = threads;
  return make_results(arguments, family) && read_workspace(arguments, family, purpose);
}

bool Call::shares_device(const View& view, const char* name) const {
  const Device qs{device_.kind, device_.index};
  if (view.device() == qs) return true;
  PyErr_Format(PyExc_ValueError, "%s is on %s, but q is on %s: all arrays of a call share one device", name,
               device_name(view.device()).c_str(), device_name(qs).c_str());
  return false;
}

bool Call::read_input(PyObject* object, const char* name, View* view, tessera_tensor* tensor) {
  if (object == nullptr) return true;
  if (!view->read(object, name, device_.stream) || !shares_device(*view, name)) return false;
  *tensor = view->tensor();
  return true;
}

bool Call::read_inputs(const Arguments& a, const Family& family) {
  // q settles the device and with it the stream, which the producers of the other arrays must be told.
  if (!q_.read(a[Arguments::q], "q", nullptr)) return false;
  device_.kind = q_.device().kind;
  device_.index = q_.device().index;
  if (!current_stream(family, q_.device(), &device_.stream)) return false;
  problem_.query = q_.tensor();
  if (!read_input(a[Arguments::k], "k", &k_, &problem_.key) ||
      !read_input(a[Arguments::v], "v", &v_, &problem_.value) ||
      !read_input(a[Arguments::key_tail], "key_tail", &key_tail_, &problem_.key_tail) ||
      !read_input(a[Arguments::mask], "mask", &mask_, &problem_.mask.tensor) ||
      !read_input(a[Arguments::alibi], "alibi", &alibi_, &problem_.alibi_slopes) ||
      !read_input(a[Arguments::sinks], "sinks", &sinks_, &problem_.sinks) ||
      !read_input(a[Arguments::key_lengths], "key_lengths", &key_lengths_, &problem_.key_lengths)) {
    return false;
  }
  if (!read_sequences(a) || !read_scales(a) || !read_append(a)) return false;
  const bool all_keys = problem_.page_table.rank == 0 && problem_.mask.tensor_align == TESSERA_ALIGN_NONE;
  if (a[Arguments::mask] != nullptr && problem_.key.rank == TESSERA_MAX_RANK && all_keys) {
    mask_.collapse_last(problem_.key.shape[2]);
    problem_.mask.tensor = mask_.tensor();
  }
  return true;
}

bool Call::read_sequences(const Arguments& a) {
  if (!read_input(a[Arguments::query_offsets], "query_offsets", &query_offsets_, &problem_.query_offsets) ||
      !read_input(a[Arguments::key_offsets], "key_offsets", &key_offsets_, &problem_.key_offsets) ||
      !read_input(a[Arguments::page_table], "page_table", &page_table_, &problem_.page_table)) {
    return false;
  }
  if (PyObject* prior = a[Arguments::prior]; prior != nullptr) {
    const Ref pair(PyTuple_Check(prior) != 0 || PyList_Check(prior) != 0 ? PySequence_Tuple(prior) : nullptr);
    if (!pair || PyTuple_Size(pair.get()) != 2) {
      PyErr_Clear();
      PyErr_SetString(PyExc_ValueError,
                      "prior is no pair; (output, lse) of earlier calls, each with the parts in "
                      "front, is accepted");
      return false;
    }
    if (!read_input(PyTuple_GetItem(pair.get(), 0), "prior[0]", &prior_output_, &problem_.prior_output) ||
        !read_input(PyTuple_GetItem(pair.get(), 1), "prior[1]", &prior_lse_, &problem_.prior_lse)) {
      return false;
    }
  }
  if (PyObject* align = a[Arguments::mask_align]; align != nullptr)
    if (!read_align(align, "mask_align", &problem_.mask.tensor_align)) return false;
  PyObject* const invariant = a[Arguments::invariant];
  const int wanted = invariant != nullptr ? PyObject_IsTrue(invariant) : 0;
  if (wanted < 0) return false;
  device_.invariant = wanted;
  return true;
}

// Of 8-bit inputs; the library refuses them beside others.
bool Call::read_scales(const Arguments& a) {
  const struct {
    Arguments::Name name;
    View* view;
    tessera_tensor* tensor;
  } all[] = {{Arguments::query_scales, &query_scales_, &problem_.query_scales},
             {Arguments::key_scales, &key_scales_, &problem_.key_scales},
             {Arguments::value_scales, &value_scales_, &problem_.value_scales}};
  for (const auto& each : all) {
    if (a[each.name] == nullptr) continue;
    if (!read_input(a[each.name], kNames[each.name], each.view, each.tensor)) return false;
    each.view->one_as_4d();
    *each.tensor = each.view->tensor();
  }
  if (PyObject* rows = a[Arguments::scale_rows]; rows != nullptr) {
    const long number = PyBool_Check(rows) != 0 ? -1 : PyLong_AsLong(rows);
    if (number < 0 || number > INT32_MAX) {
      PyErr_Clear();
      PyErr_Format(PyExc_ValueError, "scale_rows is %R; 64, 128, or 0 for no blocks is accepted", rows);
      return false;
    }
    problem_.scale_rows = static_cast<std::int32_t>(number);
  }
  PyObject* const precision = a[Arguments::precision];
  return precision == nullptr || read_precision(precision, &problem_.precision);
}

bool Call::read_scalars(const Arguments& a) {
  if (PyObject* scale = a[Arguments::scale]; scale != nullptr) {
    if (!read_float(scale, "scale", &problem_.scale)) return false;
    if (problem_.scale == 0) problem_.scale = TESSERA_SCALE_ZERO;  // in C 0 asks for the default
  }
  PyObject* softcap = a[Arguments::softcap];
  return softcap == nullptr || read_float(softcap, "softcap", &problem_.softcap);
}

// Of an 8-bit query float16 unless told otherwise: NumPy has it without another package, and it keeps three
// bits more than bfloat16.
bool Call::make_output(const Arguments& a, const Family& family, const std::int64_t* shape) {
  const bool codes = problem_.query.dtype == TESSERA_F8E4M3 || problem_.query.dtype == TESSERA_F8E5M2;
  static PyObject* const float16 = PyUnicode_InternFromString("float16");
  PyObject* wanted = a[Arguments::output_dtype];
  if (wanted == nullptr && codes) wanted = float16;
  const bool can_imitate = family.module != nullptr && family.framework != Framework::jax;
  output_object_ = can_imitate && wanted == nullptr && shape[3] == problem_.query.shape[3] && q_.dense_rows()
                       ? allocate_like(family, a[Arguments::q])
                       : allocate_output(family, a[Arguments::q], shape, q_.memory_order(), wanted);
  return static_cast<bool>(output_object_);
}

bool Call::make_results(const Arguments& a, const Family& family) {
  const tessera_tensor &q = problem_.query, &v = problem_.value;
  const std::int64_t shape[4] = {q.shape[0], q.shape[1], q.shape[2], v.shape[3]};
  const bool sized = q.rank == 4 && v.rank == 4;
  if (PyObject* out = a[Arguments::out]; out != nullptr) {
    if (a[Arguments::output_dtype] != nullptr) {
      PyErr_SetString(PyExc_ValueError, "output_dtype is given beside out, which has a dtype; name one");
      return false;
    }
    output_object_ = Ref::borrow(out);
  } else if (sized && !make_output(a, family, shape)) {
    return false;
  }
  if (output_object_) {
    if (!output_.read_writable(output_object_.get(), "out", device_.stream) ||
        !shares_device(output_, "out")) {
      return false;
    }
    problem_.output = output_.tensor();
  }
  PyObject* return_lse = a[Arguments::return_lse];
  const int with_lse = return_lse != nullptr ? PyObject_IsTrue(return_lse) : 0;
  if (with_lse < 0) return false;
  if (with_lse == 0 || !sized) return true;
  lse_object_ = allocate_lse(family, a[Arguments::q], shape);
  if (!lse_object_ || !lse_.read_writable(lse_object_.get(), "lse", device_.stream)) return false;
  problem_.lse = lse_.tensor();
  return true;
}

// The workspace begins at the first multiple of 256 bytes in the array: allocators on the CPU align to less.
bool Call::read_workspace(const Arguments& a, const Family& family, Purpose purpose) {
  PyObject* given = a[Arguments::workspace];
  if (given == nullptr || given == Py_False) return true;
  if (family.framework == Framework::jax) {
    PyErr_SetString(PyExc_ValueError,
                    "workspace= is not for arrays of JAX: XLA manages the memory of a call");
    return false;
  }
  if (given == Py_True) {
    device_.workspace_bytes = SIZE_MAX;
    if (purpose == Purpose::look) return true;  // the plan says what it would take
    if (!allocate_workspace(family, a[Arguments::q])) return false;
    if (!workspace_object_) return true;
    given = workspace_object_.get();
  }
  if (!workspace_.read_bytes(given, "workspace", device_.stream) || !shares_device(workspace_, "workspace"))
    return false;
  const tessera_tensor& bytes = workspace_.tensor();
  if (bytes.shape[0] == 0) return true;  // none, as a plan that takes none asks for
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data);
  const std::uintptr_t skipped = (kAlignment - address % kAlignment) % kAlignment;
  const auto size = static_cast<std::uintptr_t>(bytes.shape[0]);
  device_.workspace = static_cast<char*>(bytes.data) + skipped;
  device_.workspace_bytes = size - std::min(size, skipped);
  return true;
}

// What the plan takes, and no more. A call that cannot be planned gets none: attend() says what is wrong.
bool Call::allocate_workspace(const Family& family, PyObject* q) {
  tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
  const tessera_status status = tessera_plan(&problem_, &device_, &plan);
  device_.workspace_bytes = 0;
  if (status != TESSERA_OK || plan.workspace_bytes == 0) return true;
  workspace_object_ = allocate_bytes(family, q, plan.workspace_bytes + kAlignment - 1);
  return static_cast<bool>(workspace_object_);
}

PyObject* Call::take_results() {
  if (!lse_object_) return output_object_.release();
  return PyTuple_Pack(2, output_object_.get(), lse_object_.get());
}

}  // namespace tessera::python
