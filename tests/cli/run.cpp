// Running programs; see run.hpp.
#include "run.hpp"

#include <fmt/format.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tessera::cli_tests {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int exit_code(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace

ScratchFile::ScratchFile(const std::string& name)
    : path_(
          fmt::format("{}/tessera_{}_{}", std::filesystem::temp_directory_path().string(), getpid(), name)) {
  std::filesystem::remove(path_);
}
ScratchFile::~ScratchFile() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}
nlohmann::json ScratchFile::json() const { return nlohmann::json::parse(read_file(path_), nullptr, false); }
void ScratchFile::write(const std::string& text) const { std::ofstream(path_) << text; }

Outcome run_shell(const std::string& command) {
  const ScratchFile out("stdout"), err("stderr");
  const std::string line = fmt::format("{} > '{}' 2> '{}' < /dev/null", command, out.path(), err.path());
  const int status = std::system(line.c_str());
  return {exit_code(status), read_file(out.path()), read_file(err.path())};
}

Outcome run(const std::string& arguments, const std::string& environment) {
  return run_shell(fmt::format("{} '{}' {}", environment, TESSERA_BINARY, arguments));
}

Outcome run_faulty(const std::string& arguments) {
  return run_shell(fmt::format("'{}' {}", TESSERA_FAULTY, arguments));
}

Outcome run_on_terminal(const std::vector<std::string>& arguments, const char* no_color, int columns) {
  int terminal = -1;
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  Outcome outcome;
  if (child < 0) {
    outcome.code = kNoTerminal;
    outcome.err = fmt::format("this machine gives no pseudo-terminal ({})", std::strerror(errno));
    return outcome;
  }
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    unsetenv("COLUMNS");
    if (no_color != nullptr)
      setenv("NO_COLOR", no_color, 1);
    else
      unsetenv("NO_COLOR");
    std::vector<char*> argv = {const_cast<char*>(TESSERA_BINARY)};
    for (const std::string& each : arguments) argv.push_back(const_cast<char*>(each.c_str()));
    argv.push_back(nullptr);
    execv(TESSERA_BINARY, argv.data());
    _exit(127);
  }
  char buffer[4096];
  for (ssize_t got = 0; (got = read(terminal, buffer, sizeof buffer)) > 0;)
    outcome.out.append(buffer, static_cast<std::size_t>(got));
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  outcome.code = exit_code(status);
  return outcome;
}

bool has_escape_codes(const std::string& text) { return text.find('\033') != std::string::npos; }

}  // namespace tessera::cli_tests
