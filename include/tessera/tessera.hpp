// Tessera for C++20: a thin, header-only layer over tessera.h. No CUDA headers, nothing thrown.
//
//   tessera::Attention problem{
//       .query = tessera::tensor(q, {batch, heads, queries, dim}),
//       .key = tessera::tensor(k, {batch, kv_heads, keys, dim}),
//       .value = tessera::tensor(v, {batch, kv_heads, keys, dim}),
//       .output = tessera::tensor(o, {batch, heads, queries, dim}),
//       .mask = tessera::causal_bottom_right(),
//   };
//   if (tessera::Status status = tessera::attend(problem, tessera::cpu()); !status)
//     std::puts(status.message().c_str());
#pragma once

#include <tessera/tessera.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>

namespace tessera {

// 16-bit floats as plain bits, for programs that have no type of their own for them.
struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};
// 8-bit floats likewise.
struct f8e4m3 {
  std::uint8_t bits;
};
struct f8e5m2 {
  std::uint8_t bits;
};

enum class Dtype : std::int32_t {
  f32 = TESSERA_F32,
  f16 = TESSERA_F16,
  bf16 = TESSERA_BF16,
  f8e4m3 = TESSERA_F8E4M3,
  f8e5m2 = TESSERA_F8E5M2,
  boolean = TESSERA_BOOL,
  i32 = TESSERA_I32,
  i64 = TESSERA_I64,
  i8 = TESSERA_I8,
};

// Specialise for your own element types: template <> struct tessera::DtypeOf<__half> { ... };
template <class T>
struct DtypeOf;
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::f32;
};
template <>
struct DtypeOf<f16> {
  static constexpr Dtype value = Dtype::f16;
};
template <>
struct DtypeOf<bf16> {
  static constexpr Dtype value = Dtype::bf16;
};
template <>
struct DtypeOf<f8e4m3> {
  static constexpr Dtype value = Dtype::f8e4m3;
};
template <>
struct DtypeOf<f8e5m2> {
  static constexpr Dtype value = Dtype::f8e5m2;
};
template <>
struct DtypeOf<bool> {
  static constexpr Dtype value = Dtype::boolean;
};
template <>
struct DtypeOf<std::uint8_t> {
  static constexpr Dtype value = Dtype::boolean;
};
template <>
struct DtypeOf<std::int8_t> {
  static constexpr Dtype value = Dtype::i8;
};
template <>
struct DtypeOf<std::int32_t> {
  static constexpr Dtype value = Dtype::i32;
};
template <>
struct DtypeOf<std::int64_t> {
  static constexpr Dtype value = Dtype::i64;
};

using Tensor = tessera_tensor;
using Sizes = std::initializer_list<std::int64_t>;

// A view of memory. Without strides it is contiguous; strides count elements. More than
// TESSERA_MAX_RANK dimensions are kept as that rank and refused by attend().
inline Tensor tensor(const void* data, Dtype dtype, Sizes shape, Sizes strides = {}) {
  Tensor t = TESSERA_TENSOR_NONE;
  t.data = const_cast<void*>(data);
  t.dtype = static_cast<std::int32_t>(dtype);
  t.rank = static_cast<std::int32_t>(shape.size());
  if (t.rank > TESSERA_MAX_RANK || (strides.size() != 0 && strides.size() != shape.size())) {
    t.rank = -1;
    return t;
  }
  int d = 0;
  for (std::int64_t size : shape) t.shape[d++] = size;
  std::uint64_t step = 1;  // unsigned: absurd sizes wrap here and are refused by the library
  for (d = t.rank - 1; d >= 0; --d) {
    t.strides[d] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(t.shape[d]);
  }
  d = 0;
  for (std::int64_t stride : strides) t.strides[d++] = stride;
  return t;
}

template <class T>
Tensor tensor(T* data, Sizes shape, Sizes strides = {}) {
  return tensor(static_cast<const void*>(data), DtypeOf<std::remove_cv_t<T>>::value, shape, strides);
}

struct Mask : tessera_mask {
  Mask() : tessera_mask{TESSERA_ALIGN_NONE, 0, TESSERA_UNBOUNDED, TESSERA_UNBOUNDED, TESSERA_TENSOR_NONE} {}

  // The same band with a boolean (true = visible) or additive tensor on top.
  [[nodiscard]] Mask with(const Tensor& mask_tensor) const {
    Mask m = *this;
    m.tensor = mask_tensor;
    return m;
  }
  // The same band with a tensor over the last keys of each entry alone, as many as it has columns; the keys
  // before those stay visible. For trees of draft tokens.
  [[nodiscard]] Mask with_last_keys(const Tensor& mask_tensor) const {
    Mask m = with(mask_tensor);
    m.tensor_align = TESSERA_ALIGN_BOTTOM_RIGHT;
    return m;
  }
  // The same mask, also limited to `left` keys before the query's position.
  [[nodiscard]] Mask window_left(std::int64_t keys_before) const {
    Mask m = *this;
    m.left = keys_before;
    return m;
  }
};

enum class Align : std::int32_t {
  top_left = TESSERA_ALIGN_TOP_LEFT,
  bottom_right = TESSERA_ALIGN_BOTTOM_RIGHT
};

inline constexpr std::int64_t unbounded = TESSERA_UNBOUNDED;

// The query at position p sees keys p - left ... p + right.
inline Mask window(std::int64_t left, std::int64_t right, Align align) {
  Mask m;
  m.align = static_cast<std::int32_t>(align);
  m.left = left;
  m.right = right;
  return m;
}
inline Mask causal_top_left() { return window(unbounded, 0, Align::top_left); }
inline Mask causal_bottom_right() { return window(unbounded, 0, Align::bottom_right); }
inline Mask mask_tensor(const Tensor& t) { return Mask().with(t); }

// Of problems with 8-bit inputs: fast allows a kernel to round the softmax's weights to 8 bits.
enum class Precision : std::int32_t {
  accurate = TESSERA_PRECISION_ACCURATE,
  fast = TESSERA_PRECISION_FAST,
};

// Rotary embedding of the query and of new_key; tessera.h has the formula.
struct Rope {
  Tensor cos = TESSERA_TENSOR_NONE;  // [positions, n]
  Tensor sin = TESSERA_TENSOR_NONE;
  bool interleaved = false;  // pairs of neighbours, else halves
  std::int32_t first = 0;    // of the 2n dimensions that are turned
};

// One attention problem; tessera.h has the formula and the meaning of every field.
struct Attention {
  Tensor query = TESSERA_TENSOR_NONE;
  Tensor key = TESSERA_TENSOR_NONE;
  Tensor value = TESSERA_TENSOR_NONE;
  Tensor output = TESSERA_TENSOR_NONE;
  Tensor lse = TESSERA_TENSOR_NONE;
  std::optional<float> scale = std::nullopt;  // 1 / sqrt(dim) if not given
  float softcap = 0.0f;
  Mask mask = {};
  Tensor key_lengths = TESSERA_TENSOR_NONE;
  Tensor alibi_slopes = TESSERA_TENSOR_NONE;
  Tensor sinks = TESSERA_TENSOR_NONE;
  Tensor query_offsets = TESSERA_TENSOR_NONE;
  Tensor key_offsets = TESSERA_TENSOR_NONE;
  Tensor page_table = TESSERA_TENSOR_NONE;
  Tensor prior_output = TESSERA_TENSOR_NONE;
  Tensor prior_lse = TESSERA_TENSOR_NONE;
  Tensor query_scales = TESSERA_TENSOR_NONE;
  Tensor key_scales = TESSERA_TENSOR_NONE;
  Tensor value_scales = TESSERA_TENSOR_NONE;
  std::int32_t scale_rows = 0;  // of a block of scales: 64 or 128; 0 for no blocks
  Precision precision = Precision::accurate;
  Tensor new_key = TESSERA_TENSOR_NONE;
  Tensor new_value = TESSERA_TENSOR_NONE;
  Rope rope = {};
  Tensor positions = TESSERA_TENSOR_NONE;
  Tensor key_tail = TESSERA_TENSOR_NONE;  // a head's last key dimensions, in a tensor of the query's dtype

  [[nodiscard]] tessera_attention to_c() const {
    tessera_attention c = TESSERA_ATTENTION_INIT;
    c.query = query;
    c.key = key;
    c.value = value;
    c.output = output;
    c.lse = lse;
    c.scale = !scale ? 0.0f : *scale == 0.0f ? TESSERA_SCALE_ZERO : *scale;
    c.softcap = softcap;
    c.mask = mask;
    c.key_lengths = key_lengths;
    c.alibi_slopes = alibi_slopes;
    c.sinks = sinks;
    c.query_offsets = query_offsets;
    c.key_offsets = key_offsets;
    c.page_table = page_table;
    c.prior_output = prior_output;
    c.prior_lse = prior_lse;
    c.query_scales = query_scales;
    c.key_scales = key_scales;
    c.value_scales = value_scales;
    c.scale_rows = scale_rows;
    c.precision = static_cast<std::int32_t>(precision);
    c.new_key = new_key;
    c.new_value = new_value;
    c.rope = {rope.cos, rope.sin, rope.interleaved ? 1 : 0, rope.first};
    c.positions = positions;
    c.key_tail = key_tail;
    return c;
  }
};

// Numbers as 8-bit codes and scales; tessera.h has the meaning of every field.
struct Quantisation {
  Tensor input = TESSERA_TENSOR_NONE;
  Tensor output = TESSERA_TENSOR_NONE;
  Tensor scales = TESSERA_TENSOR_NONE;
  Tensor means = TESSERA_TENSOR_NONE;  // given: smoothing
  std::int32_t scale_rows = 0;         // of a block of scales: 64 or 128; 0 for no blocks
  bool hadamard = false;

  [[nodiscard]] tessera_quantisation to_c() const {
    tessera_quantisation c = TESSERA_QUANTISATION_INIT;
    c.input = input;
    c.output = output;
    c.scales = scales;
    c.means = means;
    c.scale_rows = scale_rows;
    c.hadamard = hadamard ? 1 : 0;
    return c;
  }
};

using Device = tessera_device;

// One piece of a call, for a thread pool of your own: task(i) for every i from 0 up to the count.
class Task {
 public:
  Task(tessera_task function, void* argument) : function_(function), argument_(argument) {}
  void operator()(std::int64_t index) const { function_(argument_, index); }

 private:
  tessera_task function_;
  void* argument_;
};

// Your thread pool: anything that can be called as pool(count, task). It is referred to, not copied, so it
// must outlive the calls; tessera_device says what it has to do. An exception that leaves it ends the
// program.
class Pool {
 public:
  Pool() = default;
  template <class Callable>
  Pool(Callable& pool)  // NOLINT(google-explicit-constructor): .pool = mine
      requires std::is_invocable_v<Callable&, std::int64_t, Task>
      : run_([](void* context, std::int64_t count, tessera_task task, void* argument) noexcept {
        (*static_cast<Callable*>(context))(count, Task(task, argument));
      }),
        context_(const_cast<void*>(static_cast<const void*>(&pool))) {}
  void put_into(Device* device) const {
    device->run_tasks = run_;
    device->run_context = context_;
  }

 private:
  tessera_run_tasks run_ = nullptr;
  void* context_ = nullptr;
};

// Scratch memory for one call at a time, 256-byte aligned, whatever it holds; tessera_device has the rules.
// For plan() it may have no data: {.bytes = n} is what the plan may use, and its workspace_bytes what it
// takes.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;

  void put_into(Device* device) const {
    device->workspace = data;
    device->workspace_bytes = bytes;
  }
};

struct CpuOptions {
  std::int32_t threads = 0;      // 0 means TESSERA_NUM_THREADS, else OMP_NUM_THREADS, else all cores
  const char* kernel = nullptr;  // force one kernel by name
  Pool pool = {};                // threads of yours instead of the library's own
  Workspace workspace = {};      // memory of yours instead of what the library keeps for each thread
};
inline Device cpu(CpuOptions options = {}) {
  Device d = TESSERA_DEVICE_INIT;
  d.threads = options.threads;
  d.kernel = options.kernel;
  options.pool.put_into(&d);
  options.workspace.put_into(&d);
  return d;
}
// A GPU: the call returns once the work is on the stream (a cudaStream_t; null is the default stream).
// Without a workspace, a call that needs some takes it from a pool of the library's, in the order of the
// stream.
inline Device cuda(void* stream = nullptr, std::int32_t index = 0, const char* kernel = nullptr,
                   Workspace workspace = {}) {
  Device d = TESSERA_DEVICE_INIT;
  d.kind = TESSERA_CUDA;
  d.index = index;
  d.stream = stream;
  d.kernel = kernel;
  workspace.put_into(&d);
  return d;
}

// True if all went well; otherwise the message names the field, its value and what is accepted.
class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(tessera_status code)
      : code_(code), message_(code == TESSERA_OK ? "" : tessera_last_error()) {}
  explicit operator bool() const { return code_ == TESSERA_OK; }
  [[nodiscard]] tessera_status code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  tessera_status code_ = TESSERA_OK;
  std::string message_;
};

inline Status attend(const Attention& problem, const Device& device) {
  const tessera_attention c = problem.to_c();
  return Status(tessera_attend(&c, &device));
}

inline Status quantise(const Quantisation& quantisation, const Device& device) {
  const tessera_quantisation c = quantisation.to_c();
  return Status(tessera_quantise(&c, &device));
}

struct Plan : tessera_plan_info {
  Plan() : tessera_plan_info(TESSERA_PLAN_INFO_INIT) {}
  Status status;
};

inline Plan plan(const Attention& problem, const Device& device) {
  const tessera_attention c = problem.to_c();
  Plan p;
  // The cast: nvcc 13 believes that an assignment leaves a Status unlooked at.
  static_cast<void>(p.status = Status(tessera_plan(&c, &device, &p)));
  return p;
}

inline std::string explain(const Attention& problem, const Device& device) {
  const tessera_attention c = problem.to_c();
  std::string text(tessera_explain(&c, &device, nullptr, 0), '\0');
  tessera_explain(&c, &device, text.data(), text.size() + 1);
  return text;
}

}  // namespace tessera
