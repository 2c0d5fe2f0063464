// JSON files and output; see json.hpp.
#include "cli/json.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/common.hpp"

namespace tessera::cli {

Json read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) usage_error(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) usage_error(fmt::format("{}: not a JSON file", path));
  return json;
}

void write_json(const std::string& path, const Json& json) {
  const std::filesystem::path target(path);
  std::error_code error;
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  const std::string beside = fmt::format("{}.{}.tmp", path, getpid());
  std::ofstream file(beside);
  file << json.dump(2) << '\n';
  file.close();
  if (!file) usage_error(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  std::filesystem::rename(beside, target, error);
  if (error) {
    std::remove(beside.c_str());
    usage_error(fmt::format("{}: cannot be written: {}", path, error.message()));
  }
}

void print_json(const Json& json) { fmt::print("{}\n", json.dump(2)); }

Json case_json(const cases::Case& c) {
  const cases::Work work = cases::work(c);
  return {{"name", c.name},
          {"group", c.group},
          {"words", cases::words(c)},
          {"flops", work.flops},
          {"bytes", work.bytes}};
}

}  // namespace tessera::cli
