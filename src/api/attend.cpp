// The extern "C" shell: copy the caller's structs, validate, plan, launch, catch. Nothing thrown gets out.
#include <fmt/format.h>
#include <tessera/tessera.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "api/recent_calls.hpp"
#include "core/plan.hpp"
#include "core/problem.hpp"
#include "cuda/runtime/runtime.hpp"

namespace {

using tessera::core::invalid;
using tessera::core::Plan;
using tessera::core::Problem;
using tessera::core::Status;

std::string& last_error() {
  thread_local std::string message;
  return message;
}

tessera_status remember(const Status& status) noexcept {
  try {
    if (!status.ok()) last_error() = status.message;
  } catch (...) {
    last_error().clear();  // no memory for the sentence; the code still tells
  }
  return status.code;
}

// Runs body() and turns whatever it throws into a status.
template <class Body>
tessera_status guarded(Body body) noexcept {
  try {
    return remember(body());
  } catch (const std::bad_alloc&) {
    return remember({TESSERA_OUT_OF_MEMORY, "not enough memory"});
  } catch (const std::exception& e) {
    return remember({TESSERA_INTERNAL, e.what()});
  } catch (...) {
    return remember({TESSERA_INTERNAL, "an unknown exception"});
  }
}

// The sizes of the structs in their first version: nothing shorter was ever a whole struct.
template <class Struct>
constexpr std::size_t kFirstSize = 0;
template <>
constexpr std::size_t kFirstSize<tessera_attention> = offsetof(tessera_attention, sinks) +
                                                      sizeof(tessera_tensor);
template <>
constexpr std::size_t kFirstSize<tessera_device> = offsetof(tessera_device, kernel) + sizeof(const char*);
template <>
constexpr std::size_t kFirstSize<tessera_plan_info> = offsetof(tessera_plan_info, bytes) + sizeof(double);

// A caller built against another version passes a struct of another size: a shorter one keeps the
// defaults of *out, a longer one is fine as long as what we do not know is all zero.
template <class Struct>
Status copy_struct(std::string_view name, const Struct* given, Struct* out) {
  if (given == nullptr) return invalid(fmt::format("{} is null", name));
  const std::size_t size = given->struct_size;
  constexpr std::size_t kLargest = 1 << 16;
  if (size < kFirstSize<Struct> || size > kLargest) {
    return invalid(fmt::format("{}.struct_size is {}; fill the struct from its _INIT macro ({} here)", name,
                               size, sizeof(Struct)));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (size > sizeof(Struct) &&
      std::any_of(bytes + sizeof(Struct), bytes + size, [](unsigned char byte) { return byte != 0; })) {
    return invalid(
        fmt::format("{}.struct_size is {}, and the fields past {} are set: this library (version {}) is "
                    "older than the header it was called with",
                    name, size, sizeof(Struct), tessera_version()));
  }
  std::memcpy(out, given, std::min(size, sizeof(Struct)));
  out->struct_size = sizeof(Struct);
  return {};
}

struct Request {
  tessera_attention attention = TESSERA_ATTENTION_INIT;
  tessera_device device = TESSERA_DEVICE_INIT;
  Problem problem;
};

Status copy_request(const tessera_attention* problem, const tessera_device* device, Request* request) {
  if (Status s = copy_struct("problem", problem, &request->attention); !s.ok()) return s;
  return copy_struct("device", device, &request->device);
}

Status check_request(Request* request) {
  if (Status s = tessera::core::check_device(request->device); !s.ok()) return s;
  return tessera::core::validate(request->attention, &request->problem);
}

Status read_request(const tessera_attention* problem, const tessera_device* device, Request* request) {
  if (Status s = copy_request(problem, device, request); !s.ok()) return s;
  return check_request(request);
}

// Memory on the wrong side of the bus, and on a CPU the values in key_lengths (a GPU's cannot be read here
// without waiting for it: its kernels clamp them).
Status check_memory(const Request& request) {
  if (request.device.kind == TESSERA_CUDA)
    return tessera::cuda::runtime::check_reachable(request.problem, request.device);
  if (Status s = tessera::cuda::runtime::check_on_host(request.problem); !s.ok()) return s;
  return tessera::core::validate_key_lengths(request.problem);
}

bool nothing_to_do(const Problem& p) { return p.batch == 0 || p.queries == 0; }

Status attend_checked(Request& request, Plan* plan) {
  if (Status s = check_request(&request); !s.ok()) return s;
  if (Status s = tessera::core::plan(request.problem, request.device, plan); !s.ok()) return s;
  if (nothing_to_do(request.problem)) return {};
  if (Status s = check_memory(request); !s.ok()) return s;
  return plan->kernel->launch(request.problem, request.device, plan->launch);
}

Status attend_on_gpu(Request& request) {
  // On the heap: what is thread-local may be taken from the stack of every thread, and this is 20 KB.
  thread_local const auto calls = std::make_unique<tessera::api::RecentCalls>();
  tessera::api::RecentCalls& recent = *calls;
  if (const auto* call = recent.find(request.attention, request.device)) {
    Status status = call->kernel->launch(call->problem, request.device, call->launch);
    if (!status.ok()) recent.forget(request.attention, request.device);
    return status;
  }
  Plan plan;
  Status status = attend_checked(request, &plan);
  if (status.ok() && !nothing_to_do(request.problem))
    recent.keep(request.attention, request.device, {request.problem, plan.kernel, std::move(plan.launch)});
  return status;
}

void copy_text(std::string_view text, char* to, std::size_t capacity) {
  const std::size_t length = std::min(text.size(), capacity - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

std::string explain_text(const tessera_attention* given_problem, const tessera_device* given_device) {
  Request request;
  Plan plan;
  Status status = read_request(given_problem, given_device, &request);
  if (status.ok()) status = tessera::core::plan(request.problem, request.device, &plan);
  if (!status.ok()) return fmt::format("{}: {}", tessera_status_name(status.code), status.message);
  const Problem& p = request.problem;
  return fmt::format(
      "{} ({})\n"
      "  problem    batch {}, heads {}/{}, queries {}, keys {}, dim {}, value dim {}, {}\n"
      "  why        {}\n"
      "  geometry   {} work items, {} threads, keys cut into {}, {} bytes of workspace; {}\n"
      "  cost       {:.4g} GFLOP, at least {:.4g} MB of traffic\n",
      plan.kernel->name, plan.kernel->summary, p.batch, p.heads, p.kv_heads, p.queries, p.keys, p.dim,
      p.value_dim, tessera::core::dtype_name(p.dtype), plan.reason, plan.launch.work_items,
      plan.launch.threads, plan.launch.splits, plan.launch.workspace_bytes, plan.launch.reason,
      plan.cost.flops * 1e-9, plan.cost.bytes * 1e-6);
}

}  // namespace

extern "C" {

tessera_status tessera_attend(const tessera_attention* problem, const tessera_device* device) {
  return guarded([&]() -> Status {
    Request request;
    if (Status s = copy_request(problem, device, &request); !s.ok()) return s;
    if (request.device.kind == TESSERA_CUDA) return attend_on_gpu(request);
    Plan plan;
    return attend_checked(request, &plan);
  });
}

tessera_status tessera_plan(const tessera_attention* problem, const tessera_device* device,
                            tessera_plan_info* info) {
  return guarded([&]() -> Status {
    tessera_plan_info filled = TESSERA_PLAN_INFO_INIT;
    if (Status s = copy_struct("plan", info, &filled); !s.ok()) return s;
    const std::size_t callers_size = info->struct_size;
    Request request;
    if (Status s = read_request(problem, device, &request); !s.ok()) return s;
    Plan plan;
    if (Status s = tessera::core::plan(request.problem, request.device, &plan); !s.ok()) return s;
    copy_text(plan.kernel->name, filled.kernel, sizeof filled.kernel);
    copy_text(plan.launch.reason.empty() ? plan.reason : plan.reason + "; " + plan.launch.reason,
              filled.reason, sizeof filled.reason);
    filled.workspace_bytes = plan.launch.workspace_bytes;
    filled.work_items = plan.launch.work_items;
    filled.threads = plan.launch.threads;
    filled.splits = plan.launch.splits;
    filled.flops = plan.cost.flops;
    filled.bytes = plan.cost.bytes;
    filled.struct_size = callers_size;
    std::memcpy(info, &filled, std::min(callers_size, sizeof filled));
    return {};
  });
}

size_t tessera_explain(const tessera_attention* problem, const tessera_device* device, char* text,
                       size_t capacity) {
  std::size_t length = 0;
  (void)guarded([&]() -> Status {
    const std::string whole = explain_text(problem, device);
    length = whole.size();
    if (text != nullptr && capacity > 0) copy_text(whole, text, capacity);
    return {};
  });
  return length;
}

const char* tessera_last_error(void) { return last_error().c_str(); }

const char* tessera_status_name(tessera_status status) {
  switch (status) {
    case TESSERA_OK:
      return "ok";
    case TESSERA_INVALID_ARGUMENT:
      return "invalid argument";
    case TESSERA_UNSUPPORTED:
      return "unsupported";
    case TESSERA_DEVICE_UNAVAILABLE:
      return "device unavailable";
    case TESSERA_OUT_OF_MEMORY:
      return "out of memory";
    case TESSERA_INTERNAL:
      return "internal error";
    default:
      return "unknown status";
  }
}

const char* tessera_dtype_name(tessera_dtype dtype) {
  const char* name = tessera::core::dtype_name(dtype);
  return name != nullptr ? name : "unknown dtype";
}

size_t tessera_dtype_size(tessera_dtype dtype) {
  return static_cast<size_t>(tessera::core::dtype_size(dtype));
}

#define TESSERA_TEXT(x) #x
#define TESSERA_VERSION_TEXT(major, minor, patch) \
  TESSERA_TEXT(major) "." TESSERA_TEXT(minor) "." TESSERA_TEXT(patch)

const char* tessera_version(void) {
  return TESSERA_VERSION_TEXT(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH);
}

}  // extern "C"
