// One call from Python as one tessera_attention: keyword arguments in, problem and device out.
#pragma once

#include <tessera/tessera.h>

#include "arrays.hpp"
#include "python.hpp"

namespace tessera::python {

// The arguments in the order of the signature, borrowed; null where the caller gave none or None.
struct Arguments {
  enum Name {
    q,
    k,
    v,
    mask,
    causal,
    window,
    scale,
    softcap,
    alibi,
    sinks,
    key_lengths,
    return_lse,
    out,
    kernel,
    workspace,
    query_offsets,
    key_offsets,
    page_table,
    prior,
    mask_align,
    invariant,
    query_scales,
    key_scales,
    value_scales,
    scale_rows,
    precision,
    output_dtype,
    new_key,
    new_value,
    rope,
    positions,
    key_tail
  };
  static constexpr int kCount = key_tail + 1;
  PyObject* values[kCount] = {};

  [[nodiscard]] PyObject* operator[](Name name) const { return values[name]; }
  bool parse(const char* function, PyObject* const* args, Py_ssize_t positional, PyObject* keyword_names);
};

// "top-left" or "bottom-right"; `name` is the argument's.
bool read_align(PyObject* text, const char* name, tessera_align* align);

// attend() runs a call, plan() and explain() only look at it.
enum class Purpose { run, look };

// Holds every view of a call, so that all memory stays readable until the computation is over.
class Call {
 public:
  // Reads the inputs, makes room for the results. False: a Python exception is set.
  bool prepare(const Arguments& arguments, const Family& family, int threads, Purpose purpose);

  [[nodiscard]] const tessera_attention& problem() const { return problem_; }
  [[nodiscard]] const tessera_device& device() const { return device_; }
  // The output, or (output, lse): a new reference.
  [[nodiscard]] PyObject* take_results();

 private:
  bool read_inputs(const Arguments& arguments, const Family& family);
  bool read_input(PyObject* object, const char* name, View* view, tessera_tensor* tensor);
  bool read_scalars(const Arguments& arguments);
  bool read_band(PyObject* causal, PyObject* window);
  bool read_sequences(const Arguments& arguments);
  bool read_scales(const Arguments& arguments);
  bool read_append(const Arguments& arguments);
  bool read_rope(PyObject* rope);
  bool may_write_caches(const Arguments& arguments) const;
  bool make_output(const Arguments& arguments, const Family& family, const std::int64_t* shape);
  bool make_results(const Arguments& arguments, const Family& family);
  bool read_workspace(const Arguments& arguments, const Family& family, Purpose purpose);
  bool allocate_workspace(const Family& family, PyObject* q);
  bool shares_device(const View& view, const char* name) const;

  tessera_attention problem_ = TESSERA_ATTENTION_INIT;
  tessera_device device_ = TESSERA_DEVICE_INIT;
  View q_, k_, v_, mask_, alibi_, sinks_, key_lengths_, output_, lse_, workspace_;
  View query_offsets_, key_offsets_, page_table_, prior_output_, prior_lse_;
  View query_scales_, key_scales_, value_scales_;
  View new_key_, new_value_, rope_cos_, rope_sin_, positions_, key_tail_;
  Ref rope_parts_[2];
  Ref output_object_, lse_object_, workspace_object_;
};

}  // namespace tessera::python
