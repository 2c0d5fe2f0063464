// What a hostile user does, or an unlucky one: full disks, closed pipes, numbers that are none, narrow
// terminals. Every time a sentence and the right exit code, and nothing left behind.
#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <sstream>

#include "cli/term.hpp"
#include "run.hpp"

namespace tessera::cli_tests {
namespace {

// What a redirection inside the command does is not undone by the one that catches the output.
Outcome run_redirected(const std::string& line) {
  return run_shell(fmt::format("( '{}' {} )", TESSERA_BINARY, line));
}

const std::string kTiny = "'b1 h2 q8 k8 d16 f32' ";

TEST(Hostile, AFullStdoutIsNotSuccess) {
  for (const char* line :
       {"kernels", "kernels --json", "kernels --cases", "kernels --why mission512", "roofline --list",
        "roofline --gpu L4 canon_1", "verify 'b1 h1 q4 k4 d16 f32' --kernel cpu_scalar --input normal",
        "bench 'b1 h1 q4 k4 d16 f32' --min-time 0.01", "demo --quick --json", "--help", "--version",
        "bench --help"}) {
    const Outcome full = run_redirected(std::string(line) + " > /dev/full");
    EXPECT_CODE(full, 4) << line;
    EXPECT_TRUE(full.complains("tessera: stdout could not be written")) << full.err;
  }
  EXPECT_TRUE(run_redirected("kernels > /dev/full").complains("No space left on device"));
}

TEST(Hostile, AClosedStdoutIsNotSuccess) {
  for (const char* line : {"kernels", "kernels --cases"}) {
    const Outcome closed = run_redirected(std::string(line) + " >&-");
    EXPECT_CODE(closed, 4) << line;
    EXPECT_TRUE(closed.complains("tessera: stdout could not be written: ")) << closed.err;
  }
  // Where a broken pipe does not end a program, as under Python, it is a failed write.
  const Outcome pipe = run_shell(
      fmt::format("( ( trap '' PIPE; sleep 0.2; '{}' kernels; echo code $? >&2 ) | true )", TESSERA_BINARY));
  EXPECT_TRUE(pipe.complains("Broken pipe")) << pipe.err;
  EXPECT_TRUE(pipe.complains("code 4")) << pipe.err;
  const Outcome head = run("kernels --cases | head -1");
  EXPECT_CODE(head, 0);
  EXPECT_TRUE(head.err.empty()) << head.err;
}

TEST(Hostile, NobodyIsLeftToTellWhereStderrIsFull) {
  for (const char* line : {"nonsense 2> /dev/full", "nonsense 2>&-", "verify --nonsense 2> /dev/full"})
    EXPECT_EQ(run_redirected(line).code, 2) << line;
}

// A file size limit of nothing stands for a full disk.
TEST(Hostile, AFullDiskIsNoAnswerAndLeavesNothing) {
  const ScratchFile folder("folder");
  std::filesystem::create_directory(folder.path());
  for (const char* option : {"--save", "--leaderboard"}) {
    const Outcome full = run_shell(fmt::format(
        "( (ulimit -f 0; '{}' bench {} --min-time 0.01 {} '{}/x.json' 2>&1; echo code $?) | cat )",
        TESSERA_BINARY, kTiny, option, folder.path()));
    EXPECT_TRUE(full.says("code 4")) << full.out;
    EXPECT_TRUE(full.says("x.json: File too large")) << full.out;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << option;
  }
}

TEST(Hostile, OutputsThatAreNoFilesAreLeftAlone) {
  const std::string bench = "bench " + kTiny + "--min-time 0.01 ";
  const ScratchFile pipe("pipe");  // as root, a device would be replaced just so: not to be tried with one
  ASSERT_EQ(mkfifo(pipe.path().c_str(), 0600), 0);
  const Outcome refused = run(bench + "--save " + pipe.path());
  EXPECT_CODE(refused, 2);
  EXPECT_TRUE(refused.complains("it is a pipe; a regular file is needed")) << refused.err;
  EXPECT_TRUE(refused.out.empty()) << "nothing was timed";
  EXPECT_TRUE(std::filesystem::is_fifo(pipe.path()));
  for (const char* option : {"--save", "--leaderboard", "--against"}) {
    const Outcome folder = run(bench + option + " /tmp");
    EXPECT_CODE(folder, 2) << option;
    EXPECT_TRUE(folder.complains("it is a directory")) << folder.err;
    EXPECT_TRUE(run(bench + option + " ''").complains("'' is no file name")) << option;
  }
  const ScratchFile both("both.json");
  EXPECT_CODE(run(bench + "--save " + both.path() + " --leaderboard " + both.path()), 2);
}

TEST(Hostile, FilesOfTheWrongKindAreNamed) {
  const ScratchFile file("odd.json");
  const std::string bench = "bench " + kTiny + "--min-time 0.01 --threads 1 ";
  file.write(R"({"results": [], "machine": {"cpu": 5}})");
  EXPECT_CODE(run(bench + "--against " + file.path()), 0);
  for (const char* entry :
       {R"({"a": 1})", "[7]", R"([{"kernel": 1, "p50_us": 2}])", R"([{"kernel": "a"}])"}) {
    file.write(fmt::format(R"({{"cases": {{"some case": {}}}}})", entry));
    const Outcome odd = run(bench + "--leaderboard " + file.path());
    EXPECT_CODE(odd, 2) << entry;
    EXPECT_TRUE(odd.complains("'some case' is not a list of entries")) << odd.err;
  }
}

TEST(Hostile, NumbersThatAreNoneAreRefusedByName) {
  const struct {
    const char* command;
    const char* option;
    std::vector<const char*> values;
    const char* accepted;
  } refusals[] = {
      {"bench", "--min-time", {"nan", "inf", "-1", "0", "1e999", "1s"}, "a number from 0.001 to 3600"},
      {"bench", "--tolerance", {"nan", "inf", "-1", "1e999", "5%"}, "a number from 0 to 1e+09"},
      {"bench",
       "--seed",
       {"-1", "100000000000000000000000", "1e23", "0x10", "1.0", " 1"},
       "a whole number from 0"},
      {"verify",
       "--seed",
       {"-1", "18446744073709551616", "nan"},
       "a whole number from 0 to 18446744073709551615"},
      {"roofline --gpu L4 canon_1",
       "--target",
       {"nan", "-3", "0", "inf", "1e-400"},
       "a number from 1e-06 to 1e+12"},
      {"verify", "--gpu", {"-1", "1024", "99999999999999999999", "1x"}, "a whole number from 0 to 1023"},
      {"kernels", "--gpu", {"-1", "1024"}, "a whole number from 0 to 1023"},
  };
  for (const auto& each : refusals)
    for (const char* value : each.values) {
      const std::string line = fmt::format("{} {}='{}'", each.command, each.option, value);
      const Outcome bad = run(line);
      EXPECT_CODE(bad, 2) << line;
      EXPECT_TRUE(
          bad.complains(fmt::format("tessera: {}: '{}' is not {}", each.option, value, each.accepted)))
          << line << "\n"
          << bad.err;
    }
}

TEST(Hostile, NumbersAreReadAsTheyAreWritten) {
  const std::string line = "verify " + kTiny + "--kernel cpu_scalar --input normal --json --seed ";
  EXPECT_EQ(run(line + "010").json()["seed"], 10);
  EXPECT_EQ(run(line + "18446744073709551615").json()["seed"], 18446744073709551615U);
}

TEST(Hostile, MistakesAreNamedByTheProgramWithASuggestion) {
  const struct {
    const char* line;
    const char* says;
  } mistakes[] = {
      {"verify --sed 3", "tessera: verify has no option '--sed' (did you mean '--seed'?)"},
      {"attend --qeury=q.npy", "tessera: attend has no option '--qeury' (did you mean '--query'?)"},
      {"--verison", "tessera: tessera has no option '--verison' (did you mean '--version'?)"},
      {"kernels extra words", "tessera: kernels takes no argument 'extra'"},
      {"bench --seed 1 --seed 2", "tessera: --seed is given more than once"},
      {"verify --case", "tessera: --case needs a value"},
      {"attend", "tessera: --query is required"},
      {"attend --layout sbhd", "tessera: --layout: 'sbhd' is unknown; accepted: bhsd, bshd"},
  };
  for (const auto& mistake : mistakes) {
    const Outcome wrong = run(mistake.line);
    EXPECT_CODE(wrong, 2) << mistake.line;
    EXPECT_TRUE(wrong.complains(mistake.says)) << wrong.err;
    EXPECT_TRUE(wrong.complains("--help`")) << wrong.err;
    EXPECT_TRUE(wrong.out.empty()) << mistake.line;
  }
  EXPECT_FALSE(run("verify ''").complains("Did you mean")) << "nothing is near to nothing";
}

TEST(Hostile, NoWorkTakesNoTime) {
  const Outcome none = run("roofline --gpu L4 'b0 h1 q4 k4 d16 f32' --target 3");
  EXPECT_CODE(none, 0);
  EXPECT_TRUE(none.says("floor: 0.000 µs (no work)")) << none.out;
  EXPECT_FALSE(none.says("inf")) << none.out;
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    widest = std::max(widest, cli::display_width(line));
  }
  return widest;
}

TEST(Hostile, TablesFitTheTerminal) {
  const std::vector<std::vector<std::string>> commands = {
      {"kernels"},
      {"kernels", "--cases"},
      {"roofline", "--list"},
      {"roofline", "--gpu", "L4", "canon_1"},
  };
  for (const auto& command : commands) {
    const Outcome narrow = run_on_terminal(command, "1", 80);
    if (narrow.code == kNoTerminal) GTEST_SKIP() << "skipped: tables on a terminal, because " << narrow.err;
    // Prose below a table is the terminal's to wrap.
    const std::string table = narrow.out.substr(0, narrow.out.find("\r\n\r\n"));
    EXPECT_LE(widest_line(table.substr(0, table.find("  Dense"))), 80u) << narrow.out;
  }
  EXPECT_GT(widest_line(run("kernels --cases").out), 80u) << "a file gets all of it";
  EXPECT_GT(widest_line(run_on_terminal({"kernels", "--cases"}, "1", 200).out), 80u)
      << "so does a wide terminal";
}

TEST(Hostile, BenchLeavesColumnsOutAndSaysWhich) {
  const Outcome narrow =
      run_on_terminal({"bench", "b1 h2 q32 k32 d16 f32 causal=top-left", "--min-time", "0.01"}, "1", 80);
  if (narrow.code == kNoTerminal) GTEST_SKIP() << "skipped: tables on a terminal, because " << narrow.err;
  EXPECT_TRUE(narrow.says("Too narrow a terminal for: ")) << narrow.out;
  EXPECT_TRUE(narrow.says("of floor")) << narrow.out;
  const std::size_t begin = narrow.out.find("  case"), end = narrow.out.find("Verified");
  EXPECT_LE(widest_line(narrow.out.substr(begin, end - begin)), 80u) << narrow.out;
}

// A line that runs over into the next cannot be taken back, and stays on the screen half done.
TEST(Hostile, AProgressBarFitsTheTerminalAndGoesAway) {
  const std::string clear = "\r\033[K";
  const Outcome narrow = run_on_terminal({"verify", "--group", "few"}, "1", 40);
  if (narrow.code == kNoTerminal) GTEST_SKIP() << "skipped: a bar on a terminal, because " << narrow.err;
  EXPECT_EQ(narrow.code, 0) << narrow.out;
  std::size_t at = narrow.out.find(clear), frames = 0;
  if (at == std::string::npos) GTEST_SKIP() << "skipped: a progress bar, because this machine took no second";
  for (std::size_t next; (next = narrow.out.find(clear, at + 1)) != std::string::npos; at = next, ++frames)
    EXPECT_LT(cli::display_width(narrow.out.substr(at + clear.size(), next - at - clear.size())), 40u);
  EXPECT_GT(frames, 0u);
  EXPECT_EQ(narrow.out.substr(at + clear.size(), 8), "  kernel") << "the bar is gone before the table";
}

}  // namespace
}  // namespace tessera::cli_tests
