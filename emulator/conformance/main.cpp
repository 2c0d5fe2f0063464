// tessera-conformance: records what a GPU computes, and compares the emulator with it.
//   tessera-conformance record FILE [RAW]  on a machine with an H200; RAW also takes all results unshortened
//   tessera-conformance compare FILE [RAW]
//   tessera-conformance ptx FOLDER         the cases' modules, for ptxas
//   tessera-conformance missing FILE INDEX  forms of a build's PTX (ptx.index) that have no case
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

#include "emulator/conformance/gpu.hpp"
#include "emulator/conformance/recording.hpp"
#include "emulator/ptx/module.hpp"

namespace emulator::conformance {
namespace {

int record(const std::string& file, const char* raw) {
  Gpu gpu;
  std::printf("recording on %s\n", gpu.name().c_str());
  std::ofstream all;
  if (raw != nullptr) all.open(raw, std::ios::binary);
  Recording recording;
  int failures = 0;
  for (const Case& one : all_cases()) {
    try {
      const auto output = gpu.run(one);
      recording[one.name] = shorten(one, output);
      all.write(reinterpret_cast<const char*>(output.data()),
                static_cast<std::streamsize>(output.size() * 4));
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", one.name.c_str(), error.what());
      if (++failures > 20) break;
    }
  }
  save(recording, file);
  std::printf("%zu cases recorded, %d failed\n", recording.size(), failures);
  return failures == 0 ? 0 : 1;
}

// With the unshortened results, values are shown where otherwise only hashes are.
int compare_all(const std::string& file, const char* raw) {
  const Recording recording = load(file);
  std::ifstream all;
  if (raw != nullptr) all.open(raw, std::ios::binary);
  int differ = 0;
  for (Case one : all_cases()) {
    std::string text;
    const auto found = recording.find(one.name);
    if (found == recording.end()) {
      text = one.name + ": not in the recording\n";
    } else {
      Record record = found->second;
      if (raw != nullptr) {
        std::vector<std::uint32_t> output(one.items * one.item_words);
        all.read(reinterpret_cast<char*>(output.data()), static_cast<std::streamsize>(output.size() * 4));
        one.kept = one.items;
        record = shorten(one, output);
      }
      try {
        text = compare(one, record, emulate(one));
      } catch (const std::exception& error) {
        text = one.name + ": " + error.what() + "\n";
      }
    }
    std::fputs(text.c_str(), stdout);
    differ += text.empty() ? 0 : 1;
  }
  std::printf("%zu cases, %d differ\n", all_cases().size(), differ);
  return differ == 0 ? 0 : 1;
}

int write_ptx(const std::string& folder) {
  int number = 0;
  for (const Case& one : all_cases()) {
    std::ofstream out(folder + "/" + std::to_string(++number) + ".ptx");
    out << "// " << one.name << "\n" << one.ptx;
  }
  std::printf("%d modules\n", number);
  return 0;
}

// Control flow, waiting and ordering give no values; tests of the executor have them.
bool has_no_value(const std::string& form) {
  for (const char* start : {"bra",
                            "ret",
                            "bar.sync",
                            "bar.warp",
                            "barrier.",
                            "cp.async.commit",
                            "cp.async.wait",
                            "cp.async.bulk.prefetch",
                            "cvta",
                            "fence",
                            "griddepcontrol",
                            "ld.param",
                            "mbarrier",
                            "prefetch",
                            "setmaxnreg",
                            "trap",
                            "wgmma.fence",
                            "wgmma.commit",
                            "wgmma.wait",
                            "st.u",
                            "membar"})
    if (form.rfind(start, 0) == 0) return true;
  return false;
}

// The files of PTX that an index names: module ARCH FILE.
std::vector<std::string> modules_of(const std::string& index) {
  std::ifstream in(index);
  if (!in) throw std::runtime_error("there is no index at " + index);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    if (line.rfind("module ", 0) == 0) out.push_back(line.substr(line.find(' ', 7) + 1));
  return out;
}

int missing(const std::string& file, const std::string& index) {
  std::set<std::string> known;
  for (const auto& [name, record] : load(file)) {
    const std::string form = name.substr(0, name.find(' '));
    known.insert(form);
    if (form != "ld,") continue;
    const std::string suffix = name.substr(name.find('.'));
    known.insert("ld" + suffix);
    known.insert("st" + suffix);
  }
  std::set<std::string> lacking;
  for (const std::string& ptx : modules_of(index)) {
    std::ifstream in(ptx);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const auto module = parse_module(text, ptx);
    for (const Entry& entry : module->entries)
      for (const Instruction& one : parse_body(*module, entry).code) {
        std::string form(one.form);
        // Which caches a load goes through is nothing that its value shows.
        if (const auto cached = form.find(".cg.");
            form.rfind("ld.global", 0) == 0 && cached != std::string::npos)
          form.erase(cached, 3);
        if (!has_no_value(form) && known.count(form) == 0) lacking.insert(form);
      }
  }
  for (const std::string& form : lacking) std::printf("%s has no case\n", form.c_str());
  std::printf("%zu forms without a case\n", lacking.size());
  return lacking.empty() ? 0 : 1;
}

}  // namespace
}  // namespace emulator::conformance

int main(int count, char** words) {
  using namespace emulator::conformance;
  const std::string what = count > 1 ? words[1] : "";
  try {
    if (what == "record" && (count == 3 || count == 4))
      return record(words[2], count == 4 ? words[3] : nullptr);
    if (what == "compare" && (count == 3 || count == 4))
      return compare_all(words[2], count == 4 ? words[3] : nullptr);
    if (what == "ptx" && count == 3) return write_ptx(words[2]);
    if (what == "missing" && count == 4) return missing(words[2], words[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera-conformance: %s\n", error.what());
    return 1;
  }
  std::fprintf(
      stderr,
      "tessera-conformance record FILE [RAW] | compare FILE [RAW] | ptx FOLDER | missing FILE INDEX\n");
  return 2;
}
