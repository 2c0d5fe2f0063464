#include "emulator/runtime/machine.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <mutex>
#include <utility>

#include "emulator/runtime/complain.hpp"

namespace emulator::runtime {
namespace {

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

// The code that a GPU would give for it.
cudaError_t code_for(const Report& report) {
  if (begins(report.what, "out of bounds")) return cudaErrorIllegalAddress;
  if (begins(report.what, "misaligned")) return cudaErrorMisalignedAddress;
  if (begins(report.what, "deadlock")) return cudaErrorLaunchTimeout;
  return cudaErrorLaunchFailure;
}

std::vector<std::byte> packed(const EntryInfo& info, void** arguments) {
  std::vector<std::byte> out(info.param_bytes);
  for (std::size_t n = 0; n < info.params.size(); ++n)
    std::memcpy(out.data() + info.params[n].offset, arguments[n], info.params[n].bytes);
  return out;
}

}  // namespace

Machine::Machine(Environment given)
    : environment(std::move(given)),
      executor(make_executor(environment.gpu.description, environment.settings)),
      memory(executor->memory(), environment.gpu.description.global_bytes),
      kernels(*executor, environment.gpu.description.arch, environment.gpu.description.shared_bytes_per_block,
              environment.ptx_index),
      streams(environment.settings.seed) {}

cudaError_t Machine::check_launch(const Kernel& kernel, const LaunchRequest& r) const {
  constexpr unsigned kMostBlocksX = 2147483647, kMostBlocksYZ = 65535, kMostThreads = 1024,
                     kMostThreadsZ = 64;
  const std::uint64_t threads = std::uint64_t{r.block.x} * r.block.y * r.block.z;
  if (threads == 0 || threads > kMostThreads || r.block.z > kMostThreadsZ)
    return cudaErrorInvalidConfiguration;
  if (r.grid.x == 0 || r.grid.y == 0 || r.grid.z == 0 || r.grid.x > kMostBlocksX ||
      r.grid.y > kMostBlocksYZ || r.grid.z > kMostBlocksYZ)
    return cudaErrorInvalidConfiguration;
  if (threads > static_cast<std::uint64_t>(kernel.info.max_threads)) return cudaErrorInvalidValue;
  // More than 48 KB has to be asked for: cudaFuncSetAttribute.
  if (r.dynamic_shared_bytes > kernel.dynamic_shared_limit) return cudaErrorInvalidValue;
  return cudaSuccess;
}

cudaError_t Machine::launch(const void* function, const LaunchRequest& request, void** arguments) {
  Stream* const stream = streams.find(request.stream);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  Kernel* kernel = nullptr;
  if (const cudaError_t error = kernels.find(function, &kernel); error != cudaSuccess) return error;
  if (const cudaError_t error = check_launch(*kernel, request); error != cudaSuccess) return error;
  auto launch = std::make_shared<Launch>();
  launch->entry = kernel->entry;  // kernels stay where they are
  launch->grid = {request.grid.x, request.grid.y, request.grid.z};
  launch->block = {request.block.x, request.block.y, request.block.z};
  launch->dynamic_shared_bytes = request.dynamic_shared_bytes;
  launch->params = packed(kernel->info, arguments);
  launch->overlaps_previous = request.overlaps_previous;
  std::string line;
  if (const Module* const module = kernel->indexed.module; module != nullptr)
    line = "compute_" + std::to_string(module->arch) + (module->this_arch ? "a " : " ") + kernel->entry;
  Operation operation;
  operation.run = [this, launch, line] { execute(*launch, nullptr, line); };
  operation.lets_next_start = kernel->info.lets_dependents_start;
  if (launch->overlaps_previous) {
    operation.start = [this, launch] { return start(*launch); };
    operation.run_started = [this, launch, line](Started& started) { execute(*launch, &started, line); };
  }
  streams.add(stream, std::move(operation));
  return cudaSuccess;
}

std::shared_ptr<Started> Machine::start(const Launch& launch) {
  if (failed_ != cudaSuccess) return nullptr;
  try {
    return executor->start(launch);
  } catch (const std::exception&) {
    return nullptr;  // as execute() will say
  }
}

void Machine::execute(const Launch& launch, Started* started, const std::string& coverage_line) {
  if (failed_ != cudaSuccess) return;
  std::vector<Report> reports;
  try {
    reports = started != nullptr ? executor->finish(*started) : executor->run(launch);
  } catch (const std::exception& problem) {
    complain("the kernel " + std::string(launch.entry) + " cannot be emulated: " + problem.what());
    failed_ = cudaErrorLaunchFailure;
    return;
  }
  cover(coverage_line);
  if (reports.empty()) return;
  constexpr std::size_t kMostReports = 8;
  for (std::size_t n = 0; n < reports.size() && n < kMostReports; ++n) complain(reports[n].text());
  if (reports.size() > kMostReports)
    complain("and " + std::to_string(reports.size() - kMostReports) + " more reports of this launch");
  failed_ = code_for(reports.front());
}

void Machine::cover(const std::string& line) {
  if (environment.coverage.empty() || line.empty() || !covered_.insert(line).second) return;
  const std::string text = line + "\n";
  const int file = open(environment.coverage.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  // In one piece, so that programs side by side can write to the same file.
  if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    complain("cannot write to " + environment.coverage + ", which TESSERA_EMU_COVERAGE names");
  if (file >= 0) close(file);
}

bool Machine::can_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) const {
  const bool to_gpu = memory.contains(to, bytes), from_gpu = memory.contains(from, bytes);
  return kind == cudaMemcpyHostToDevice     ? to_gpu && !from_gpu
         : kind == cudaMemcpyDeviceToHost   ? !to_gpu && from_gpu
         : kind == cudaMemcpyDeviceToDevice ? to_gpu && from_gpu
         : kind == cudaMemcpyHostToHost     ? !to_gpu && !from_gpu
                                            : kind == cudaMemcpyDefault;
}

cudaError_t Machine::copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  if (!can_copy(to, from, bytes, kind)) return cudaErrorInvalidValue;
  if (memory.contains(to, bytes)) {
    memory.write(to, from, bytes);
  } else {
    std::memmove(to, from, bytes);
  }
  return cudaSuccess;
}

}  // namespace emulator::runtime
