// Which keys a query sees, as causal= and window= say it.
#include <cstdint>
#include <cstring>

#include "call.hpp"

namespace tessera::python {
namespace {

// One side of a window: a number of keys, or None for no limit.
bool read_side(PyObject* value, std::int64_t* side) {
  if (value == Py_None) {
    *side = TESSERA_UNBOUNDED;
    return true;
  }
  // True is an int to Python, and a mistake here.
  *side = PyBool_Check(value) != 0 ? -1 : PyLong_AsLongLong(value);
  if (*side >= 0) return true;
  PyErr_Format(PyExc_ValueError,
               "window has a side of %S keys; a whole number, 0 or more, or None for no limit, is accepted",
               value);
  return false;
}

// Whole numbers of any kind, those of NumPy included; an array with a length is a sequence of them.
bool is_number(PyObject* value) {
  if (PyLong_Check(value) != 0) return true;
  if (PyIndex_Check(value) == 0) return false;
  const bool has_length = PySequence_Size(value) >= 0;
  if (!has_length) PyErr_Clear();
  return !has_length;
}

// (left, right) or (left, right, alignment); a plain number is the left side.
bool read_window(PyObject* window, tessera_mask* mask, bool* right_given, tessera_align* align) {
  if (is_number(window)) {
    *right_given = false;
    return read_side(window, &mask->left);
  }
  const Ref items(PySequence_Tuple(window));
  const Py_ssize_t count = items ? PyTuple_Size(items.get()) : -1;
  if (count != 2 && count != 3) {
    PyErr_Format(
        PyExc_ValueError,
        "window is %R; a number of keys, (left, right) or (left, right, 'top-left' | 'bottom-right') "
        "is accepted",
        window);
    return false;
  }
  PyObject* right = PyTuple_GetItem(items.get(), 1);
  *right_given = right != Py_None;
  if (!read_side(PyTuple_GetItem(items.get(), 0), &mask->left) || !read_side(right, &mask->right))
    return false;
  return count == 2 || read_align(PyTuple_GetItem(items.get(), 2), "window[2]", align);
}

}  // namespace

bool read_align(PyObject* text, const char* name, tessera_align* align) {
  const char* utf8 = PyUnicode_Check(text) != 0 ? PyUnicode_AsUTF8AndSize(text, nullptr) : nullptr;
  if (utf8 != nullptr && std::strcmp(utf8, "top-left") == 0) {
    *align = TESSERA_ALIGN_TOP_LEFT;
    return true;
  }
  if (utf8 != nullptr && std::strcmp(utf8, "bottom-right") == 0) {
    *align = TESSERA_ALIGN_BOTTOM_RIGHT;
    return true;
  }
  if (PyErr_Occurred() == nullptr) {
    PyErr_Format(PyExc_ValueError, "%s is %R; 'top-left', 'bottom-right' or None is accepted", name, text);
  }
  return false;
}

bool Call::read_band(PyObject* causal, PyObject* window) {
  tessera_mask& mask = problem_.mask;
  if (causal != nullptr && !read_align(causal, "causal", &mask.align)) return false;
  if (window != nullptr) {
    bool right_given = false;
    tessera_align align = TESSERA_ALIGN_NONE;
    if (!read_window(window, &mask, &right_given, &align)) return false;
    if (causal != nullptr && right_given && mask.right != 0) {
      PyErr_Format(PyExc_ValueError,
                   "window reaches %lld keys ahead, but causal hides all of them; 0 or None "
                   "is accepted",
                   static_cast<long long>(mask.right));
      return false;
    }
    if (causal != nullptr && align != TESSERA_ALIGN_NONE && align != mask.align) {
      PyErr_SetString(PyExc_ValueError, "window and causal name different alignments; name one");
      return false;
    }
    if (align != TESSERA_ALIGN_NONE) mask.align = align;
    if (mask.align == TESSERA_ALIGN_NONE) {
      // Where queries and keys are equally many, both alignments are the same.
      const bool square = problem_.query.rank == 4 && problem_.key.rank == 4 &&
                          problem_.query.shape[2] == problem_.key.shape[2] &&
                          problem_.key_lengths.rank == 0 && problem_.query_offsets.rank == 0 &&
                          problem_.key_offsets.rank == 0;
      if (!square) {
        PyErr_SetString(PyExc_ValueError,
                        "window needs an alignment where queries and keys may differ in number: write "
                        "window=(left, right, 'top-left') or (left, right, 'bottom-right')");
        return false;
      }
      mask.align = TESSERA_ALIGN_TOP_LEFT;
    }
  }
  if (causal != nullptr) mask.right = 0;
  return true;
}

}  // namespace tessera::python
