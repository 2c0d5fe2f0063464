// JSON for the verbs: files in and out, and what goes to stdout with --json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cases/case.hpp"

namespace tessera::cli {

// Keys keep their order, so that a file reads as it was written.
using Json = nlohmann::ordered_json;

Json read_json(const std::string& path);
// All of it or nothing appears under that name. Makes the folder.
void write_json(const std::string& path, const Json& json);
// Stops now if write_json() would stop later: a bad path should not cost a minute of timing.
void check_writable(const std::string& path);
void print_json(const Json& json);

Json case_json(const cases::Case& c);

}  // namespace tessera::cli
