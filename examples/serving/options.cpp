#include "options.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>

#include "workload.hpp"

namespace serving {
namespace {

// The whole word as a number from least to most, or a sentence.
bool number(std::string_view option, const char* word, long long least, long long most, long long* value,
            std::string* complaint) {
  char* end = nullptr;
  errno = 0;
  const long long n = std::strtoll(word, &end, 10);
  const bool digits = word[0] >= '0' && word[0] <= '9';
  if (digits && *end == '\0' && errno == 0 && n >= least && n <= most) {
    *value = n;
    return true;
  }
  *complaint = std::string(option) + " is '" + word + "'; a whole number from " + std::to_string(least) +
               " to " + std::to_string(most) + " is accepted";
  return false;
}

}  // namespace

const char* const kHelp =
    "serving [options]: a small transformer serves requests over a cache in pages, and checks itself\n"
    "\n"
    "  --requests N         how many requests arrive, 1 to 1000 (24)\n"
    "  --seed N             of the weights, the requests and the sampling (1)\n"
    "  --pages N            pages of the cache; fewer than are wanted: requests are preempted (32)\n"
    "  --threads N          CPU threads, 0 to 1024; 0: all cores (0)\n"
    "  --device cpu|cuda    where to compute (cpu)\n"
    "  --help               this text\n"
    "\n"
    "Exits with 0 if every token is what the same request gives alone, else with 1 and a sentence;\n"
    "with 2 for a command line that is not accepted.\n";

bool parse(int count, char** words, Options* options, std::string* complaint) {
  for (int i = 1; i < count; ++i) {
    const std::string_view option = words[i];
    if (option == "--help") {
      options->help = true;
      return true;
    }
    const bool known = option == "--requests" || option == "--seed" || option == "--pages" ||
                       option == "--threads" || option == "--device";
    if (!known) {
      *complaint = "'" + std::string(option) +
                   "' is no option; --requests, --seed, --pages, --threads, --device and --help are";
      return false;
    }
    if (i + 1 == count) {
      *complaint = std::string(option) + " needs a value after it";
      return false;
    }
    const char* const word = words[++i];
    if (option == "--device") {
      options->cuda = std::string_view(word) == "cuda";
      if (options->cuda || std::string_view(word) == "cpu") continue;
      *complaint = "--device is '" + std::string(word) + "'; cpu and cuda are accepted";
      return false;
    }
    long long value = 0;
    if (option == "--requests") {
      if (!number(option, word, 1, 1000, &value, complaint)) return false;
      options->requests = static_cast<int>(value);
    } else if (option == "--seed") {
      if (!number(option, word, 0, INT64_MAX, &value, complaint)) return false;
      options->seed = static_cast<std::uint64_t>(value);
    } else if (option == "--pages") {  // the longest request has to fit, or it could never be finished
      if (!number(option, word, pages_of(kLongest), 10000, &value, complaint)) return false;
      options->pages = static_cast<int>(value);
    } else {
      if (!number(option, word, 0, 1024, &value, complaint)) return false;
      options->threads = static_cast<int>(value);
    }
  }
  return true;
}

}  // namespace serving
