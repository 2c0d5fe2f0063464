// The program `tessera`: finds the verb, runs it, turns whatever it throws into a sentence and an exit code.
#include <fmt/format.h>
#include <tessera/tessera.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

#include "cli/common.hpp"

namespace tessera::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  tessera demo                                  a short story on this machine
  tessera verify --quick                        is every kernel correct here?
  tessera bench mission512 --threads 1          how fast is one shape?
  tessera profile mission512 --kernel all       what do the GPU kernels do, counter by counter?
  tessera roofline --gpu L4 canon_1 --target 30 can it be that fast at all?
  tessera kernels --why decode_32k_b4           which kernel runs it, and why?
  tessera attend --query q.npy --key k.npy --value v.npy --output o.npy --check

Every verb has --help with more examples, and --json for programs.
Exit codes: 0 all well; 1 the answer is no; 2 the command or its input is wrong; 3 not on this machine.)";

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

// CLI11 would call a mistyped verb an unexpected argument.
bool unknown_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return false;
  const auto names = verb_names(app);
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return false;
  const std::string near = nearest(argv[1], names);
  fmt::print(stderr, "tessera: there is no verb '{}'{}; verbs:", argv[1],
             near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
  for (const std::string& name : names) fmt::print(stderr, " {}", name);
  fmt::print(stderr, "\nTry `tessera --help`.\n");
  return true;
}

int run_verb(int argc, char** argv) {
  int exit_code = kExitOk;
  CLI::App app("Tessera computes exact attention, softmax(scale * Q K^T + mask) V, and proves it.",
               "tessera");
  app.set_version_flag("--version", fmt::format("tessera {} ({})", tessera_version(), commit()));
  app.set_help_flag("-h,--help", "This text");
  app.require_subcommand(1);
  app.footer(kExamples);
  add_demo(app, &exit_code);
  add_attend(app, &exit_code);
  add_verify(app, &exit_code);
  add_bench(app, &exit_code);
  add_profile(app, &exit_code);
  add_roofline(app, &exit_code);
  add_kernels(app, &exit_code);

  if (unknown_verb(app, argc, argv)) return kExitUsage;
  if (argc < 2) {
    fmt::print(stderr, "{}", app.help());
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;  // prints help, version or what is wrong
  }
  return exit_code;
}

}  // namespace

int program(int argc, char** argv) {
  try {
    remember_command_line(argc, argv);
    return run_verb(argc, argv);
  } catch (const Stop& stop) {
    fmt::print(stderr, "tessera: {}\n", stop.what());
    return stop.exit_code();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "tessera: not enough memory\n");
    return kExitUnavailable;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera: {}\n", error.what());
    return kExitFailed;
  }
}

}  // namespace tessera::cli
