// Arrays of other people as tessera_tensor: DLPack, the array interface, the buffer protocol. Nothing is
// copied; a View keeps its source readable for as long as it lives.
#pragma once

#include <tessera/tessera.h>

#include <array>
#include <cstdint>

#include "families.hpp"
#include "python.hpp"

namespace tessera::python {

class View {
 public:
  View() = default;
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View();

  // Reads the object, which the caller keeps alive. False: a Python exception that starts with `name`
  // is set. `stream` is where a CUDA producer is told that its data will be used.
  bool read(PyObject* object, const char* name, void* stream);

  // As read(), and the memory must be writable.
  bool read_writable(PyObject* object, const char* name, void* stream);
  // Writable uint8 of one dimension without gaps, which read() refuses.
  bool read_bytes(PyObject* object, const char* name, void* stream);

  // What read() has read, too, can be written to; `because` follows "read-only" in the sentence.
  [[nodiscard]] bool check_writable(const char* because = "") const;

  [[nodiscard]] const tessera_tensor& tensor() const { return tensor_; }
  [[nodiscard]] Device device() const { return device_; }

  // A mask that was expanded along its last dimension, to full_size, has stride 0 there; the library
  // takes broadcasting there only as size 1.
  void collapse_last(std::int64_t full_size);
  // The scale of a whole tensor may come in any shape that holds one number; the library's has four
  // dimensions.
  void one_as_4d();
  // True if writing this order of strides again gives a dense tensor whose last dimension is innermost.
  [[nodiscard]] bool dense_rows() const;
  // The first three dimensions, outermost in memory first. Those of size 1 or stride 0 say nothing about
  // an order and stay where they are. tessera/_torch_ops.py has the same rule for tensors without memory.
  [[nodiscard]] std::array<int, 3> memory_order() const;

 private:
  bool read_any(PyObject* object, const char* name, void* stream);
  bool read_exchange(PyObject* object, const dlpack::Exchange& exchange);
  bool read_dlpack(PyObject* object, const Family& family, void* stream);
  bool read_codes(PyObject* object, const Family& family, void* stream);
  bool read_capsule(PyObject* capsule);
  bool read_array_struct(PyObject* capsule, PyObject* object);
  bool read_array_interface(PyObject* dict, PyObject* object);
  bool read_buffer(PyObject* object);
  bool take(const dlpack::Tensor& source);
  bool take_bytes(void* data, int rank, const Py_ssize_t* shape, const Py_ssize_t* byte_strides,
                  Py_ssize_t item_size);
  void tidy_strides();

  const char* name_ = "";
  tessera_tensor tensor_ = TESSERA_TENSOR_NONE;
  Device device_{TESSERA_CPU, 0};
  bool read_only_ = false;
  Ref codes_;           // the bytes of a tensor whose own dtype is not exported
  Ref capsule_;         // owns the memory, or gives the tensor back to the producer when it goes
  Py_buffer buffer_{};  // buffer_.obj is null if there is none
};

}  // namespace tessera::python
