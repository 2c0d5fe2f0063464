// One file per verb; program.cpp adds them all. A verb registers its flags on the app and, when chosen,
// leaves its exit code in *exit_code.
#pragma once

namespace CLI {
class App;
}

namespace tessera::cli {

// What each means is in one table, at the end of `tessera --help` (program.cpp).
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnavailable = 3;
inline constexpr int kExitNoAnswer = 4;

void add_verify(CLI::App& app, int* exit_code);
void add_bench(CLI::App& app, int* exit_code);
void add_profile(CLI::App& app, int* exit_code);
void add_roofline(CLI::App& app, int* exit_code);
void add_kernels(CLI::App& app, int* exit_code);
void add_attend(CLI::App& app, int* exit_code);
void add_quantise(CLI::App& app, int* exit_code);
void add_demo(CLI::App& app, int* exit_code);

// All of `tessera` but its main.
int program(int argc, char** argv);

}  // namespace tessera::cli
