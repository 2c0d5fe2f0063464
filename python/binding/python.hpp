// CPython through its limited interface, so that one binary serves every Python from 3.11 on, and the
// one owner of references used here.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

#ifndef Py_LIMITED_API
#error "the binding is built against the limited API; define Py_LIMITED_API"
#endif

namespace tessera::python {

// Owns one reference. Null means that a Python exception is set, as everywhere in CPython.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  static Ref borrow(PyObject* borrowed) {
    Py_XINCREF(borrowed);
    return Ref(borrowed);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    // The old object goes last: dropping it may run Python code that looks at this very Ref.
    PyObject* old = std::exchange(object_, std::exchange(other.object_, nullptr));
    Py_XDECREF(old);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  [[nodiscard]] PyObject* get() const { return object_; }
  [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

}  // namespace tessera::python
