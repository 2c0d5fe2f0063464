// JSON files and output; see json.hpp.
#include "cli/json.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/common.hpp"
#include "cli/files/file.hpp"

namespace tessera::cli {
namespace {

std::unique_ptr<files::AtomicFile> open_output(const std::string& path, std::string* error) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  return files::AtomicFile::create(path, error);
}

// File names and command lines may hold any bytes, JSON only UTF-8: what is none becomes U+FFFD.
std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

Json read_json(const std::string& path) {
  if (std::error_code failed; std::filesystem::is_directory(path, failed))
    usage_error(fmt::format("{}: cannot be read: it is a directory", path));
  std::ifstream file(path);
  if (!file) usage_error(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) usage_error(fmt::format("{}: not a JSON file", path));
  return json;
}

void write_json(const std::string& path, const Json& json) {
  std::string error;
  const std::unique_ptr<files::AtomicFile> file = open_output(path, &error);
  if (!file || !file->write(text_of(json), &error) || !file->commit(&error)) throw Stop(kExitNoAnswer, error);
}

void check_writable(const std::string& path) {
  std::string error;
  if (!open_output(path, &error)) usage_error(error);
}

void print_json(const Json& json) { fmt::print("{}", text_of(json)); }

Json case_json(const cases::Case& c) {
  const cases::Work work = cases::work(c);
  return {{"name", c.name},
          {"group", c.group},
          {"words", cases::words(c)},
          {"flops", work.flops},
          {"bytes", work.bytes}};
}

}  // namespace tessera::cli
