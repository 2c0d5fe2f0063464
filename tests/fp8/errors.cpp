// tessera_fp8_errors FILE.json [MOST_KEYS]: what 8-bit attention is off by, over 1,024 keys and twice as many
// up to MOST_KEYS (262,144 if not said; half of that at head dim 128 and a quarter at 256), for each input of
// haystack.hpp. Arithmetic on a CPU, no times. Errors are root mean squares over all elements,
// relative to that of the truth, which is float64: over the numbers before quantising (error), and over those
// that the codes stand for (of_codes).
//
// Exit code 1: a CPU kernel was off by more than the gates allow. docs/fp8.md shows what came out.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cases/gates.hpp"
#include "cli/common.hpp"
#include "core/plan.hpp"
#include "tests/fp8/haystack.hpp"
#include "tests/fp8/running.hpp"

namespace tessera::fp8 {
namespace {

using Json = nlohmann::ordered_json;
using cases::ScaleKind;
using Numbers = std::vector<double>;

constexpr std::int64_t kFewestKeys = 1024, kMostKeys = 262144;
constexpr std::int64_t kMostElements = kMostKeys * 64;  // of keys: more take minutes and gigabytes
constexpr std::uint64_t kSeed = 1;
// What docs/fp8.md recommends. One head: a scale for each head is one for the tensor.
constexpr Coding kRecommended{ScaleKind::head, ScaleKind::channel, true, false};
// Those that are asked of two inputs, at head dim 128 and a few lengths only.
constexpr Coding kOthers[] = {{ScaleKind::head, ScaleKind::head},
                              {ScaleKind::head, ScaleKind::channel},
                              {ScaleKind::block64, ScaleKind::block64},
                              {ScaleKind::block64, ScaleKind::channel, true},
                              {ScaleKind::head, ScaleKind::channel, true, true}};

struct Item {
  Input input;
  std::int64_t dim, keys;
};

double distance(const Numbers& output, const Numbers& truth) {
  double error = 0, size = 0;
  for (std::size_t n = 0; n < truth.size(); ++n) {
    error += (output[n] - truth[n]) * (output[n] - truth[n]);
    size += truth[n] * truth[n];
  }
  return std::sqrt(error / size);
}

// Four digits: what more there is depends on the C library.
double shortened(double x) { return std::strtod(fmt::format("{:.4g}", x).c_str(), nullptr); }

// What is asked of one item, a line for each coding and arithmetic.
class Lines {
 public:
  explicit Lines(const Item& item)
      : item_(item), haystack_(make_haystack(item.input, item.keys, item.dim, kSeed)), needles_(haystack_) {}
  void ask_bf16();
  void ask(const Coding& coding);
  // Every CPU kernel, as the gates judge it.
  void ask_kernels(const Coding& coding);
  [[nodiscard]] const std::vector<Json>& lines() const { return lines_; }
  [[nodiscard]] double worst_of_bound() const { return worst_of_bound_; }

 private:
  void add(const std::string& coding, std::string_view arithmetic, const Numbers& output,
           const Numbers& of_codes);

  Item item_;
  Haystack haystack_;
  Needles needles_;
  std::vector<Json> lines_;
  double worst_of_bound_ = 0;
};

void Lines::add(const std::string& coding, std::string_view arithmetic, const Numbers& output,
                const Numbers& of_codes) {
  lines_.push_back({{"input", name(item_.input)},
                    {"dim", item_.dim},
                    {"keys", item_.keys},
                    {"coding", coding},
                    {"arithmetic", arithmetic},
                    {"error", shortened(distance(output, needles_.truth()))},
                    {"of_codes", shortened(distance(output, of_codes))}});
  for (const double x : needles_.found(output)) lines_.back()["found"].push_back(shortened(x));
}

void Lines::ask_bf16() {
  const Attention a = as_given(haystack_, TESSERA_BF16);
  add("bf16", "bf16", oracle::plain(a.problem, a.rows).output, oracle::attend(a.problem, a.rows).output);
}

void Lines::ask(const Coding& coding) {
  const Attention a = as_codes(haystack_, coding);
  const std::string how = words(coding);
  const Numbers of_codes = oracle::attend(a.problem, a.rows).output;
  using oracle::Arithmetic;
  add(how, "accurate", oracle::plain(a.problem, a.rows, Arithmetic::fp8_accurate).output, of_codes);
  add(how, "fast", oracle::plain(a.problem, a.rows, Arithmetic::fp8_fast).output, of_codes);
  if (coding.value == ScaleKind::block64) return;  // scales that no single accumulator can have
  const Running both = running(a.problem, a.rows);
  add(how, "promoted", both.promoted, of_codes);
  add(how, "unpromoted", both.unpromoted, of_codes);
}

void Lines::ask_kernels(const Coding& coding) {
  Attention a = as_codes(haystack_, coding);
  const cases::Expected expected = cases::expect(a.problem, a.rows);
  for (const core::Kernel& kernel : core::kernels()) {
    tessera_device device = TESSERA_DEVICE_INIT;
    device.threads = 1;
    if (kernel.device != TESSERA_CPU || !core::missing(kernel, device).empty()) continue;
    device.kernel = kernel.name.data();  // names are literals
    if (const std::string why = cases::attend_with_library(a.problem, device); !why.empty()) {
      fmt::print(stderr, "{}: {}\n", kernel.name, why);
      std::exit(1);
    }
    const Numbers output = a.output();
    double of_bound = 0;
    for (std::size_t n = 0; n < output.size(); ++n)
      of_bound =
          std::max(of_bound, std::fabs(output[n] - expected.truth.output[n]) / expected.output_bound[n]);
    add(words(coding), kernel.name, output, expected.truth.output);
    lines_.back()["of_bound"] = shortened(of_bound);
    worst_of_bound_ = std::max(worst_of_bound_, of_bound);
  }
}

std::vector<Item> items(std::int64_t most_keys) {
  std::vector<Item> out;
  for (const Input input : {Input::normal, Input::outliers, Input::needle, Input::sink})
    for (const std::int64_t dim : {64, 128, 256})
      for (std::int64_t keys = kFewestKeys; keys <= most_keys && keys * dim <= kMostElements; keys *= 2)
        out.push_back({input, dim, keys});
  std::stable_sort(out.begin(), out.end(),
                   [](const Item& a, const Item& b) { return a.keys * a.dim < b.keys * b.dim; });
  return out;
}

Lines asked(const Item& item) {
  Lines lines(item);
  lines.ask_bf16();
  lines.ask_kernels(kRecommended);
  lines.ask(kRecommended);
  const bool plain = item.input == Input::normal || item.input == Input::outliers;
  const bool some = item.dim == 128 && (item.keys == 1024 || item.keys == 16384 || item.keys == 131072);
  for (const Coding& other : kOthers)
    if (plain && some) lines.ask(other);
  return lines;
}

// One line of the file for each, so that it stays readable.
bool write(const std::string& path, const std::vector<std::vector<Json>>& results) {
  Json head = {
      {"tessera", tessera_version()},
      {"date", cli::utc_now()},
      {"commit", cli::commit()},
      {"compiler", cli::compiler()},
      {"command", "tessera_fp8_errors" + cli::command_line().substr(std::string_view("tessera").size())},
      {"machine",
       {{"device", "cpu"}, {"cpu", cli::this_machine().cpu}, {"cores", cli::this_machine().cores}}},
      {"what", "errors of arithmetics, computed on a CPU; no times. See tests/fp8/errors.cpp"},
      {"rows", kRows},
      {"seed", kSeed}};
  std::string text = head.dump(2);
  text.resize(text.size() - 2);  // the closing brace
  text += ",\n  \"results\": [";
  std::string_view between = "\n    ";
  for (const std::vector<Json>& of_item : results)
    for (const Json& line : of_item) {
      text += fmt::format("{}{}", between, line.dump());
      between = ",\n    ";
    }
  std::ofstream file(path);
  file << text << "\n  ]\n}\n";
  return file.good();
}

// The shortest first; the file holds what is there so far.
int run(const std::string& path, std::int64_t most_keys) {
  const std::vector<Item> all = items(most_keys);
  std::vector<std::vector<Json>> results(all.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  bool within = true, written = true;
  const auto work = [&] {
    for (std::size_t n = next++; n < all.size(); n = next++) {
      const Lines lines = asked(all[n]);
      const std::lock_guard lock(mutex);
      results[n] = lines.lines();
      written = write(path, results);
      if (lines.worst_of_bound() <= 1) continue;
      within = false;
      fmt::print(stderr, "{} d{} {} keys: a CPU kernel is off by {:.2f} times its bound\n",
                 name(all[n].input), all[n].dim, all[n].keys, lines.worst_of_bound());
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < cli::this_machine().cores; ++t) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  if (!written) fmt::print(stderr, "{}: cannot be written\n", path);
  return within && written ? 0 : 1;
}

}  // namespace
}  // namespace tessera::fp8

int main(int argc, char** argv) {
  using namespace tessera::fp8;
  tessera::cli::remember_command_line(argc, argv);
  const std::int64_t most_keys = argc > 2 ? std::strtoll(argv[2], nullptr, 10) : kMostKeys;
  if (argc < 2 || argc > 3 || most_keys < kFewestKeys || most_keys > kMostKeys) {
    fmt::print(stderr, "usage: tessera_fp8_errors FILE.json [MOST_KEYS]; MOST_KEYS is from {} to {}\n",
               kFewestKeys, kMostKeys);
    return 2;
  }
  return run(argv[1], most_keys);
}
