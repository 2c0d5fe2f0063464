// The extension module tessera._binding: attend(), plan() and explain() over the C interface.
#include <tessera/tessera.h>

#include <atomic>
#include <string>

#include "call.hpp"
#include "jax_handler.hpp"
#include "python.hpp"
#include "quantise.hpp"

namespace tessera::python {
namespace {

std::atomic<int> g_threads{0};
std::atomic<long long> g_torch_calls{0};  // computed on tensors of PyTorch so far

// Made when the module is; they live as long as the process.
PyObject* g_error = nullptr;
PyObject* g_invalid_argument = nullptr;
PyObject* g_unsupported = nullptr;
PyObject* g_device_unavailable = nullptr;

PyObject* exception_for(tessera_status status) {
  switch (status) {
    case TESSERA_INVALID_ARGUMENT:
      return g_invalid_argument;
    case TESSERA_UNSUPPORTED:
      return g_unsupported;
    case TESSERA_DEVICE_UNAVAILABLE:
      return g_device_unavailable;
    case TESSERA_OUT_OF_MEMORY:
      return PyExc_MemoryError;
    default:
      return g_error;
  }
}

// The library's sentences name fields of the C struct. Most are arguments here, or nearly; this one is not.
std::string sentence() {
  std::string said = tessera_last_error();
  if (said.find("mask.align") != std::string::npos)
    said += "; mask.align is what causal= says, or the third of window=(left, right, align)";
  return said;
}

PyObject* raise(tessera_status status) {
  PyErr_SetString(exception_for(status), sentence().c_str());
  return nullptr;
}

// The same call through tessera.torch or tessera.jax, which know what a bare memory view cannot:
// gradients there, tracing here.
PyObject* delegate(const char* module_name, PyObject* const* args, Py_ssize_t positional,
                   PyObject* keyword_names) {
  const Ref module(PyImport_ImportModule(module_name));
  const Ref function(module ? PyObject_GetAttrString(module.get(), "attend") : nullptr);
  const Ref arguments(function ? PyTuple_New(positional) : nullptr);
  const Ref keywords(arguments ? PyDict_New() : nullptr);
  if (!keywords) return nullptr;
  for (Py_ssize_t i = 0; i < positional; ++i) {
    if (PyTuple_SetItem(arguments.get(), i, Ref::borrow(args[i]).release()) != 0) return nullptr;
  }
  const Py_ssize_t named = keyword_names != nullptr ? PyTuple_Size(keyword_names) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    if (PyDict_SetItem(keywords.get(), PyTuple_GetItem(keyword_names, i), args[positional + i]) != 0)
      return nullptr;
  }
  return PyObject_Call(function.get(), arguments.get(), keywords.get());
}

PyObject* compute(const Arguments& arguments, const Family& family) {
  Call call;
  if (!call.prepare(arguments, family, g_threads.load(std::memory_order_relaxed), Purpose::run))
    return nullptr;
  tessera_status status = TESSERA_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = tessera_attend(&call.problem(), &call.device());
  Py_END_ALLOW_THREADS;
  if (status != TESSERA_OK) return raise(status);
  if (family.framework == Framework::torch) g_torch_calls.fetch_add(1, std::memory_order_relaxed);
  PyObject* const written[] = {arguments[Arguments::out],
                               call.problem().new_key.rank != 0 ? arguments[Arguments::k] : nullptr,
                               call.problem().new_key.rank != 0 ? arguments[Arguments::v] : nullptr,
                               call.problem().new_key.rank != 0 ? arguments[Arguments::key_tail] : nullptr};
  for (PyObject* each : written)
    if (each != nullptr && !note_write(family_of(each), each)) return nullptr;
  return call.take_results();
}

bool is_meta(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("is_meta");
  const Ref answer(PyObject_GetAttr(tensor, name));
  if (!answer) PyErr_Clear();  // a version without it
  return answer.get() == Py_True;
}

PyObject* attend(PyObject*, PyObject* const* args, Py_ssize_t positional, PyObject* keyword_names) {
  Arguments arguments;
  if (!arguments.parse("attend", args, positional, keyword_names)) return nullptr;
  const Family family = family_of(arguments[Arguments::q]);
  if (family.framework == Framework::jax) return delegate("tessera.jax", args, positional, keyword_names);
  if (family.framework == Framework::torch) {
    PyObject* const differentiable[] = {arguments[Arguments::q],         arguments[Arguments::k],
                                        arguments[Arguments::v],         arguments[Arguments::mask],
                                        arguments[Arguments::alibi],     arguments[Arguments::sinks],
                                        arguments[Arguments::out],       arguments[Arguments::new_key],
                                        arguments[Arguments::new_value], arguments[Arguments::key_tail]};
    // Fake and meta tensors have a shape but no memory; the operator answers them with a shape.
    bool wanted = !family.plain || is_meta(arguments[Arguments::q]);
    if (!wanted && !wants_derivative(family, differentiable, 10, &wanted)) return nullptr;
    if (wanted) return delegate("tessera.torch", args, positional, keyword_names);
  }
  return compute(arguments, family);
}

PyObject* attend_memory(PyObject*, PyObject* const* args, Py_ssize_t positional, PyObject* keyword_names) {
  Arguments arguments;
  if (!arguments.parse("attend_memory", args, positional, keyword_names)) return nullptr;
  return compute(arguments, family_of(arguments[Arguments::q]));
}

PyObject* plan(PyObject*, PyObject* const* args, Py_ssize_t positional, PyObject* keyword_names) {
  Arguments arguments;
  Call call;
  if (!arguments.parse("plan", args, positional, keyword_names) ||
      !call.prepare(arguments, family_of(arguments[Arguments::q]), g_threads, Purpose::look)) {
    return nullptr;
  }
  tessera_plan_info info = TESSERA_PLAN_INFO_INIT;
  const tessera_status status = tessera_plan(&call.problem(), &call.device(), &info);
  if (status != TESSERA_OK) return raise(status);
  return Py_BuildValue("{s:s,s:s,s:L,s:L,s:i,s:i,s:d,s:d}", "kernel", info.kernel, "reason", info.reason,
                       "workspace_bytes", static_cast<long long>(info.workspace_bytes), "work_items",
                       static_cast<long long>(info.work_items), "threads", info.threads, "splits",
                       info.splits, "flops", info.flops, "bytes", info.bytes);
}

PyObject* explain(PyObject*, PyObject* const* args, Py_ssize_t positional, PyObject* keyword_names) {
  Arguments arguments;
  Call call;
  if (!arguments.parse("explain", args, positional, keyword_names) ||
      !call.prepare(arguments, family_of(arguments[Arguments::q]), g_threads, Purpose::look)) {
    return nullptr;
  }
  const std::size_t length = tessera_explain(&call.problem(), &call.device(), nullptr, 0);
  std::string text(length + 1, '\0');
  tessera_explain(&call.problem(), &call.device(), text.data(), text.size());
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(length));
}

PyObject* quantise_memory(PyObject*, PyObject* arguments) {
  tessera_status status = TESSERA_OK;
  if (!quantise(arguments, g_threads, &status)) return nullptr;
  if (status != TESSERA_OK) return raise(status);
  Py_RETURN_NONE;
}

PyObject* set_threads(PyObject*, PyObject* count) {
  const long threads = PyLong_AsLong(count);
  if (threads == -1 && PyErr_Occurred() != nullptr) return nullptr;
  if (threads < 0 || threads > TESSERA_MAX_THREADS) {
    PyErr_Format(PyExc_ValueError, "set_threads(%ld): 0 (all cores) to %d is accepted", threads,
                 TESSERA_MAX_THREADS);
    return nullptr;
  }
  g_threads = static_cast<int>(threads);
  Py_RETURN_NONE;
}

PyObject* get_threads(PyObject*, PyObject*) { return PyLong_FromLong(g_threads); }
PyObject* get_torch_calls(PyObject*, PyObject*) { return PyLong_FromLongLong(g_torch_calls); }
PyObject* get_jax_targets(PyObject*, PyObject*) { return jax_targets(); }

template <class Function>
constexpr PyCFunction erased(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

#define TESSERA_SIGNATURE                                                                                  \
  "(q, k, v, *, mask=None, causal=None, window=None, scale=None, softcap=None, alibi=None, sinks=None, "   \
  "key_lengths=None, return_lse=False, out=None, kernel=None, workspace=None, query_offsets=None, "        \
  "key_offsets=None, page_table=None, prior=None, mask_align=None, invariant=False, query_scales=None, "   \
  "key_scales=None, value_scales=None, scale_rows=None, precision=None, output_dtype=None, new_key=None, " \
  "new_value=None, rope=None, positions=None, key_tail=None)\n--\n\n"

constexpr const char* kAttendDoc =
    "attend" TESSERA_SIGNATURE
    R"(Exact attention, softmax(scale * q @ k.T + mask) @ v, without ever storing the scores.

Arrays are anything that speaks DLPack, the array interface or the buffer protocol; nothing is copied.

q            [batch, heads, queries, dim], float32, float16, bfloat16, float8_e4m3fn or float8_e5m2
k            [batch, kv_heads, keys, dim]; heads is a multiple of kv_heads; q's dtype, or beside a wider q float8 or
             int8 (a cache)
v            [batch, kv_heads, keys, value_dim], k's dtype
mask         broadcasts to [batch, heads, queries, keys]: bool (True = visible) or floating (added)
causal       None, "top-left" (query i sees keys 0 ... i) or "bottom-right" (the last query sees all keys)
window       how far a query sees: a number of keys back, (left, right) with None for no limit, or
             (left, right, "top-left" | "bottom-right") where neither causal nor the shape tells
scale        None means 1 / sqrt(dim)
softcap      scores become softcap * tanh(score / softcap)
alibi        [heads] or [batch, heads] float32 slopes
sinks        [heads] float32, one more logit per head in every softmax
key_lengths  [batch] int32 or int64, how many keys of each batch entry exist
return_lse   also return the natural log of the softmax denominators, [batch, heads, queries] float32
out          write here, and return it
kernel       force one kernel by name; None lets the plan choose
workspace    scratch memory for this call: a contiguous uint8 array on q's device, or True for one of q's own
             framework, as large as the plan wants; None means kernels that need none, and on a CPU memory
             that the library keeps

For batches whose entries differ in length, and caches in pages (docs/serving.md):

query_offsets  [batch + 1] int32 or int64: q, the output and lse become [1, heads, rows, ...], and entry b has
               rows query_offsets[b] ... query_offsets[b + 1] - 1
key_offsets    the same for keys: k and v become [1, kv_heads, all keys, ...]
page_table     [batch, n] int32, with key_lengths: k and v become [pages, kv_heads, page, ...], and key j of entry b
               is row j % page of page page_table[b, j // page]
prior          (output, lse) over other keys, [parts, heads, rows, ...], taken in first; with query_offsets
mask_align     "bottom-right": the columns of mask are the last keys of each entry, those before stay visible
invariant      True: a row's bits never depend on the rest of the batch

For caches that this call appends to, and RoPE (docs/serving.md):

new_key        [batch, kv_heads, queries, dim], one row for each row of q, with query_offsets [1, kv_heads, rows, dim]:
               written to k first, as the last of key_lengths keys; with causal="bottom-right"
new_value      the same for v; left out where v is a part of k's own memory
rope           (cos, sin), float32 [positions, n], or tessera.Rope(cos, sin, interleaved=False, first=0): turns q and
               new_key on their way; q itself stays as it is
positions      [batch, queries], with query_offsets [rows], int32 or int64: rows of cos and sin, where they are not
               the places of q's rows on the key axis

For keys in two arrays (docs/serving.md):

key_tail       [batch, kv_heads, keys, tail], q's dtype, laid out as k is (pages, offsets): the last columns of the keys;
               k has those before. New keys are written to both. The result of jax has it behind k and v

For float8 arrays, and k and v of 8 bits (docs/fp8.md):

query_scales   float32, [batch or 1, heads or 1, blocks or 1, 1], or one number: what the codes of q are multiplied
               by; with a float8 q
key_scales     the same for k, with its own shape
value_scales   the same for v, or [batch or 1, kv_heads or 1, 1, value_dim]; v may be a transposed view
scale_rows     rows of a block that share a scale: 64 or 128
precision      with a float8 q, "fast" allows weights of 8 bits; None or "accurate" does not
output_dtype   of the output: float16 (what None means with a float8 q), bfloat16 or float32, the type or its name

Returns an array of the same kind as q, on the same device, its dimensions in the order that q's have in
memory; with return_lse the pair (output, lse). A row that sees no key gives 0 and an lse of -inf.
)";

PyMethodDef g_methods[] = {
    {"attend", erased(attend), METH_FASTCALL | METH_KEYWORDS, kAttendDoc},
    {"attend_memory", erased(attend_memory), METH_FASTCALL | METH_KEYWORDS,
     "attend_memory" TESSERA_SIGNATURE
     "attend() on the memory of the arrays alone: no gradients, no tracing."},
    {"plan", erased(plan), METH_FASTCALL | METH_KEYWORDS,
     "plan" TESSERA_SIGNATURE "What attend() with these arguments would do, as a dict; computes nothing."},
    {"explain", erased(explain), METH_FASTCALL | METH_KEYWORDS,
     "explain" TESSERA_SIGNATURE "Which kernel attend() would run and why, or why none can, as text."},
    {"quantise_memory", quantise_memory, METH_VARARGS,
     "quantise_memory(x, codes, scales, means, scale_rows, hadamard, /)\n--\n\nquantise() into arrays that "
     "are "
     "there; means may be None."},
    {"set_threads", set_threads, METH_O,
     "set_threads(count, /)\n--\n\nCPU threads for every later call of this process; 0 means all cores."},
    {"threads", get_threads, METH_NOARGS, "threads()\n--\n\nWhat set_threads() set; 0 means all cores."},
    {"torch_calls", get_torch_calls, METH_NOARGS,
     "torch_calls()\n--\n\nHow many calls on tensors of PyTorch this process has computed so far."},
    {"jax_targets", get_jax_targets, METH_NOARGS,
     "jax_targets()\n--\n\nXLA's entry points by platform, for jax.ffi.register_ffi_target."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef g_module = {PyModuleDef_HEAD_INIT,
                        "tessera._binding",
                        "Tessera's C interface for Python.",
                        -1,
                        g_methods,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr};

// An exception of ours that is also one of Python's own, so that either can be caught.
PyObject* make_exception(const char* name, const char* doc, PyObject* builtin) {
  const Ref bases(builtin != nullptr ? PyTuple_Pack(2, g_error, builtin) : nullptr);
  return PyErr_NewExceptionWithDoc(name, doc, bases.get(), nullptr);
}

bool add_exceptions(PyObject* module) {
  g_error = make_exception("tessera.Error", "Anything the library refuses or fails at.", nullptr);
  if (g_error == nullptr) return false;
  g_invalid_argument = make_exception("tessera.InvalidArgument",
                                      "The call is wrong: the text names field, value and what is accepted.",
                                      PyExc_ValueError);
  g_unsupported =
      make_exception("tessera.Unsupported", "A valid problem that no kernel of the device can compute.",
                     PyExc_NotImplementedError);
  g_device_unavailable = make_exception(
      "tessera.DeviceUnavailable", "No such device here, or this build leaves it out.", PyExc_RuntimeError);
  return g_invalid_argument != nullptr && g_unsupported != nullptr && g_device_unavailable != nullptr &&
         PyModule_AddObjectRef(module, "Error", g_error) == 0 &&
         PyModule_AddObjectRef(module, "InvalidArgument", g_invalid_argument) == 0 &&
         PyModule_AddObjectRef(module, "Unsupported", g_unsupported) == 0 &&
         PyModule_AddObjectRef(module, "DeviceUnavailable", g_device_unavailable) == 0;
}

}  // namespace
}  // namespace tessera::python

PyMODINIT_FUNC PyInit__binding() {
  using namespace tessera::python;
  Ref module(PyModule_Create(&g_module));
  if (!module || !add_exceptions(module.get())) return nullptr;
  if (PyModule_AddStringConstant(module.get(), "version", tessera_version()) != 0) return nullptr;
  return module.release();
}
