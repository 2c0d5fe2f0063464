// An executor that knows no PTX: an entry point is a function of the test's, by name. What the runtime does
// before and after a launch is tested with it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "emulator/exec/launch.hpp"

namespace emulator::testing {

struct StandInEntry {
  EntryInfo info;
  std::function<std::vector<Report>(const Launch&)> run;
};

// By name; what a module has to have in its text for the entry to be in it. Belongs to the test.
std::map<std::string, StandInEntry>& entries();

// What the executor in use was asked for: files that were loaded, entries in the order they ran.
struct Asked {
  DeviceDescription device;
  Settings settings;
  std::vector<std::string> loaded, ran;
};
Asked& asked();

// Memory as the executor in use has it.
bool written(const void* at, std::size_t bytes);

}  // namespace emulator::testing
