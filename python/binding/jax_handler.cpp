// attend() as XLA sees it. Operands: q, k and, unless it lies in k, v, then those of mask, alibi, sinks and
// so on whose names stand in the attribute "operands"; results: output and lse, and of calls with new_key the
// caches, in the very memory of the operands k and, with new_value, v and, where given, key_tail. XLA calls
// this without Python's lock, from threads of its own.
#include "jax_handler.hpp"

#include <tessera/tessera.h>

#include <string>
#include <string_view>

#include "xla_ffi.hpp"

namespace tessera::python {
namespace {

constexpr std::int64_t kAtLeast = 2;  // q and k

xla::Error* fail(const xla::CallFrame& frame, xla::ErrorCode code, const std::string& message) {
  xla::ErrorCreateArgs args{sizeof(xla::ErrorCreateArgs), nullptr, message.c_str(), code};
  return frame.api->error_create(&args);
}

tessera_dtype dtype_of(xla::DataType type) {
  switch (type) {
    case xla::kPred:
      return TESSERA_BOOL;
    case xla::kS8:
      return TESSERA_I8;
    case xla::kS32:
      return TESSERA_I32;
    case xla::kS64:
      return TESSERA_I64;
    case xla::kF16:
      return TESSERA_F16;
    case xla::kF32:
      return TESSERA_F32;
    case xla::kBf16:
      return TESSERA_BF16;
    case xla::kF8E4M3Fn:
      return TESSERA_F8E4M3;
    case xla::kF8E5M2:
      return TESSERA_F8E5M2;
  }
  return 0;  // any other number: the library refuses it by name of the tensor
}

tessera_tensor tensor_of(const void* operand) {
  const auto& buffer = *static_cast<const xla::Buffer*>(operand);
  tessera_tensor t = TESSERA_TENSOR_NONE;
  t.data = buffer.data;
  t.dtype = dtype_of(buffer.dtype);
  t.rank = static_cast<std::int32_t>(buffer.rank);
  std::int64_t stride = 1;
  for (std::int64_t d = (buffer.rank < TESSERA_MAX_RANK ? buffer.rank : TESSERA_MAX_RANK) - 1; d >= 0; --d) {
    t.shape[d] = buffer.dims[d];
    t.strides[d] = stride;
    stride *= buffer.dims[d];
  }
  return t;
}

class AttributeReader {
 public:
  explicit AttributeReader(const xla::Attributes& attributes) : attributes_(attributes) {}

  std::int64_t integer(std::string_view name) { return scalar<std::int64_t>(name, xla::kS64); }
  float number(std::string_view name) { return scalar<float>(name, xla::kF32); }
  std::string text(std::string_view name) {
    const void* value = find(name, xla::kStringAttribute);
    if (value == nullptr) return {};
    const auto* span = static_cast<const xla::ByteSpan*>(value);
    return {span->data, span->size};
  }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  template <class T>
  T scalar(std::string_view name, xla::DataType type) {
    const auto* value = static_cast<const xla::Scalar*>(find(name, xla::kScalarAttribute));
    if (value == nullptr || value->dtype != type) {
      missing_ = name;
      return T{};
    }
    return *static_cast<const T*>(value->value);
  }
  const void* find(std::string_view name, xla::AttributeType type) {
    for (std::int64_t i = 0; i < attributes_.size; ++i) {
      const xla::ByteSpan& span = *attributes_.names[i];
      if (std::string_view(span.data, span.size) == name && attributes_.types[i] == type)
        return attributes_.values[i];
    }
    missing_ = name;
    return nullptr;
  }

  const xla::Attributes& attributes_;
  std::string missing_;
};

// Where the operand of this name belongs; null if there is none.
tessera_tensor* field_named(std::string_view name, tessera_attention* problem) {
  const struct {
    std::string_view name;
    tessera_tensor* field;
  } all[] = {{"mask", &problem->mask.tensor},
             {"alibi", &problem->alibi_slopes},
             {"sinks", &problem->sinks},
             {"key_lengths", &problem->key_lengths},
             {"query_offsets", &problem->query_offsets},
             {"key_offsets", &problem->key_offsets},
             {"page_table", &problem->page_table},
             {"prior_output", &problem->prior_output},
             {"prior_lse", &problem->prior_lse},
             {"query_scales", &problem->query_scales},
             {"key_scales", &problem->key_scales},
             {"value_scales", &problem->value_scales},
             {"new_key", &problem->new_key},
             {"new_value", &problem->new_value},
             {"rope_cos", &problem->rope.cos},
             {"rope_sin", &problem->rope.sin},
             {"positions", &problem->positions},
             {"key_tail", &problem->key_tail}};
  for (const auto& each : all) {
    if (each.name == name) return each.field;
  }
  return nullptr;
}

// The optional operands, from `next` on, in the order in which "operands" names them.
bool read_optional(const xla::Operands& arguments, std::int64_t next, std::string_view names,
                   tessera_attention* problem) {
  while (!names.empty()) {
    const std::size_t comma = names.find(',');
    tessera_tensor* const field = field_named(names.substr(0, comma), problem);
    names.remove_prefix(comma == std::string_view::npos ? names.size() : comma + 1);
    if (field == nullptr || next >= arguments.size) return false;
    *field = tensor_of(arguments.values[next++]);
  }
  return next == arguments.size;
}

// What results there have to be: two, and the caches that are written to, where they lie already.
bool has_results(const xla::CallFrame& frame, const tessera_attention& problem) {
  const std::int64_t caches = problem.new_key.rank == 0 ? 0 : problem.new_value.rank == 0 ? 1 : 2;
  const bool tail = problem.new_key.rank != 0 && problem.key_tail.rank != 0;
  if (frame.results.size != 2 + caches + (tail ? 1 : 0)) return false;
  if (tail && tensor_of(frame.results.values[2 + caches]).data != problem.key_tail.data) return false;
  for (std::int64_t i = 0; i < caches; ++i) {
    if (tensor_of(frame.results.values[2 + i]).data != tensor_of(frame.arguments.values[1 + i]).data)
      return false;
  }
  return true;
}

xla::ErrorCode code_of(tessera_status status) {
  switch (status) {
    case TESSERA_INVALID_ARGUMENT:
      return xla::kInvalidArgument;
    case TESSERA_UNSUPPORTED:
      return xla::kUnimplemented;
    case TESSERA_DEVICE_UNAVAILABLE:
      return xla::kUnavailable;
    case TESSERA_OUT_OF_MEMORY:
      return xla::kResourceExhausted;
    default:
      return xla::kInternal;
  }
}

// XLA asks every handler, once, which version of the interface it speaks. Ours reads only what all minor
// versions share, so it speaks the one that asks.
bool answer_metadata(const xla::CallFrame& frame) {
  for (xla::Extension* e = frame.extensions; e != nullptr; e = e->next) {
    if (e->type != xla::kMetadataExtension) continue;
    xla::Metadata& metadata = *reinterpret_cast<xla::MetadataExtension*>(e)->metadata;
    metadata.version.major = xla::kMajor;
    metadata.version.minor = frame.api != nullptr ? frame.api->version.minor : 1;
    metadata.traits = 0;
    return true;
  }
  return false;
}

xla::Error* attend(xla::CallFrame& frame, tessera_device_kind kind) {
  if (answer_metadata(frame)) return nullptr;
  if (frame.api->version.major != xla::kMajor)
    return fail(frame, xla::kUnimplemented,
                "tessera: this XLA has a foreign function interface of another major version");
  if (frame.arguments.size < kAtLeast || frame.results.size < 2)
    return fail(frame, xla::kInvalidArgument, "tessera: q, k and two results are needed");

  AttributeReader attributes(frame.attributes);
  tessera_attention problem = TESSERA_ATTENTION_INIT;
  problem.query = tensor_of(frame.arguments.values[0]);
  problem.key = tensor_of(frame.arguments.values[1]);
  const bool value_in_key = attributes.integer("value_in_key") != 0;
  if (!value_in_key && frame.arguments.size > 2) problem.value = tensor_of(frame.arguments.values[2]);
  if (value_in_key) problem.value = problem.key;
  problem.output = tensor_of(frame.results.values[0]);
  problem.lse = tensor_of(frame.results.values[1]);
  problem.mask.align = static_cast<tessera_align>(attributes.integer("align"));
  problem.mask.tensor_align = static_cast<tessera_align>(attributes.integer("tensor_align"));
  problem.mask.left = attributes.integer("left");
  problem.mask.right = attributes.integer("right");
  problem.scale = attributes.number("scale");
  problem.softcap = attributes.number("softcap");
  problem.scale_rows = static_cast<std::int32_t>(attributes.integer("scale_rows"));
  problem.precision = static_cast<tessera_precision>(attributes.integer("precision"));
  problem.rope.interleaved = static_cast<std::int32_t>(attributes.integer("rope_interleaved"));
  problem.rope.first = static_cast<std::int32_t>(attributes.integer("rope_first"));
  const std::string names = attributes.text("operands"), kernel = attributes.text("kernel");
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = kind;
  device.threads = kind == TESSERA_CPU ? static_cast<std::int32_t>(attributes.integer("threads")) : 0;
  device.invariant = static_cast<std::int32_t>(attributes.integer("invariant"));
  if (!kernel.empty()) device.kernel = kernel.c_str();
  if (!attributes.missing().empty())
    return fail(frame, xla::kInvalidArgument, "tessera: attribute " + attributes.missing() + " is missing");
  if (!read_optional(frame.arguments, value_in_key ? 2 : 3, names, &problem))
    return fail(frame, xla::kInvalidArgument, "tessera: operands do not match their names: " + names);
  if (!has_results(frame, problem))
    return fail(frame, xla::kInternal, "tessera: XLA did not alias the caches with their results");
  if (kind == TESSERA_CUDA) {
    xla::StreamGetArgs stream{sizeof(xla::StreamGetArgs), nullptr, frame.context, nullptr};
    if (xla::Error* error = frame.api->stream_get(&stream); error != nullptr) return error;
    device.stream = stream.stream;
    // An XLA from before this question has the first GPU only, as far as we can know.
    if (frame.api->struct_size >= sizeof(xla::Api) && frame.api->device_ordinal_get != nullptr) {
      xla::DeviceOrdinalGetArgs which{sizeof(xla::DeviceOrdinalGetArgs), nullptr, frame.context, 0};
      if (xla::Error* error = frame.api->device_ordinal_get(&which); error != nullptr) return error;
      device.index = which.device_ordinal;
    }
  }
  const tessera_status status = tessera_attend(&problem, &device);
  if (status == TESSERA_OK) return nullptr;
  return fail(frame, code_of(status),
              std::string("tessera: ") + tessera_status_name(status) + ": " + tessera_last_error());
}

// Nothing thrown may reach XLA; what can throw here is a string that finds no memory.
xla::Error* guarded(xla::CallFrame* frame, tessera_device_kind kind) noexcept {
  try {
    return attend(*frame, kind);
  } catch (...) {
    return fail(*frame, xla::kResourceExhausted, {});
  }
}

xla::Error* attend_cpu(xla::CallFrame* frame) { return guarded(frame, TESSERA_CPU); }
xla::Error* attend_cuda(xla::CallFrame* frame) { return guarded(frame, TESSERA_CUDA); }

Ref capsule(xla::Handler* handler) {
  return Ref(PyCapsule_New(reinterpret_cast<void*>(handler), "xla._CUSTOM_CALL_TARGET", nullptr));
}

}  // namespace

PyObject* jax_targets() {
  const Ref cpu = capsule(attend_cpu), cuda = capsule(attend_cuda);
  if (!cpu || !cuda) return nullptr;
  return Py_BuildValue("{s:O,s:O}", "cpu", cpu.get(), "CUDA", cuda.get());
}

}  // namespace tessera::python
