// How many threads a call gets that leaves it open: see src/cpu/threads.hpp. What the whole program makes of
// the environment is tested in tests/cli, where each run has an environment of its own.
#include "cpu/threads.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tessera::cpu {
namespace {

TEST(Threads, OurVariableComesFirst) {
  const EnvironmentThreads both = read_environment("3", "5");
  EXPECT_EQ(both.count, 3);
  EXPECT_EQ(both.variable, "TESSERA_NUM_THREADS");
  EXPECT_EQ(both.error, "");
  // 0 is a number: all cores, whatever OpenMP is told.
  EXPECT_EQ(read_environment("0", "5").count, 0);
  EXPECT_EQ(read_environment(" 7 ", nullptr).count, 7);
  EXPECT_EQ(read_environment("1024", nullptr).count, TESSERA_MAX_THREADS);
}

TEST(Threads, OpenMpsVariableIsTheDefault) {
  EXPECT_EQ(read_environment(nullptr, nullptr).count, 0);
  EXPECT_EQ(read_environment("", "").count, 0);
  for (const char* five : {"5", "5,2", " 5 , 2,1", "5,nonsense"}) {
    const EnvironmentThreads omp = read_environment("", five);
    EXPECT_EQ(omp.count, 5) << five;
    EXPECT_EQ(omp.variable, "OMP_NUM_THREADS");
  }
  // Not ours to refuse.
  for (const char* ignored : {"0", "-2", "many", ",3", "4x", "+4"}) {
    EXPECT_EQ(read_environment(nullptr, ignored).count, 0) << ignored;
    EXPECT_EQ(read_environment(nullptr, ignored).error, "") << ignored;
  }
  EXPECT_EQ(read_environment(nullptr, "5000").count, TESSERA_MAX_THREADS);
  EXPECT_EQ(read_environment(nullptr, "99999999999999999999").count, TESSERA_MAX_THREADS);
}

TEST(Threads, OurVariableIsRefusedWithASentence) {
  for (const char* bad : {"-1", "1025", "four", "4,2", "4x", " ", "99999999999999999999"}) {
    const EnvironmentThreads refused = read_environment(bad, "5");
    EXPECT_EQ(refused.count, 0) << bad;
    EXPECT_EQ(refused.error, "TESSERA_NUM_THREADS is \"" + std::string(bad) +
                                 "\" in the environment; 0 (all cores) to 1024 is accepted");
  }
}

TEST(Threads, ACallThatSaysSoGetsWhatItSays) {
  EXPECT_EQ(thread_count(1), 1);
  EXPECT_EQ(thread_count(TESSERA_MAX_THREADS), TESSERA_MAX_THREADS);
  EXPECT_GE(thread_count(0), 1);
}

}  // namespace
}  // namespace tessera::cpu
