// What every verb needs: a way to stop with an exit code, and who and where we are.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verbs.hpp"
#include "core/status.hpp"

namespace tessera::cli {

// Thrown by a verb; main prints the sentence on stderr and exits with the code.
class Stop : public std::runtime_error {
 public:
  Stop(int exit_code, const std::string& message) : std::runtime_error(message), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

[[noreturn]] void usage_error(const std::string& message);

// What the library refuses. Its sentence names fields of the C structs; the program says which flags those
// are.
class Refusal : public Stop {
 public:
  using Stop::Stop;
};
void stop_unless_ok(const core::Status& status);
void stop_unless_ok(tessera_status code);  // with the library's last error
// "Here key_lengths is --key-lengths.", of the fields in a sentence, where a verb with such options has other
// names for them; or "".
std::string flags_of_fields(std::string_view sentence, const std::vector<std::string>& options);

struct Machine {
  std::string cpu;  // "AMD EPYC"
  int cores = 1;    // logical cores this process may use
  double memory_bytes = 0;
};
const Machine& this_machine();
std::string compiler();             // "gcc 12.2.0"
std::string commit();               // of the sources this was built from; "unknown" outside a checkout
std::string utc_now();              // "2026-01-31T12:00:00Z"
const std::string& command_line();  // as typed, quoted for a shell
void remember_command_line(int argc, char** argv);

// Quoted for a POSIX shell where it has to be.
std::string shell_quote(std::string_view word);

// The known word nearest to a mistyped one, or "" if none is near.
std::string nearest(std::string_view typed, const std::vector<std::string>& known);

}  // namespace tessera::cli
