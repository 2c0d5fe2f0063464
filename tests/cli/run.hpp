// Runs the built program and looks at what it did.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::cli_tests {

struct Outcome {
  int code = -1;
  std::string out, err;

  [[nodiscard]] bool says(const std::string& text) const { return out.find(text) != std::string::npos; }
  [[nodiscard]] bool complains(const std::string& text) const { return err.find(text) != std::string::npos; }
  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, false); }
};

// `arguments` is a piece of shell: "verify --case 'b1 h1 q4 k4'". `environment`: "NO_COLOR=1 ".
Outcome run(const std::string& arguments, const std::string& environment = "");
Outcome run_faulty(const std::string& arguments);
Outcome run_shell(const std::string& command);

// The same with stdout and stderr on a terminal of its own. Where there is none to be had the code is
// kNoTerminal.
constexpr int kNoTerminal = -1;
Outcome run_on_terminal(const std::vector<std::string>& arguments, const char* no_color, int columns = 0);

bool has_escape_codes(const std::string& text);

// A path for a file that does not exist yet, gone after the test.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] nlohmann::json json() const;
  void write(const std::string& text) const;

 private:
  std::string path_;
};

}  // namespace tessera::cli_tests

// Shows everything the program said if the check fails.
#define EXPECT_CODE(outcome, expected) \
  EXPECT_EQ((outcome).code, expected) << "stdout:\n" << (outcome).out << "\nstderr:\n" << (outcome).err
