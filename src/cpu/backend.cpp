// The CPU rows of the kernel table: one per instruction set, all over the same schedule and pool.
#include "cpu/backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "cpu/pool.hpp"
#include "cpu/schedule.hpp"
#include "cpu/scratch.hpp"
#include "cpu/targets.hpp"
#include "cpu/threads.hpp"

namespace tessera::cpu {
namespace {

std::size_t partial_bytes(const core::Problem& problem, const Schedule& schedule) {
  const std::int64_t floats = schedule.partial_rows(problem) * schedule.partial_floats(problem);
  // Room for one vector past the end: see merge_splits.
  return floats == 0 ? 0 : static_cast<std::size_t>(floats + 16) * sizeof(float);
}

// Work of less than about ten microseconds is done before a helper has woken up, and waking one costs the
// caller as much. A pool of the user's own is asked whatever the size: its threads may well be awake.
int useful_threads(const core::Problem& problem, const tessera_device& device) {
  constexpr double kWorthHelp = 1e5;              // multiply-adds
  constexpr double kPerRow = 64, kPerScore = 16;  // what a row and an exponential cost beside them
  const double rows = static_cast<double>(problem.batch * problem.heads * problem.queries);
  const double dims = static_cast<double>(problem.dim + problem.value_dim);
  const double work = rows * (kPerRow + dims + static_cast<double>(problem.keys) * (kPerScore + dims));
  return device.run_tasks == nullptr && work < kWorthHelp ? 1 : thread_count(device.threads);
}

}  // namespace

core::Launch geometry(const Target& target, const core::Problem& problem, const tessera_device& device) {
  const int wanted = useful_threads(problem, device);
  const Schedule schedule = make_schedule(problem, target.blocking, wanted);
  core::Launch launch;
  launch.threads = static_cast<std::int32_t>(std::clamp<std::int64_t>(schedule.items, 1, wanted));
  launch.work_items = schedule.items;
  launch.splits = static_cast<std::int32_t>(schedule.splits);
  launch.workspace_bytes =
      static_cast<std::int64_t>(target.scratch_bytes(problem, schedule)) * launch.threads +
      static_cast<std::int64_t>(partial_bytes(problem, schedule));
  launch.reason =
      fmt::format("{} rows per K/V head in tiles of {}, keys in tiles of {}", schedule.rows,
                  std::min(schedule.row_tile, std::max<std::int64_t>(schedule.rows, 1)), schedule.key_tile);
  if (schedule.splits > 1) {
    launch.reason += fmt::format("; so few rows that the keys are cut into {} chunks of {}", schedule.splits,
                                 schedule.key_chunk);
  }
  if (device.threads == 0 && environment_threads().count > 0) {
    launch.reason += fmt::format("; {} asks for {} thread{}", environment_threads().variable,
                                 environment_threads().count, environment_threads().count == 1 ? "" : "s");
  }
  return launch;
}

namespace {

class AttendTask final : public Task {
 public:
  AttendTask(const Target& target, const Call& call)
      : target_(target), call_(call), bytes_(target.scratch_bytes(*call.problem, call.schedule)) {}

  bool enter() noexcept override { return thread_scratch(bytes_) != nullptr; }
  void run(std::int64_t item) noexcept override { target_.attend_item(call_, item, thread_scratch(bytes_)); }

 private:
  const Target& target_;
  const Call& call_;
  std::size_t bytes_;
};

core::Status out_of_memory(std::size_t bytes) {
  return {TESSERA_OUT_OF_MEMORY, fmt::format("no memory for {} bytes of scratch", bytes)};
}

}  // namespace

// Whatever may fail comes before the first item, so that a failure leaves the output untouched; a helper
// thread that finds no scratch memory stays out instead.
core::Status launch(const Target& target, const core::Problem& problem, const tessera_device& device) {
  const int threads = useful_threads(problem, device);
  Call call;
  call.problem = &problem;
  call.schedule = make_schedule(problem, target.blocking, threads);
  if (call.schedule.items == 0) return {};

  Block partials;
  std::unique_ptr<std::atomic<std::int32_t>[]> unfinished;
  if (call.schedule.splits > 1) {
    const std::size_t bytes = partial_bytes(problem, call.schedule);
    const std::size_t groups = static_cast<std::size_t>(call.schedule.items / call.schedule.splits);
    partials = allocate_block(bytes);
    unfinished.reset(new (std::nothrow) std::atomic<std::int32_t>[groups]);
    if (!partials || !unfinished) return out_of_memory(bytes);
    for (std::size_t i = 0; i < groups; ++i) {
      unfinished[i].store(static_cast<std::int32_t>(call.schedule.splits), std::memory_order_relaxed);
    }
    call.partials = reinterpret_cast<float*>(partials.get());
    call.unfinished = unfinished.get();
  }

  AttendTask task(target, call);
  if (!task.enter()) return out_of_memory(target.scratch_bytes(problem, call.schedule));
  run_parallel(task, call.schedule.items, threads, {device.run_tasks, device.run_context});
  return {};
}

namespace {

// The kernel table holds plain function pointers, so each target gets its own set of functions.
template <std::size_t I>
core::Kernel kernel_row() {
  core::Kernel row{};
  row.name = targets()[I].name;
  row.device = TESSERA_CPU;
  row.summary = targets()[I].summary;
  row.missing = [](const tessera_device&) { return targets()[I].missing(); };
  row.supports = [](const core::Problem&) { return core::Status{}; };
  if (targets()[I].rather_not != nullptr) {
    row.rather_not = [](const core::Problem&, const tessera_device&) { return targets()[I].rather_not(); };
  }
  row.geometry = [](const core::Problem& p, const tessera_device& d) { return geometry(targets()[I], p, d); };
  row.launch = [](const core::Problem& p, const tessera_device& d, const core::Launch&) {
    return launch(targets()[I], p, d);
  };
  return row;
}

template <std::size_t... I>
std::array<core::Kernel (*)(), sizeof...(I)> row_makers(std::index_sequence<I...>) {
  return {kernel_row<I>...};
}

}  // namespace

std::vector<core::Kernel> kernels() {
  const auto makers = row_makers(std::make_index_sequence<kMaxTargets>());
  std::vector<core::Kernel> rows;
  for (std::size_t i = 0; i < targets().size(); ++i) rows.push_back(makers[i]());
  return rows;
}

}  // namespace tessera::cpu
