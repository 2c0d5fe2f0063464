// `tessera roofline`: numbers worked out by hand, and the answers to impossible targets.
#include "run.hpp"

namespace tessera::cli_tests {
namespace {

double floor_us(const std::string& arguments) {
  const Outcome outcome = run("roofline " + arguments + " --json");
  EXPECT_CODE(outcome, 0);
  return outcome.json()["cases"][0]["floor_us"].get<double>();
}

// 4 * B * H * S^2 * D / 121e12, in microseconds.
TEST(Roofline, TheMissionShapesOnAnL4) {
  EXPECT_NEAR(floor_us("--gpu L4 mission256"), 2.2, 0.05);
  EXPECT_NEAR(floor_us("--gpu L4 mission512"), 8.9, 0.05);
  EXPECT_NEAR(floor_us("--gpu L4 canon_1"), 1136, 0.5);
}

// The same at 242e12: docs/ladder.md, rung 12.
TEST(Roofline, EightBitInputsOnAnL4) {
  EXPECT_NEAR(floor_us("--gpu L4 fp8_mission512"), 4.44, 0.01);
  EXPECT_NEAR(floor_us("--gpu L4 'b4 h16 q2048 d128 f8e5m2 scales=head'"), 568, 0.5);
  const Outcome yes = run("roofline --gpu L4 fp8_mission512 --target 5");
  EXPECT_CODE(yes, 0);
  EXPECT_TRUE(yes.says("242.0 TFLOP/s f8e4m3")) << yes.out;
  EXPECT_CODE(run("roofline --gpu L4 fp8_mission512 --target 4"), 1);
  const Outcome no = run("roofline --gpu A100 fp8_mission512");
  EXPECT_CODE(no, 1);
  EXPECT_TRUE(no.complains("no f8e4m3 arithmetic"));
}

TEST(Roofline, ThirtyMicrosecondsForCanon1AreImpossibleBy38) {
  const Outcome no = run("roofline --gpu L4 --case canon_1 --target 30");
  EXPECT_CODE(no, 1);
  EXPECT_TRUE(no.says("impossible by 38×")) << no.out;
  EXPECT_TRUE(no.says("1,136 µs")) << no.out;
  EXPECT_TRUE(no.says("137.4 GFLOP / 121.0 TFLOP/s")) << no.out;

  const auto json = run("roofline --gpu L4 --case canon_1 --target 30 --json").json()["cases"][0];
  EXPECT_FALSE(json["possible"].get<bool>());
  EXPECT_NEAR(json["impossible_by"].get<double>(), 37.9, 0.1);
}

TEST(Roofline, ATargetAboveTheFloorIsPossible) {
  const Outcome yes = run("roofline --gpu L4 mission512 --target 10");
  EXPECT_CODE(yes, 0);
  EXPECT_TRUE(yes.says("10 µs is possible"));
  const Outcome no = run("roofline --gpu L4 mission512 --target 5");
  EXPECT_CODE(no, 1);
  EXPECT_TRUE(no.says("In f8 that wall would be at 4.4 µs")) << no.out;
}

TEST(Roofline, DecodeStandsBeforeTheMemoryWall) {
  const auto json = run("roofline --gpu H200 decode_32k_b4 --json").json()["cases"][0];
  EXPECT_EQ(json["wall"], "memory");
  // 2 tensors * 4 * 8 heads * 32768 keys * 128 * 2 bytes, and little else, at 4.8 TB/s.
  EXPECT_NEAR(json["floor_us"].get<double>(), 2.0 * 4 * 8 * 32768 * 128 * 2 / 4.8e12 * 1e6, 0.2);
}

TEST(Roofline, MemoryIsNoWallForWhatFitsInL2) {
  const auto walls = run("roofline --gpu L4 mission512 --json").json()["cases"][0]["walls"];
  bool seen = false;
  for (const auto& wall : walls) {
    if (wall["name"] != "memory") continue;
    seen = true;
    EXPECT_FALSE(wall["applies"].get<bool>());
    EXPECT_GT(wall["us"].get<double>(), 8.9);  // cold, it would be the floor
  }
  EXPECT_TRUE(seen);
}

TEST(Roofline, ExponentialsAreAWallOfTheirOwn) {
  // 16 per clock and SM: a head dim this small leaves nothing else to do.
  const auto json = run("roofline --gpu B200 'b4 h16 q4096 k4096 d16 f16' --json").json()["cases"][0];
  EXPECT_EQ(json["wall"], "exponentials");
  EXPECT_NEAR(json["floor_us"].get<double>(), 4.0 * 16 * 4096 * 4096 / (16 * 148 * 1.85e9) * 1e6, 0.5);
}

TEST(Roofline, NamesAreFoundHoweverTheyAreTyped) {
  EXPECT_DOUBLE_EQ(floor_us("--gpu 'rtx-4090' canon_1"), floor_us("--gpu RTX4090 canon_1"));
  EXPECT_DOUBLE_EQ(floor_us("--gpu h100 canon_1"), floor_us("--gpu 'H100 SXM' canon_1"));
}

TEST(Roofline, AnUnknownGpuGetsTheKnownNames) {
  const Outcome unknown = run("roofline --gpu Voodoo2 canon_1");
  EXPECT_CODE(unknown, 2);
  EXPECT_TRUE(unknown.complains("Voodoo2"));
  EXPECT_TRUE(unknown.complains("L4, L40S"));
}

TEST(Roofline, AsksForWhatIsMissing) {
  EXPECT_TRUE(run("roofline canon_1").complains("--gpu NAME"));
  EXPECT_TRUE(run("roofline --gpu L4").complains("which case"));
  EXPECT_CODE(run("roofline --gpu L4 --measure canon_1"), 2);
}

TEST(Roofline, AGpuWithoutTheDtypeSaysSo) {
  const Outcome no = run("roofline --gpu T4 canon_1 --dtype bf16");
  EXPECT_CODE(no, 1);
  EXPECT_TRUE(no.complains("no bf16"));
}

TEST(Roofline, TheTableIsListed) {
  const auto json = run("roofline --list --json").json();
  EXPECT_GE(json["gpus"].size(), 10u);
  for (const auto& gpu : json["gpus"]) {
    EXPECT_GT(gpu["f16_tflops"].get<double>(), 0) << gpu["name"];
    EXPECT_GT(gpu["memory_gb_per_s"].get<double>(), 0) << gpu["name"];
  }
}

TEST(Roofline, MeasuresThisMachine) {
  const Outcome measured = run("roofline --measure cpu_decode_4k --threads 1 --json");
  EXPECT_CODE(measured, 0);
  const auto json = measured.json();
  // No CPU that runs this is slower than 10 MFLOP/s or faster than 100 TFLOP/s on one thread.
  EXPECT_GT(json["rates"][0]["flops_per_s"].get<double>(), 1e7);
  EXPECT_LT(json["rates"][0]["flops_per_s"].get<double>(), 1e14);
  EXPECT_GT(json["rates"][0]["read_four_streams_bytes_per_s"].get<double>(), 1e7);
  EXPECT_GT(json["cases"][0]["floor_us"].get<double>(), 0);
}

}  // namespace
}  // namespace tessera::cli_tests
