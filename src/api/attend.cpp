// Attention behind the extern "C" shell (shell.hpp): copy the caller's structs, find or make the plan, submit
// it.
#include <fmt/format.h>
#include <tessera/tessera.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "api/recent_calls.hpp"
#include "api/shell.hpp"
#include "core/backend.hpp"
#include "core/plan.hpp"
#include "core/problem.hpp"

namespace {

using tessera::api::copy_struct;
using tessera::api::guarded;
using tessera::api::last_error;
using tessera::api::RecentCalls;
using tessera::api::Request;
using tessera::core::Addresses;
using tessera::core::Backend;
using tessera::core::invalid;
using tessera::core::Problem;
using tessera::core::Status;

Status copy_request(const tessera_attention* problem, const tessera_device* device, Request* request) {
  if (Status s = copy_struct("problem", problem, &request->attention); !s.ok()) return s;
  if (Status s = copy_struct("device", device, &request->device); !s.ok()) return s;
  if (const Backend* backend = tessera::core::backend_of(request->device.kind))
    request->state = backend->state(request->device);
  return {};
}

// On the heap: what is thread-local may be taken from the stack of every thread, and this is 60 KB. A call in
// the destructor of something that outlives the thread's own makes a second one, which stays.
thread_local RecentCalls* recent_calls = nullptr;
struct RecentCallsEnd {
  ~RecentCallsEnd() { delete std::exchange(recent_calls, nullptr); }
};

RecentCalls& recent_of_this_thread() {
  if (recent_calls == nullptr) {
    thread_local const RecentCallsEnd at_end;
    recent_calls = new RecentCalls;
  }
  return *recent_calls;
}

// The plan of a request: that of an earlier call like it, or a new one.
Status plan_of(const Request& request, RecentCalls::Call** out) {
  RecentCalls& recent = recent_of_this_thread();
  const RecentCalls::Key key(request);
  *out = recent.find(key, request.device.kernel);
  if (*out != nullptr) return {};
  if (Status s = tessera::core::check_device(request.device); !s.ok()) return s;
  Problem problem;
  if (Status s = tessera::core::validate(request.attention, &problem); !s.ok()) return s;
  tessera::core::Plan plan;
  if (Status s = tessera::core::plan(problem, request.device, &plan); !s.ok()) return s;
  *out = &recent.keep(key, request.device.kernel, std::move(plan));
  (*out)->span_bytes = problem.span_bytes;
  (*out)->nothing_to_do = problem.all_rows() == 0;
  return {};
}

// Memory that shares bytes it must not share, or lies on the wrong side of the bus: asked once for every set
// of addresses.
Status check_memory(const Request& request, const Addresses& at, RecentCalls::Call& call) {
  const std::uint64_t hash = RecentCalls::hash_of(at, request.device);
  if (call.looked_at(hash)) return {};
  if (Status s = tessera::core::check_overlap(request.attention, call.span_bytes); !s.ok()) return s;
  if (request.device.workspace != nullptr)
    if (Status s = tessera::core::check_workspace(request.device, call.span_bytes, at); !s.ok()) return s;
  const Backend* const backend = tessera::core::backend_of(request.device.kind);
  if (Status s = backend->check_memory(at, request.device); !s.ok()) return s;
  call.remember(hash);
  return {};
}

Status attend(const Request& request) {
  if (request.device.workspace == nullptr && request.device.workspace_bytes != 0) {
    return invalid(fmt::format("device.workspace is null, but device.workspace_bytes is {}",
                               request.device.workspace_bytes));
  }
  RecentCalls::Call* call = nullptr;
  if (Status s = plan_of(request, &call); !s.ok()) return s;
  if (call->nothing_to_do) return {};
  const Addresses at = tessera::core::addresses_of(request.attention);
  if (Status s = check_memory(request, at, *call); !s.ok()) return s;
  // Held on to: a thread pool of the caller's may make another call on this thread meanwhile.
  const std::shared_ptr<const tessera::core::Prepared> prepared = call->plan.prepared;
  Status status = prepared->submit(at, request.device);
  // What was settled may hold no more: a GPU was reset, say.
  if (!status.ok()) recent_of_this_thread().forget(prepared.get());
  return status;
}

void copy_text(std::string_view text, char* to, std::size_t capacity) {
  const std::size_t length = std::min(text.size(), capacity - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

std::string explain_text(const tessera_attention* given_problem, const tessera_device* given_device) {
  Request request;
  RecentCalls::Call* call = nullptr;
  Problem p;
  Status status = copy_request(given_problem, given_device, &request);
  if (status.ok()) status = plan_of(request, &call);
  if (status.ok()) status = tessera::core::validate(request.attention, &p);  // this call's own addresses too
  if (!status.ok()) return fmt::format("{}: {}", tessera_status_name(status.code), status.message);
  const tessera::core::Kernel& kernel = *call->plan.kernel;
  const tessera::core::Prepared& prepared = *call->plan.prepared;
  const tessera::core::Cost cost = tessera::core::cost(p);
  return fmt::format(
      "{} ({})\n"
      "  problem    batch {}, heads {}/{}, queries {}, keys {}, dim {}{}, value dim {}, {}\n"
      "  why        {}\n"
      "  geometry   {} work items, {} threads, keys cut into {}, {} bytes of workspace; {}\n"
      "  cost       {:.4g} GFLOP, at least {:.4g} MB of traffic\n",
      kernel.name, kernel.summary, p.batch, p.heads, p.kv_heads, p.queries, p.keys, p.dim,
      p.kv.tail_dim > 0 ? fmt::format(" ({} of them in key_tail)", p.kv.tail_dim) : "", p.value_dim,
      p.mixed() ? fmt::format("{}, keys and values {}", tessera::core::dtype_name(p.dtype),
                              tessera::core::dtype_name(p.kv.dtype))
                : tessera::core::dtype_name(p.dtype),
      tessera::core::why(call->plan, p, request.device), prepared.work_items, prepared.threads,
      prepared.splits, prepared.workspace_bytes, prepared.words(), cost.flops * 1e-9, cost.bytes * 1e-6);
}

Status fill_plan(const Request& request, tessera_plan_info* info) {
  RecentCalls::Call* call = nullptr;
  if (Status s = plan_of(request, &call); !s.ok()) return s;
  // The plan may be an earlier call's, over other addresses.
  if (Status s = tessera::core::check_overlap(request.attention, call->span_bytes); !s.ok()) return s;
  if (call->words.empty()) {  // the same sentences every time: made once
    Problem problem;
    if (Status s = tessera::core::validate(request.attention, &problem); !s.ok()) return s;
    call->cost = tessera::core::cost(problem);
    call->words = tessera::core::why(call->plan, problem, request.device);
    if (const std::string more = call->plan.prepared->words(); !more.empty()) call->words += "; " + more;
  }
  copy_text(call->plan.kernel->name, info->kernel, sizeof info->kernel);
  copy_text(call->words, info->reason, sizeof info->reason);
  info->workspace_bytes = call->plan.prepared->workspace_bytes;
  info->work_items = call->plan.prepared->work_items;
  info->threads = call->plan.prepared->threads;
  info->splits = call->plan.prepared->splits;
  info->flops = call->cost.flops;
  info->bytes = call->cost.bytes;
  return {};
}

}  // namespace

extern "C" {

tessera_status tessera_attend(const tessera_attention* problem, const tessera_device* device) {
  return guarded([&]() -> Status {
    Request request;
    if (Status s = copy_request(problem, device, &request); !s.ok()) return s;
    return attend(request);
  });
}

tessera_status tessera_plan(const tessera_attention* problem, const tessera_device* device,
                            tessera_plan_info* info) {
  return guarded([&]() -> Status {
    tessera_plan_info filled = TESSERA_PLAN_INFO_INIT;
    if (Status s = copy_struct("plan", info, &filled); !s.ok()) return s;
    const std::size_t callers_size = info->struct_size;
    Request request;
    if (Status s = copy_request(problem, device, &request); !s.ok()) return s;
    if (Status s = fill_plan(request, &filled); !s.ok()) return s;
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
  constexpr const char* kNames[] = {
      "ok", "invalid argument", "unsupported", "device unavailable", "out of memory", "internal error"};
  const bool known = status >= TESSERA_OK && status <= TESSERA_INTERNAL;
  return known ? kNames[status] : "unknown status";
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
