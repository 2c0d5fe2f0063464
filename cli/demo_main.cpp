// The verb `demo` as a program of its own, for `make demo`: a fraction of what `tessera` takes to compile.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "cli/verbs.hpp"

int main(int argc, char** argv) {
  int exit_code = tessera::cli::kExitOk;
  CLI::App app("A short story on this machine: computed, proven, timed.");
  tessera::cli::add_demo(app, &exit_code);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? tessera::cli::kExitOk : tessera::cli::kExitUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera: {}\n", error.what());
    return tessera::cli::kExitFailed;
  }
  return exit_code;
}
