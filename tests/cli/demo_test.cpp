// `tessera demo`: the story is told, and every number in it is there for a program too.
#include "run.hpp"

namespace tessera::cli_tests {
namespace {

TEST(Demo, EveryResultIsProvenAndTimed) {
  const Outcome outcome = run("demo --quick --json");
  EXPECT_CODE(outcome, 0);
  const auto scenes = outcome.json()["scenes"];
  ASSERT_GE(scenes.size(), 3u);
  for (const auto& scene : scenes) {
    EXPECT_TRUE(scene["passed"].get<bool>()) << scene.dump(2);
    EXPECT_LE(scene["error_over_bound"].get<double>(), 1.0);
    EXPECT_GT(scene["plain_us"].get<double>(), 0);
    EXPECT_GT(scene["tessera_1_thread_us"].get<double>(), 0);
    // The plain loops compute the same thing: two float32 results of values near 1.
    EXPECT_LT(scene["largest_difference_from_plain"].get<double>(), 1e-4);
  }
}

TEST(Demo, TheStoryIsTold) {
  const Outcome outcome = run("demo --quick");
  EXPECT_CODE(outcome, 0);
  for (const char* piece : {"CPU", "kernels", "proven", "plain loops, 1 thread", "tessera, 1 thread", "█",
                            "GFLOP/s", "What to try next"})
    EXPECT_TRUE(outcome.says(piece)) << piece;
  EXPECT_FALSE(has_escape_codes(outcome.out + outcome.err));
}

}  // namespace
}  // namespace tessera::cli_tests
