// See values.hpp.
#include "cli/values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tessera/tessera.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <system_error>

namespace tessera::cli {
namespace {

template <class T>
bool parse(const std::string& text, T* out) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && stop == end;
}

// The text becomes the number as we read it, so that CLI11 cannot read another one.
template <class T>
CLI::Option* limit(CLI::Option* option, T least, T most, const std::string& accepted) {
  CLI::Validator validator("");
  validator.operation([=](std::string& text) -> std::string {
    T value{};
    const bool good = parse(text, &value) && value >= least && value <= most;  // false for nan
    if (!good) return fmt::format("'{}' is not {}", text, accepted);
    text = fmt::format("{}", value);
    return "";
  });
  return option->transform(validator);
}

}  // namespace

CLI::Option* whole_number(CLI::Option* option, std::uint64_t least, std::uint64_t most) {
  return limit(option, least, most, fmt::format("a whole number from {} to {}", least, most))->type_name("N");
}

CLI::Option* real_number(CLI::Option* option, double least, double most) {
  return limit(option, least, most, fmt::format("a number from {:g} to {:g}", least, most));
}

CLI::Option* thread_count(CLI::Option* option) { return whole_number(option, 0, TESSERA_MAX_THREADS); }

CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words) {
  const auto check = [=](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
    return fmt::format("'{}' is unknown; accepted: {}", text, fmt::join(words, ", "));
  };
  return option->check(check)->type_name(fmt::format("{{{}}}", fmt::join(words, ",")));
}

CLI::Option* file_name(CLI::Option* option) {
  const auto check = [](const std::string& text) {
    return std::string(text.empty() ? "'' is no file name" : "");
  };
  return option->check(check)->type_name("FILE");
}

}  // namespace tessera::cli
