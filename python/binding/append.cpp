// New keys and values, and RoPE, as the arguments of a call.
#include <cstdint>

#include "call.hpp"

namespace tessera::python {
namespace {

// rope.interleaved and rope.first; a pair of arrays has neither.
bool read_turns(PyObject* rope, tessera_rope* out) {
  const Ref interleaved(PyObject_GetAttrString(rope, "interleaved"));
  const int neighbours = interleaved ? PyObject_IsTrue(interleaved.get()) : -1;
  const Ref first(neighbours >= 0 ? PyObject_GetAttrString(rope, "first") : nullptr);
  if (!first) return false;
  const bool is_index = PyIndex_Check(first.get()) != 0 && PyBool_Check(first.get()) == 0;
  const Py_ssize_t number = is_index ? PyNumber_AsSsize_t(first.get(), nullptr) : -1;
  if (number < 0 || number > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "rope.first is %R; a whole number, 0 or more, is accepted", first.get());
    return false;
  }
  out->interleaved = neighbours;
  out->first = static_cast<std::int32_t>(number);
  return true;
}

}  // namespace

// A pair (cos, sin), or an object with these and the rest as attributes: tessera.Rope.
bool Call::read_rope(PyObject* rope) {
  if (PyTuple_Check(rope) != 0 || PyList_Check(rope) != 0) {
    const Ref pair(PySequence_Tuple(rope));
    if (!pair) return false;
    if (PyTuple_Size(pair.get()) == 2) {
      for (int i = 0; i < 2; ++i) rope_parts_[i] = Ref::borrow(PyTuple_GetItem(pair.get(), i));
    }
  } else if (PyObject_HasAttrString(rope, "cos") != 0 && PyObject_HasAttrString(rope, "interleaved") != 0) {
    rope_parts_[0] = Ref(PyObject_GetAttrString(rope, "cos"));
    rope_parts_[1] = Ref(rope_parts_[0] ? PyObject_GetAttrString(rope, "sin") : nullptr);
    if (!rope_parts_[1] || !read_turns(rope, &problem_.rope)) return false;
  }
  if (!rope_parts_[0]) {
    PyErr_SetString(PyExc_ValueError,
                    "rope is no pair; (cos, sin) or tessera.Rope(cos, sin, ...) is accepted");
    return false;
  }
  return read_input(rope_parts_[0].get(), "rope.cos", &rope_cos_, &problem_.rope.cos) &&
         read_input(rope_parts_[1].get(), "rope.sin", &rope_sin_, &problem_.rope.sin);
}

bool Call::read_append(const Arguments& a) {
  if (!read_input(a[Arguments::new_key], "new_key", &new_key_, &problem_.new_key) ||
      !read_input(a[Arguments::new_value], "new_value", &new_value_, &problem_.new_value) ||
      !read_input(a[Arguments::positions], "positions", &positions_, &problem_.positions)) {
    return false;
  }
  PyObject* const rope = a[Arguments::rope];
  return rope == nullptr || read_rope(rope);
}

bool Call::may_write_caches(const Arguments& a) const {
  if (a[Arguments::new_key] != nullptr && !k_.check_writable(", and new_key is stored in it")) return false;
  if (a[Arguments::new_key] != nullptr && a[Arguments::key_tail] != nullptr &&
      !key_tail_.check_writable(", and new_key is stored in it")) {
    return false;
  }
  return a[Arguments::new_value] == nullptr || v_.check_writable(", and new_value is stored in it");
}

}  // namespace tessera::python
