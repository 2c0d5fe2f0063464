#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "emulator/exec/block.hpp"
#include "emulator/ptx/error.hpp"

namespace emulator {

std::string Report::text() const {
  std::string out = what + "\n  kernel " + kernel;
  if (!ptx_place.empty()) out += "\n  at " + ptx_place;
  if (!source.empty()) out += ", from " + source;
  out += "\n  block (" + std::to_string(block[0]) + ", " + std::to_string(block[1]) + ", " +
         std::to_string(block[2]) + ")";
  if (!threads.empty()) out += threads.size() == 1 ? ", thread " : ", threads ";
  for (std::size_t i = 0; i < threads.size();) {  // 0-31, 40
    std::size_t end = i;
    while (end + 1 < threads.size() && threads[end + 1] == threads[end] + 1) ++end;
    out += (i > 0 ? ", " : "") + std::to_string(threads[i]);
    if (end > i) out += "-" + std::to_string(threads[end]);
    i = end + 1;
  }
  if (address != 0) {
    char hex[32];
    std::snprintf(hex, sizeof hex, "\n  address 0x%llx", static_cast<unsigned long long>(address));
    out += hex;
  }
  return out;
}

namespace {

// The first blocks of a launch, one runner each.
struct StartedBlocks : Started {
  Grid grid;
  MemorySnapshot memory;
  std::vector<std::unique_ptr<BlockRunner>> runners;
  std::vector<Report> reports;
};

// Of sm_80 and sm_89 as published; of sm_90 as recorded.
TensorCore tensor_core_of(int arch) {
  if (arch >= 90) return {};
  return {8, 24, false, 23, arch >= 89 ? 16 : 0, false};
}

std::uint64_t blocks_of(const Launch& launch) {
  return std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
}

class PtxExecutor : public Executor {
 public:
  PtxExecutor(const DeviceDescription& device, const Settings& settings)
      : device_(device), settings_(settings) {
    if (settings_.threads <= 0)
      settings_.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }

  void load(std::string_view ptx, std::string_view file_name) override {
    modules_.push_back(parse_module(ptx, file_name));
    for (const Entry& entry : modules_.back()->entries) {
      Loaded& loaded = entries_[entry.name];
      loaded.module = modules_.back().get();
      loaded.entry = &entry;
      loaded.info.param_bytes = entry.param_bytes;
      for (std::size_t n = 0; n < entry.params.size(); ++n)
        loaded.info.params.push_back({entry.param_offsets[n], entry.params[n].bytes});
      loaded.info.max_threads = entry.max_threads;
      loaded.program.reset();
    }
  }

  // Shared memory is known when the body has been read.
  const EntryInfo* find(std::string_view name) const override {
    const auto it = entries_.find(name);
    if (it == entries_.end()) return nullptr;
    need_program(it->second);
    return &it->second.info;
  }

  GlobalMemory& memory() override { return memory_; }
  std::vector<Report> run(const Launch& launch) override;
  std::unique_ptr<Started> start(const Launch& launch) override;
  std::vector<Report> finish(Started& started) override;
  std::vector<std::string> executed() const override { return {executed_.begin(), executed_.end()}; }
  std::uint64_t operations() const override { return steps_; }

 private:
  struct Loaded {
    const Module* module = nullptr;
    const Entry* entry = nullptr;
    mutable EntryInfo info;
    mutable std::unique_ptr<Program> program;
  };
  const Program& need_program(const Loaded& loaded) const {
    if (loaded.program == nullptr) {
      loaded.program = decode(*loaded.module, *loaded.entry, tensor_core_of(device_.arch));
      loaded.info.static_shared_bytes = loaded.program->static_shared_end - kSharedBase;
      loaded.info.lets_dependents_start = loaded.program->lets_dependents_start;
    }
    return *loaded.program;
  }
  std::string refuse(const Launch& launch, const Loaded& loaded, const Program& program) const;
  Report prepare(const Launch& launch, Grid* grid);

  DeviceDescription device_;
  Settings settings_;
  HostMemory memory_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::map<std::string, Loaded, std::less<>> entries_;
  std::set<std::string> executed_;
  std::uint64_t launches_ = 0, steps_ = 0;
};

std::string PtxExecutor::refuse(const Launch& launch, const Loaded& loaded, const Program& program) const {
  const std::uint64_t threads = std::uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  if (threads == 0 || threads > static_cast<unsigned>(loaded.entry->max_threads))
    return "a block of " + std::to_string(threads) + " threads; the entry is made for 1 to " +
           std::to_string(loaded.entry->max_threads);
  if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0) return "a grid without blocks";
  if (launch.params.size() != program.param_bytes)
    return std::to_string(launch.params.size()) + " bytes of parameters; the entry has " +
           std::to_string(program.param_bytes);
  const std::size_t shared = program.static_shared_end - kSharedBase + launch.dynamic_shared_bytes;
  if (shared > device_.shared_bytes_per_block_optin)
    return std::to_string(shared) + " bytes of shared memory; a block of this device has " +
           std::to_string(device_.shared_bytes_per_block_optin);
  return {};
}

// Fills the grid; returns why the launch cannot be run, or a report without words.
Report PtxExecutor::prepare(const Launch& launch, Grid* grid) {
  Report refusal;
  refusal.kernel = std::string(launch.entry);
  const auto it = entries_.find(launch.entry);
  if (it == entries_.end()) {
    refusal.what = "no module that was loaded has this entry";
    return refusal;
  }
  try {
    need_program(it->second);
  } catch (const PtxError& error) {
    refusal.what = error.what();
    refusal.ptx_place = it->second.module->file + ":" + std::to_string(error.line);
    return refusal;
  }
  grid->program = it->second.program.get();
  grid->launch = &launch;
  grid->device = &device_;
  refusal.what = refuse(launch, it->second, *grid->program);
  return refusal;
}

std::vector<Report> PtxExecutor::run(const Launch& launch) {
  StartedBlocks all;
  const Report refusal = prepare(launch, &all.grid);
  if (!refusal.what.empty()) return {refusal};
  all.memory = memory_.snapshot();
  all.grid.memory = &all.memory;
  all.grid.seed = settings_.seed + 1000003 * ++launches_;
  return finish(all);
}

std::unique_ptr<Started> PtxExecutor::start(const Launch& launch) {
  constexpr std::uint64_t kBlocks = 4;
  auto all = std::make_unique<StartedBlocks>();
  if (!prepare(launch, &all->grid).what.empty()) return nullptr;
  all->memory = memory_.snapshot();
  all->grid.memory = &all->memory;
  all->grid.seed = settings_.seed + 1000003 * ++launches_;
  all->grid.early = true;
  for (std::uint64_t number = 0; number < std::min(kBlocks, blocks_of(launch)); ++number) {
    all->runners.push_back(std::make_unique<BlockRunner>(all->grid));
    all->reports = all->runners.back()->run(number);
    if (!all->reports.empty()) break;
  }
  return all;
}

std::vector<Report> PtxExecutor::finish(Started& started) {
  auto& all = static_cast<StartedBlocks&>(started);
  all.grid.early = false;
  const std::uint64_t blocks = blocks_of(*all.grid.launch);
  const std::clock_t begin = std::clock();
  std::atomic<std::uint64_t> next{0}, steps{0};
  std::atomic<bool> failed{!all.reports.empty()};
  std::mutex mutex;
  const auto work = [&] {
    BlockRunner runner(all.grid);
    while (!failed) {
      const std::uint64_t number = next++;
      if (number >= blocks) break;
      std::vector<Report> found =
          number < all.runners.size() ? all.runners[number]->resume() : runner.run(number);
      if (found.empty()) continue;
      failed = true;
      const std::lock_guard lock(mutex);
      all.reports.insert(all.reports.end(), found.begin(), found.end());
    }
    steps += runner.steps();
  };
  const auto helpers = std::min<std::uint64_t>(static_cast<unsigned>(settings_.threads), blocks) - 1;
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < helpers; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (const auto& runner : all.runners) steps += runner->steps();
  steps_ += steps;
  if (!settings_.speed.empty()) {
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    std::ofstream(settings_.speed, std::ios::app)
        << all.grid.program->name << ' ' << steps << ' ' << seconds << '\n';
  }
  executed_.insert(all.grid.program->name);
  return std::move(all.reports);
}

}  // namespace

std::unique_ptr<Executor> make_executor(const DeviceDescription& device, const Settings& settings) {
  return std::make_unique<PtxExecutor>(device, settings);
}

}  // namespace emulator
