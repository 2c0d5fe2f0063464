// The resource gate: what the compiler reported for every kernel and arch, held to the kernel table.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/kernel.hpp"

namespace tessera::cuda_tests {

// The archs that are compiled to machine code, unless a build asks for fewer; PTX for newer GPUs is compiled
// by the driver.
inline const std::vector<std::string> kArchs = {"sm_80", "sm_89", "sm_90a"};

struct Function {
  std::string name, arch;
  int registers = 0, shared_static_bytes = 0, stack_bytes = 0, spill_bytes = 0;
};

inline std::vector<Function> functions_in(const nlohmann::json& resources) {
  std::vector<Function> functions;
  for (const auto& file : resources.at("files"))
    for (const auto& kernel : file.at("kernels"))
      functions.push_back(
          {kernel.at("name"), kernel.at("arch"), kernel.at("registers"), kernel.at("shared_static_bytes"),
           kernel.at("stack_bytes"),
           kernel.at("spill_store_bytes").get<int>() + kernel.at("spill_load_bytes").get<int>()});
  return functions;
}

// The function's own name: what its arguments are of has names, too.
inline std::string own_name(const Function& f) { return f.name.substr(0, f.name.find_first_of("<(") + 1); }

inline void check_function(const Function& f, const core::Kernel& row, std::vector<std::string>* wrong) {
  const auto over = [&](const char* what, int value, int limit) {
    if (value > limit)
      wrong->push_back(
          fmt::format("{} ({}): {} {}, but {} may have {}", f.name, f.arch, value, what, row.name, limit));
  };
  over("registers", f.registers, row.budget.registers);
  over("bytes of static shared memory", f.shared_static_bytes, row.budget.shared_bytes);
  over("bytes of stack", f.stack_bytes, row.budget.spill_bytes);
  over("bytes spilled", f.spill_bytes, row.budget.spill_bytes);
}

// 89 of "sm_89", 90 of "sm_90a".
inline int number_of(const std::string& arch) { return std::stoi(arch.substr(3)); }

inline bool is_for(const core::Kernel& row, const std::string& arch) {
  return (row.only_arch.empty() || row.only_arch == arch) && number_of(arch) >= row.least_arch;
}

// Of kArchs, those that nothing was compiled for: the build was not asked to, and they cannot be judged.
inline std::vector<std::string> archs_left_out(const std::vector<Function>& functions) {
  std::vector<std::string> archs;
  for (const std::string& arch : kArchs)
    if (std::none_of(functions.begin(), functions.end(), [&](const Function& f) { return f.arch == arch; }))
      archs.push_back(arch);
  return archs;
}

// Sentences, one for each thing that is wrong. Rows may share a symbol (the same function, launched another
// way).
inline std::vector<std::string> check_resources(const std::vector<Function>& functions,
                                                const std::vector<core::Kernel>& rows) {
  std::vector<std::string> wrong;
  std::set<std::string> archs;
  std::set<std::pair<std::string, std::string>> compiled;  // symbol, arch
  for (const Function& f : functions) {
    archs.insert(f.arch);
    std::set<std::string> symbols;
    for (const core::Kernel& row : rows) {
      if (row.device != TESSERA_CUDA || row.symbol.empty() ||
          own_name(f).find(row.symbol) == std::string::npos)
        continue;
      symbols.emplace(row.symbol);
      compiled.emplace(row.symbol, f.arch);
      check_function(f, row, &wrong);
      if (!row.only_arch.empty() && f.arch != row.only_arch)
        wrong.push_back(fmt::format("{} is compiled for {}, but {} is for {} alone", f.name, f.arch, row.name,
                                    row.only_arch));
      if (number_of(f.arch) < row.least_arch)
        wrong.push_back(fmt::format("{} is compiled for {}, but {} is for sm_{} and newer", f.name, f.arch,
                                    row.name, row.least_arch));
    }
    if (symbols.size() != 1)
      wrong.push_back(fmt::format("{} ({}) belongs to {} symbols of the kernel table, not to one", f.name,
                                  f.arch, symbols.size()));
  }
  for (const core::Kernel& row : rows) {
    if (row.device != TESSERA_CUDA) continue;
    if (row.symbol.empty() || row.budget.registers == 0 || row.budget.shared_bytes < 0)
      wrong.push_back(fmt::format("{} has no symbol or no budget", row.name));
    for (const std::string& arch : archs)
      if (!row.symbol.empty() && is_for(row, arch) && compiled.count({std::string(row.symbol), arch}) == 0)
        wrong.push_back(fmt::format("{} is not compiled for {}", row.name, arch));
  }
  return wrong;
}

}  // namespace tessera::cuda_tests
