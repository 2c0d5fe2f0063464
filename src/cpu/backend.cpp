// The CPU rows of the kernel table: one per instruction set, all over the same schedule and pool.
#include "cpu/backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "core/plan.hpp"
#include "cpu/host_memory.hpp"
#include "cpu/pool.hpp"
#include "cpu/schedule.hpp"
#include "cpu/scratch.hpp"
#include "cpu/targets.hpp"
#include "cpu/threads.hpp"

namespace tessera::cpu {
namespace {

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

using Counter = std::atomic<std::int32_t>;

// Everything that a call needs beside its tensors, carved out of one block: what the splits of a row leave
// for each other, then scratch for each thread. Over a null base it only measures.
struct Workspace {
  float* partials = nullptr;
  Counter* unfinished = nullptr;
  std::byte* scratch = nullptr;
  std::size_t shared_bytes = 0, bytes = 0;

  Workspace(std::byte* base, const core::Problem& problem, const Schedule& schedule,
            std::size_t scratch_bytes, int threads) {
    Carver carver(base);
    if (schedule.splits > 1) {
      // Room for one vector past the end: see merge_splits.
      partials = carver.take<float>(schedule.partial_rows(problem) * schedule.partial_floats(problem) + 16);
      unfinished = carver.take<Counter>(schedule.items / schedule.splits);
    }
    shared_bytes = carver.used();
    scratch = carver.take<std::byte>(static_cast<std::int64_t>(scratch_bytes) * threads);
    bytes = carver.used();
  }
};

// The items of one call; each thread that takes part has its own piece of the workspace, the caller the
// first, or its own block where no workspace was given.
class AttendTask final : public Task {
 public:
  AttendTask(const Target& target, const Call& call, std::size_t bytes, std::byte* scratch, int pieces)
      : target_(target), call_(call), bytes_(bytes), scratch_(scratch), pieces_(pieces) {}

  std::byte* enter(bool caller) noexcept override {
    if (scratch_ == nullptr) return thread_scratch(bytes_);
    const int piece = caller ? 0 : 1 + taken_.fetch_add(1, std::memory_order_relaxed);
    return piece < pieces_ ? scratch_ + static_cast<std::size_t>(piece) * bytes_ : nullptr;
  }
  void run(std::int64_t item, std::byte* scratch) noexcept override {
    target_.attend_item(call_, item, scratch);
  }

 private:
  const Target& target_;
  const Call& call_;
  const std::size_t bytes_;
  std::byte* const scratch_;
  const int pieces_;
  std::atomic<int> taken_{0};
};

core::Status out_of_memory(std::size_t bytes) {
  return {TESSERA_OUT_OF_MEMORY, fmt::format("no memory for {} bytes of scratch", bytes)};
}

class PreparedCall final : public core::Prepared {
 public:
  PreparedCall(const Target& target, const core::Problem& problem, const tessera_device& device)
      : target_(target),
        problem_(problem),
        wanted_(useful_threads(problem, device)),
        schedule_(make_schedule(problem, target.blocking, wanted_)),
        scratch_bytes_(round_up_scratch(target.scratch_bytes(problem, schedule_))) {
    threads = static_cast<std::int32_t>(std::clamp<std::int64_t>(schedule_.items, 1, wanted_));
    // The caller finishes what a pool of the user's has left.
    pieces_ = threads + (device.run_tasks != nullptr && threads > 1 ? 1 : 0);
    work_items = schedule_.items;
    splits = static_cast<std::int32_t>(schedule_.splits);
    has_own_memory = true;
    workspace_bytes = static_cast<std::int64_t>(carve(nullptr).bytes);
    environment_ = device.threads == 0 && environment_threads().count > 0;
  }

  std::string words() const override {
    std::string text = fmt::format("{} rows per K/V head in tiles of {}, keys in tiles of {}", schedule_.rows,
                                   std::min(schedule_.row_tile, std::max<std::int64_t>(schedule_.rows, 1)),
                                   schedule_.key_tile);
    if (schedule_.splits > 1) {
      text += fmt::format("; so few rows that the keys are cut into {} chunks of {}", schedule_.splits,
                          schedule_.key_chunk);
    }
    if (environment_) {
      text += fmt::format("; {} asks for {} thread{}", environment_threads().variable,
                          environment_threads().count, environment_threads().count == 1 ? "" : "s");
    }
    return text;
  }

  // Whatever may fail comes before the first item, so that a failure leaves the output untouched; a helper
  // thread that finds no scratch memory stays out instead.
  core::Status submit(const core::Addresses& at, const tessera_device& device) const override {
    core::Problem problem = problem_;
    problem.move_to(at);
    if (core::Status s = core::validate_key_lengths(problem); !s.ok()) return s;
    if (schedule_.items == 0) return {};
    Workspace memory = carve(static_cast<std::byte*>(device.workspace));
    Block block;
    if (device.workspace == nullptr) {
      if (thread_scratch(scratch_bytes_) == nullptr) return out_of_memory(scratch_bytes_);
      if (schedule_.splits > 1) {
        block = allocate_block(memory.shared_bytes);
        if (!block) return out_of_memory(memory.shared_bytes);
        memory = carve(block.get());
      }
      memory.scratch = nullptr;
    }
    Call call{&problem, schedule_, memory.partials, memory.unfinished};
    for (std::int64_t i = 0; memory.unfinished != nullptr && i < schedule_.items / schedule_.splits; ++i)
      new (memory.unfinished + i) Counter(splits);
    AttendTask task(target_, call, scratch_bytes_, memory.scratch, pieces_);
    run_parallel(task, schedule_.items, wanted_, {device.run_tasks, device.run_context});
    return {};
  }

 private:
  Workspace carve(std::byte* base) const { return {base, problem_, schedule_, scratch_bytes_, pieces_}; }

  const Target& target_;
  core::Problem problem_;
  int wanted_;
  Schedule schedule_;
  std::size_t scratch_bytes_;
  int pieces_ = 1;
  bool environment_ = false;
};

class Cpu final : public core::Hardware {};

class CpuBackend final : public core::Backend {
 public:
  tessera_device_kind kind() const override { return TESSERA_CPU; }
  std::string_view name() const override { return "cpu"; }
  std::vector<core::Kernel> kernels() const override {
    std::vector<core::Kernel> rows;
    for (const Target& target : targets()) rows.push_back(kernel_of(target));
    return rows;
  }
  core::Status check_request(const tessera_device& device) const override {
    if (device.threads == 0 && !environment_threads().error.empty())
      return core::invalid(environment_threads().error);
    if (device.index != 0)
      return core::invalid(fmt::format("device.index is {}; the CPU is device 0", device.index));
    if (device.stream != nullptr)
      return core::invalid("device.stream is set, but the CPU has no streams; null is accepted");
    return {};
  }
  const core::Hardware* find(const tessera_device&, std::string*) const override {
    static const Cpu cpu;
    return &cpu;
  }
  int state(const tessera_device& device) const override { return thread_count(device.threads); }
  core::Status check_memory(const core::Addresses& at, const tessera_device& device) const override {
    return check_on_host(at, device);
  }
};

}  // namespace

core::Kernel kernel_of(const Target& target) {
  core::Kernel row;
  row.name = target.name;
  row.device = TESSERA_CPU;
  row.summary = target.summary;
  row.missing = [&target](const core::Device&) { return target.missing(); };
  row.supports = [](const core::Problem&) { return core::Status{}; };
  row.estimate = [&target](const core::Problem& p, const core::Device&) -> core::Estimate {
    constexpr double kScalarRate = 2e3;  // FLOP a microsecond, of one core
    return {core::cost(p).flops / (kScalarRate * target.speed), target.slow};
  };
  row.prepare = [&target](const core::Problem& p, const core::Device& device,
                          std::shared_ptr<const core::Prepared>* out) {
    *out = std::make_shared<PreparedCall>(target, p, device.request);
    return core::Status{};
  };
  return row;
}

const core::Backend& backend() {
  static const CpuBackend cpu;
  return cpu;
}

}  // namespace tessera::cpu
