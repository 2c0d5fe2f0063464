// Flags that verify, bench, kernels and roofline share: which cases, which device, which kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cases/instance.hpp"
#include "cli/verbs.hpp"
#include "core/kernel.hpp"

namespace tessera::cli {

struct CaseFlags {
  std::vector<std::string> texts;  // names or words
  std::vector<std::string> groups;
  std::string dtype;
  std::string causal;

  void add_to(CLI::App& verb);
  [[nodiscard]] bool chosen() const { return !texts.empty() || !groups.empty(); }
  // The cases asked for; `fallback` if none were named. --dtype and --causal apply to all of them.
  [[nodiscard]] std::vector<cases::Case> resolve(const std::vector<cases::Case>& fallback) const;
};

struct DeviceFlags {
  std::string device = "cpu";
  std::vector<std::string> kernels;
  int threads = 0;
  int gpu = 0;

  void add_to(CLI::App& verb, const std::string& kernel_help = "");  // "": no choice of kernels
  // Stops with kExitUnavailable if this build or machine has no such device.
  [[nodiscard]] tessera_device resolve() const;
};

// --seed, for verbs that draw inputs.
void add_seed(CLI::App& verb, std::uint64_t* seed);

// One kernel of the table and whether it runs here.
struct Candidate {
  const core::Kernel* kernel = nullptr;
  std::string name;
  std::string missing;  // empty if it runs here
};

// The named kernels of the device, or all of them. A name that is unknown, or that cannot run here,
// stops the program.
std::vector<Candidate> candidates(const tessera_device& device, const std::vector<std::string>& names);

// The case as the core sees it; stops with kExitUsage if it does not validate.
core::Problem validated(const cases::Case& c);
// The same of a case with memory: alignment, mask and length types are the real ones.
core::Problem validated(const cases::Instance& instance);

}  // namespace tessera::cli
