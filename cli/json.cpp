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
namespace {

std::string beside_name(const std::string& path) { return fmt::format("{}.{}.tmp", path, getpid()); }

std::ofstream open_beside(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  std::ofstream file(beside_name(path));
  if (!file) usage_error(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  return file;
}

}  // namespace

Json read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) usage_error(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) usage_error(fmt::format("{}: not a JSON file", path));
  return json;
}

void write_json(const std::string& path, const Json& json) {
  const std::string beside = beside_name(path);
  std::ofstream file = open_beside(path);
  file << json.dump(2) << '\n';
  file.close();
  if (!file) usage_error(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  std::error_code error;
  std::filesystem::rename(beside, path, error);
  if (error) {
    std::remove(beside.c_str());
    usage_error(fmt::format("{}: cannot be written: {}", path, error.message()));
  }
}

void check_writable(const std::string& path) {
  open_beside(path).close();
  std::remove(beside_name(path).c_str());
  if (std::filesystem::is_directory(path)) usage_error(fmt::format("{}: is a folder", path));
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
