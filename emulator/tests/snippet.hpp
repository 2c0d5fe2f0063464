// A few instructions as a kernel: %rd1 is the address of its output; registers are declared.
#pragma once

#include <cstring>
#include <string>

#include "emulator/exec/launch.hpp"

namespace emulator {

inline DeviceDescription test_device(int arch) {
  return {"test", arch, 4, 48 << 10, 227 << 10, 228 << 10, std::size_t{1} << 34, 50 << 20, 30 << 20};
}

inline constexpr int kSnippetLine = 10;  // of the first of its lines

class Snippet {
 public:
  explicit Snippet(const std::string& body, int arch = 90, std::uint64_t seed = 1,
                   const std::string& outer = "")
      : executor_(make_executor(test_device(arch), {seed, 1})) {
    executor_->load(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 shared[];\n" +
            outer +
            "\n.visible .entry snippet(.param .u64 out)\n{\n.reg .pred %p<20>; .reg .b16 %rs<40>; .reg .b32 "
            "%r<300>; .reg .f32 "
            "%f<300>; .reg .b64 %rd<60>;\nld.param.u64 %rd1, [out];\n" +
            body + "\nret;\n}\n",
        "snippet.ptx");
  }

  // The output, words of which all that the kernel may read were set to `fill`. Throws what was reported.
  std::vector<std::uint32_t> run(unsigned blocks, unsigned threads, std::size_t words,
                                 std::size_t dynamic_shared = 0, std::vector<std::uint32_t> initial = {}) {
    auto* out = static_cast<std::uint32_t*>(executor_->memory().allocate(words * 4));
    std::memset(out, 0, words * 4);
    std::copy(initial.begin(), initial.end(), out);
    if (!leave_unwritten) executor_->memory().mark_written(out, words * 4);
    Launch launch{"snippet", {blocks, 1, 1}, {threads, 1, 1}, dynamic_shared, std::vector<std::byte>(8),
                  false};
    std::memcpy(launch.params.data(), &out, 8);
    reports = executor_->run(launch);
    if (!reports.empty()) throw std::runtime_error(reports[0].text());
    std::vector<std::uint32_t> copy(out, out + words);
    executor_->memory().release(out);
    return copy;
  }
  // What is reported, or "".
  std::string report(unsigned threads, std::size_t words = 64, std::size_t dynamic_shared = 0) {
    try {
      run(1, threads, words, dynamic_shared);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  std::vector<Report> reports;
  bool leave_unwritten = false;

 private:
  std::unique_ptr<Executor> executor_;
};

}  // namespace emulator
