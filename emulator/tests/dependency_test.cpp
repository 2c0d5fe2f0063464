// Programmatic dependent launch: what a kernel sees before and after griddepcontrol.wait.
#include <gtest/gtest.h>

#include "emulator/tests/snippet.hpp"

namespace emulator {
namespace {

// Two kernels in a row on one word, which begins as 5: the first makes it 7, the second copies it to the word
// behind it.
class Chain {
 public:
  explicit Chain(const std::string& second) : executor_(make_executor(test_device(90), {1, 1})) {
    executor_->load(
        ".version 9.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry first(.param .u64 at)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [at];\n"
        "griddepcontrol.launch_dependents;\nst.global.u32 [%rd1], 7;\nret;\n}\n"
        ".visible .entry second(.param .u64 at)\n{\n.reg .b64 %rd<2>; .reg .b32 %r<2>;\n"
        "ld.param.u64 %rd1, [at];\n" +
            second + "\nret;\n}\n",
        "chain.ptx");
    words_ = static_cast<std::uint32_t*>(executor_->memory().allocate(8));
  }
  ~Chain() { executor_->memory().release(words_); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // The copy, where the second started early; what was reported otherwise.
  std::uint32_t copied(bool first_word_is_set, std::string* report) {
    words_[0] = 5;
    if (first_word_is_set) executor_->memory().mark_written(words_, 4);
    const Launch first = launch("first", 1), second = launch("second", 6);
    const auto started = executor_->start(second);
    const std::vector<Report> one = executor_->run(first), two = executor_->finish(*started);
    EXPECT_TRUE(one.empty());
    *report = two.empty() ? "" : two[0].text();
    return words_[1];
  }

 private:
  Launch launch(std::string_view entry, unsigned blocks) const {
    Launch out{entry, {blocks, 1, 1}, {1, 1, 1}, 0, std::vector<std::byte>(8), entry == "second"};
    std::memcpy(out.params.data(), &words_, 8);
    return out;
  }
  std::unique_ptr<Executor> executor_;
  std::uint32_t* words_ = nullptr;
};

TEST(Dependency, WhatComesAfterTheWaitSeesTheOneBefore) {
  std::string report;
  Chain chain("griddepcontrol.wait;\nld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1+4], %r1;");
  EXPECT_EQ(chain.copied(true, &report), 7u);
  EXPECT_EQ(report, "");
}

TEST(Dependency, WhatComesBeforeTheWaitDoesNot) {
  std::string report;
  Chain chain(
      "mov.u32 %r1, %ctaid.x; .reg .pred %p<2>; setp.ne.u32 %p1, %r1, 0; @%p1 bra end;\n"
      "ld.global.u32 %r1, [%rd1]; griddepcontrol.wait; st.global.u32 [%rd1+4], %r1; end:");
  EXPECT_EQ(chain.copied(true, &report), 5u);
  EXPECT_EQ(report, "");
}

TEST(Dependency, AMissingWaitReadsWhatNobodyWrote) {
  std::string report;
  Chain chain("ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1+4], %r1;");
  (void)chain.copied(false, &report);
  EXPECT_NE(report.find("uninitialised global memory"), std::string::npos) << report;
}

TEST(Dependency, OnlyWhatLetsDependentsStartSaysSo) {
  const auto executor = make_executor(test_device(90), {1, 1});
  executor->load(
      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry lets()\n{\n"
      "griddepcontrol.launch_dependents;\nret;\n}\n.visible .entry "
      "waits()\n{\ngriddepcontrol.wait;\nret;\n}\n",
      "two.ptx");
  EXPECT_TRUE(executor->find("lets")->lets_dependents_start);
  EXPECT_FALSE(executor->find("waits")->lets_dependents_start);
}

}  // namespace
}  // namespace emulator
