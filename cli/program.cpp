// The program `tessera`: finds the verb, runs it, turns whatever it throws into a sentence and an exit code.
#include <fcntl.h>
#include <fmt/format.h>
#include <tessera/tessera.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
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
  tessera quantise --input k.npy --output k8.safetensors:key --scales block64

Every verb has --help with more examples, and --json for programs.

Exit codes:
  0  all well
  1  the answer is no: a check failed, a regression, an impossible target
  2  the command or its input is wrong
  3  not on this machine: no such device or kernel here, not enough memory
  4  no answer: the result could not be written (disk full, pipe closed), or Tessera itself is at fault)";

constexpr const char* kStdoutFailed = "stdout could not be written";

// stderr may be full or closed too, and there is nobody left to tell.
void complain(const std::string& sentence) {
  (void)!std::fputs(fmt::format("tessera: {}\n", sentence).c_str(), stderr);
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

std::string did_you_mean(const std::string& typed, const std::vector<std::string>& known) {
  const std::string near = nearest(typed, known);
  return near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& each : option->get_lnames()) names.push_back("--" + each);
  return names;
}

// CLI11 would call a mistyped verb an unexpected argument.
bool unknown_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return false;
  const auto names = verb_names(app);
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return false;
  std::string verbs;
  for (const std::string& name : names) verbs += " " + name;
  complain(fmt::format("there is no verb '{}'{}; verbs:{}\nTry `tessera --help`.", argv[1],
                       did_you_mean(argv[1], names), verbs));
  return true;
}

// What CLI11 could not parse, in our words. A mistyped option comes first: CLI11 would rather say that the
// one which was meant is missing.
std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& at = chosen.empty() ? app : *chosen.front();
  const std::string name = chosen.empty() ? "tessera" : at.get_name();
  const std::vector<std::string> options = option_names(at);
  for (const std::string& extra : at.remaining()) {
    if (extra.size() < 2 || extra[0] != '-') continue;
    const std::string typed = extra.substr(0, extra.find('='));
    return fmt::format("{} has no option '{}'{}", name, typed, did_you_mean(typed, options));
  }
  const auto* too_many = dynamic_cast<const CLI::ExtrasError*>(&error);
  if (too_many != nullptr && !at.remaining().empty())
    return fmt::format("{} takes no argument '{}'", name, at.remaining().front());
  if (chosen.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return fmt::format("a verb is required; verbs: {}", CLI::detail::join(verb_names(app), " "));
  std::string text = error.what();
  const std::string option = text.substr(0, text.find(':'));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && option.size() < text.size())
    return text.ends_with("missing") ? option + " needs a value" : option + " is given more than once";
  return text;
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
  add_quantise(app, &exit_code);
  add_verify(app, &exit_code);
  add_bench(app, &exit_code);
  add_profile(app, &exit_code);
  add_roofline(app, &exit_code);
  add_kernels(app, &exit_code);

  if (unknown_verb(app, argc, argv)) return kExitUsage;
  if (argc < 2) {
    (void)!std::fputs(app.help().c_str(), stderr);
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wish) {
    return app.exit(wish);  // prints help or version
  } catch (const CLI::ParseError& error) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    complain(fmt::format("{}\nTry `tessera {}--help`.", what_is_wrong(app, error),
                         chosen.empty() ? "" : chosen.front()->get_name() + " "));
    return kExitUsage;
  } catch (const Refusal& refusal) {
    const std::string flags = flags_of_fields(refusal.what(), option_names(*app.get_subcommands().front()));
    throw Stop(refusal.exit_code(), refusal.what() + (flags.empty() ? "" : "\n" + flags));
  }
  return exit_code;
}

int run_and_explain(int argc, char** argv) {
  try {
    remember_command_line(argc, argv);
    return run_verb(argc, argv);
  } catch (const Stop& stop) {
    complain(stop.what());
    return stop.exit_code();
  } catch (const std::bad_alloc&) {
    complain("not enough memory");
    return kExitUnavailable;
  } catch (const std::exception& error) {
    complain(std::ferror(stdout) == 0 ? error.what() : fmt::format("{}: {}", kStdoutFailed, error.what()));
    return kExitNoAnswer;
  }
}

// If we are started without stdin, stdout or stderr, a file of ours would get the number, and what is printed
// would go into it. Held by /dev/null the wrong way round: using it fails, as it should.
void occupy_standard_files() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    const int opened = open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != descriptor) close(opened);
  }
}

}  // namespace

int program(int argc, char** argv) {
  occupy_standard_files();
  const int exit_code = run_and_explain(argc, argv);
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || exit_code == kExitNoAnswer) return exit_code;  // or it has been said already
  complain(errno == 0 ? kStdoutFailed : fmt::format("{}: {}", kStdoutFailed, std::strerror(errno)));
  return kExitNoAnswer;
}

}  // namespace tessera::cli
