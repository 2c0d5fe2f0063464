// The one machine of the process, the lock around it, and what each thread remembers.
#include <mutex>

#include "emulator/runtime/complain.hpp"
#include "emulator/runtime/machine.hpp"

namespace emulator::runtime {
namespace {

struct Process {
  std::mutex mutex;
  bool tried = false;
  Environment environment;
  std::string why_none;  // empty: there is a GPU
  std::unique_ptr<Machine> machine;
};

// Never destroyed: programs call CUDA while they end.
Process& process() {
  static Process* const one = new Process;
  return *one;
}

thread_local cudaError_t last = cudaSuccess;
thread_local bool has_context = false;

// With the lock held.
const Gpu* described() {
  Process& p = process();
  if (!p.tried) {
    p.tried = true;
    p.why_none.clear();
    p.environment = {};
    if (!read_environment(&p.environment, &p.why_none)) complain(p.why_none);
  }
  return p.why_none.empty() ? &p.environment.gpu : nullptr;
}

cudaError_t call_machine(const std::function<cudaError_t(Machine&)>& call, bool outside) {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  if (described() == nullptr) return remember(cudaErrorNoDevice);
  has_context = true;
  if (p.machine == nullptr) p.machine = std::make_unique<Machine>(p.environment);
  Machine& machine = *p.machine;
  if (machine.failed() != cudaSuccess) return remember(machine.failed());
  if (outside && machine.streams.break_captures()) return remember(cudaErrorStreamCaptureUnsupported);
  const cudaError_t error = call(machine);
  return remember(machine.failed() != cudaSuccess ? machine.failed() : error);
}

}  // namespace

cudaError_t on_machine(const std::function<cudaError_t(Machine&)>& call) { return call_machine(call, false); }
cudaError_t outside_captures(const std::function<cudaError_t(Machine&)>& call) {
  return call_machine(call, true);
}

cudaError_t on_description(const std::function<cudaError_t(const Gpu&)>& call) {
  const std::lock_guard lock(process().mutex);
  const Gpu* const gpu = described();
  return remember(gpu == nullptr ? cudaErrorNoDevice : call(*gpu));
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last = error;
  return error;
}

cudaError_t not_emulated(const std::string& what) {
  complain(what + " is not emulated");
  return remember(cudaErrorNotSupported);
}

cudaError_t last_error(bool take) {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  if (p.machine != nullptr && p.machine->failed() != cudaSuccess) return p.machine->failed();
  const cudaError_t error = last;
  if (take) last = cudaSuccess;
  return error;
}

bool thread_has_context() { return has_context; }

void reset_machine() {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  p.machine.reset();
  p.tried = false;
  last = cudaSuccess;
}

}  // namespace emulator::runtime
