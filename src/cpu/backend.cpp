// The CPU rows of the kernel table: one per instruction set, all over the same schedule and pool.
#include "cpu/backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>

#include "core/plan.hpp"
#include "cpu/append.hpp"
#include "cpu/batch.hpp"
#include "cpu/host_memory.hpp"
#include "cpu/pool.hpp"
#include "cpu/schedule.hpp"
#include "cpu/scratch.hpp"
#include "cpu/targets.hpp"
#include "cpu/threads.hpp"
#include "quantise/quantise.hpp"

namespace tessera::cpu {
namespace {

// Work of less than about ten microseconds is done before a helper has woken up, and waking one costs the
// caller as much. A pool of the user's own is asked whatever the size: its threads may well be awake.
bool worth_help(double work, const tessera_device& device) {
  constexpr double kWorthHelp = 1e5;  // multiply-adds
  return device.run_tasks != nullptr || work >= kWorthHelp;
}

int useful_threads(const core::Problem& problem, const tessera_device& device) {
  const double work = work_of(problem) * static_cast<double>(problem.query_offsets ? 1 : problem.batch);
  return worth_help(work, device) ? thread_count(device.threads) : 1;
}

// What stands for all entries of a batch that differ in length, when its lengths are not to be read: the
// widest that there may be, or one with its share of the rows.
core::Problem widest_entry(const core::Problem& problem) {
  core::Problem entry = problem;
  entry.batch = 1;
  entry.query_offsets = entry.kv.offsets = {};
  return entry;
}
core::Problem average_entry(const core::Problem& problem) {
  core::Problem entry = widest_entry(problem);
  const std::int64_t batch = std::max<std::int64_t>(problem.batch, 1);
  entry.queries = (problem.all_rows() + batch - 1) / batch;
  return entry;
}

Schedule planned_schedule(const core::Problem& problem, const Blocking& blocking, int threads) {
  if (!problem.by_entry()) return make_schedule(problem, blocking, threads, problem.batch);
  Schedule schedule = make_schedule(average_entry(problem), blocking, threads, problem.batch);
  if (__builtin_mul_overflow(schedule.items, problem.batch, &schedule.items))
    schedule.items = std::numeric_limits<std::int64_t>::max();  // nobody has so much memory
  return schedule;
}

std::size_t most_scratch(const Target& target, const core::Problem& problem, const Schedule& schedule) {
  if (!problem.by_entry()) return round_up_scratch(target.scratch_bytes(problem, schedule));
  constexpr std::int64_t kMany = std::int64_t{1} << 20;  // entries: then row tiles are as long as they get
  std::size_t most = 0;
  core::Problem entry = widest_entry(problem);
  // The fewest keys make the most panels.
  for (const std::int64_t keys : {problem.keys, std::min<std::int64_t>(problem.keys, 1)}) {
    entry.keys = keys;
    most = std::max(most, target.scratch_bytes(entry, make_schedule(entry, target.blocking, 1, kMany)));
  }
  return round_up_scratch(most);
}

using Counter = std::atomic<std::int32_t>;

// Everything that a call needs beside its tensors, carved out of one block: the list of entries, where they
// differ; what the splits of a row leave for each other; then scratch for each thread. Over a null base it
// only measures.
struct Workspace {
  EntryCall* entries = nullptr;
  float* partials = nullptr;
  Counter* unfinished = nullptr;
  std::byte* scratch = nullptr;
  std::size_t shared_bytes = 0, bytes = 0;

  Workspace(std::byte* base, std::int64_t entry_count, SharedNeeds needs, std::size_t scratch_bytes,
            int threads) {
    Carver carver(base);
    if (entry_count > 0) entries = carver.take<EntryCall>(entry_count);
    if (needs.counters > 0) {
      // Room for one vector past the end: see merge_splits.
      partials = carver.take<float>(needs.partial_floats + 16);
      unfinished = carver.take<Counter>(needs.counters);
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
  AttendTask(const Target& target, const Call& call, const Batch* batch, std::size_t bytes,
             std::byte* scratch, int pieces)
      : target_(target), call_(call), batch_(batch), bytes_(bytes), scratch_(scratch), pieces_(pieces) {}

  std::byte* enter(bool caller) noexcept override {
    if (scratch_ == nullptr) return thread_scratch(bytes_);
    const int piece = caller ? 0 : 1 + taken_.fetch_add(1, std::memory_order_relaxed);
    return piece < pieces_ ? scratch_ + static_cast<std::size_t>(piece) * bytes_ : nullptr;
  }
  void run(std::int64_t item, std::byte* scratch) noexcept override {
    if (batch_ == nullptr) return target_.attend_item(call_, item, scratch);
    const std::int64_t b = entry_of(*batch_, call_.problem->batch, item);
    const EntryCall& entry = batch_->entries[b];
    const core::Problem problem = call_.problem->entry(b);
    const Call call{&problem, entry.schedule, call_.partials + entry.first_float,
                    call_.unfinished + entry.first_counter};
    target_.attend_item(call, item - entry.first_item, scratch);
  }

 private:
  const Target& target_;
  const Call& call_;
  const Batch* const batch_;  // null: the items are the call's own
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
        schedule_(planned_schedule(problem, target.blocking, wanted_)),
        needs_(problem.by_entry() ? most_needs(problem) : schedule_.needs(problem)),
        scratch_bytes_(most_scratch(target, problem, schedule_)) {
    threads = static_cast<std::int32_t>(
        problem.by_entry() ? wanted_ : std::clamp<std::int64_t>(schedule_.items, 1, wanted_));
    // The caller finishes what a pool of the user's has left.
    pieces_ = threads + (device.run_tasks != nullptr && threads > 1 ? 1 : 0);
    work_items = schedule_.items;
    splits = static_cast<std::int32_t>(schedule_.splits);
    has_own_memory = true;
    workspace_bytes = static_cast<std::int64_t>(carve(nullptr, needs_).bytes);
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
    if (problem_.by_entry()) text += "; this for an average entry: each is worked out as it would be alone";
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
    if (core::Status s = core::validate_contents(problem); !s.ok()) return s;
    if (problem.by_entry()) return submit_entries(problem, device);
    if (schedule_.items == 0) return {};
    Block block;
    Workspace memory = carve(nullptr, needs_);
    if (core::Status s = provide(device, needs_, &block, &memory); !s.ok()) return s;
    Call call{&problem, schedule_, memory.partials, memory.unfinished};
    for (std::int64_t i = 0; i < needs_.counters; ++i) new (memory.unfinished + i) Counter(splits);
    AttendTask task(target_, call, nullptr, scratch_bytes_, memory.scratch, pieces_);
    run_parallel(task, schedule_.items, wanted_, {device.run_tasks, device.run_context});
    return {};
  }

 private:
  // Of the workspace that was given the plan takes what any lengths may need; of our own memory, what these
  // do.
  core::Status submit_entries(const core::Problem& problem, const tessera_device& device) const {
    const Batch measured = make_batch(problem, target_.blocking, wanted_, nullptr);
    const SharedNeeds needs = device.workspace == nullptr ? measured.needs : needs_;
    Block block;
    Workspace memory = carve(nullptr, needs);
    if (core::Status s = provide(device, needs, &block, &memory); !s.ok()) return s;
    const Batch batch = make_batch(problem, target_.blocking, wanted_, memory.entries);
    Call call{&problem, schedule_, memory.partials, memory.unfinished};
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      const EntryCall& entry = batch.entries[b];
      const std::int64_t end =
          b + 1 < problem.batch ? batch.entries[b + 1].first_counter : batch.needs.counters;
      for (std::int64_t i = entry.first_counter; i < end; ++i)
        new (memory.unfinished + i) Counter(static_cast<std::int32_t>(entry.schedule.splits));
    }
    clear_unowned_rows(problem);
    if (batch.items == 0) return {};
    AttendTask task(target_, call, &batch, scratch_bytes_, memory.scratch, pieces_);
    run_parallel(task, batch.items, worth_help(batch.work, device) ? wanted_ : 1,
                 {device.run_tasks, device.run_context});
    return {};
  }

  // Memory from the workspace or, where none was given, from a block of our own and the threads' scratch.
  core::Status provide(const tessera_device& device, SharedNeeds needs, Block* block,
                       Workspace* memory) const {
    if (device.workspace != nullptr) {
      *memory = carve(static_cast<std::byte*>(device.workspace), needs);
      return {};
    }
    if (thread_scratch(scratch_bytes_) == nullptr) return out_of_memory(scratch_bytes_);
    const std::size_t bytes = memory->shared_bytes;
    if (bytes > 0) {
      *block = allocate_block(bytes);
      if (!*block) return out_of_memory(bytes);
      *memory = carve(block->get(), needs);
    }
    memory->scratch = nullptr;
    return {};
  }

  Workspace carve(std::byte* base, SharedNeeds needs) const {
    return {base, problem_.by_entry() ? problem_.batch : 0, needs, scratch_bytes_, pieces_};
  }

  const Target& target_;
  core::Problem problem_;
  int wanted_;
  Schedule schedule_;  // of an average entry, where they differ
  SharedNeeds needs_;  // at most, where entries differ
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
  core::Status prepare_append(const core::Problem& problem, const core::Device& device,
                              std::shared_ptr<const core::Prepared> attend,
                              std::shared_ptr<const core::Prepared>* out) const override {
    *out = make_append(problem, device.request, std::move(attend));
    return {};
  }
  core::Status check_memory(const core::Addresses& at, const tessera_device& device) const override {
    return check_on_host(at, device);
  }
  core::Status quantise(const codes::Problem& problem, const tessera_device& device) const override {
    return codes::quantise_on_cpu(problem, device);
  }
};

}  // namespace

core::Kernel kernel_of(const Target& target) {
  core::Kernel row;
  row.name = target.name;
  row.device = TESSERA_CPU;
  row.summary = target.summary;
  row.invariant = true;
  row.missing = [&target](const core::Device&) { return target.missing(); };
  row.supports = [](const core::Problem&) { return core::Status{}; };
  row.mixed = true;
  row.tail = true;
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
