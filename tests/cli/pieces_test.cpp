// The small parts of the command line: numbers for people, tables, statistics, quoting, cutting cases down.
#include <gtest/gtest.h>

#include "cli/check.hpp"
#include "cli/common.hpp"
#include "cli/machines.hpp"
#include "cli/select.hpp"
#include "cli/term.hpp"
#include "cli/timing.hpp"

namespace tessera::cli {
namespace {

TEST(Numbers, AreGroupedAndScaled) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1136.4), "1,136");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(-123456), "-123,456");
  EXPECT_EQ(microseconds(2.218), "2.2 µs");
  EXPECT_EQ(microseconds(1135.9), "1,136 µs");
  EXPECT_EQ(microseconds(0.5), "0.500 µs");
  EXPECT_EQ(si(137.4e9, "FLOP"), "137.4 GFLOP");
  EXPECT_EQ(si(12, "B"), "12 B");
}

TEST(Terminal, WidthCountsColumnsNotBytes) {
  EXPECT_EQ(display_width("plain"), 5u);
  EXPECT_EQ(display_width("2.2 µs"), 6u);
  EXPECT_EQ(display_width("\033[31mred\033[0m"), 3u);
}

TEST(Terminal, TablesAlign) {
  Table table({{"name"}, {"µs", Table::Side::right}});
  table.add({"a", "1"});
  table.add({"longer", "100"});
  EXPECT_EQ(table.text(), "  name      µs\n  a          1\n  longer   100\n");
}

TEST(Terminal, NarrowTablesFoldWordsThenLeaveSpareColumnsOut) {
  Table table({{"name"}, {"µs", Table::Side::right}, {"p90", Table::Side::right, true}, {"in words"}});
  table.add({"a", "1", "2", "one two three"});
  EXPECT_EQ(table.text(100), "  name   µs   p90   in words\n  a       1     2   one two three\n");
  EXPECT_EQ(table.text(33), table.text(100)) << "it is just as wide as that";
  EXPECT_EQ(table.text(32),
            "  name   µs   in words\n  a       1   one two three\n  Too narrow a terminal for: p90\n");
  EXPECT_EQ(table.text(24),
            "  name   µs   in words\n  a       1   one two\n              three\n  Too narrow a terminal\n"
            "  for: p90\n");
  for (const char* word : {"one", "two", "three"})
    EXPECT_NE(table.text(1).find(word), std::string::npos) << "words stay whole, however narrow it is";
}

TEST(Terminal, BarsAreInProportion) {
  const std::string chart = bar_chart({{"a", 1, "x", Ink::plain}, {"b", 2, "y", Ink::plain}}, 4);
  EXPECT_EQ(chart, "  a  x  ██\n  b  y  ████\n");
  EXPECT_EQ(bar_chart({{"a", 0, "", Ink::plain}}, 4), "  a    \n") << "nothing is no sliver";
}

TEST(Refusals, SayWhichFlagAFieldIs) {
  const std::vector<std::string> options = {"--key-lengths", "--mask",     "--mask-align", "--causal",
                                            "--align",       "--rope-cos", "--key",        "--scale-rows"};
  EXPECT_EQ(flags_of_fields("key_lengths.shape[0] is 3, but key_lengths is", options),
            "Here key_lengths is --key-lengths.");
  EXPECT_EQ(flags_of_fields("new_key needs mask.align = bottom-right (2).", options),
            "Here mask.align is --causal or --align.");
  EXPECT_EQ(flags_of_fields("mask.tensor.shape[1] is 2; mask.tensor_align; rope.cos.", options),
            "Here mask.tensor is --mask, mask.tensor_align is --mask-align, rope.cos is --rope-cos.");
  EXPECT_EQ(flags_of_fields("key.shape[1] is 7, but query has 32 heads; see k_l.npy", options), "");
  EXPECT_EQ(flags_of_fields("scale_rows is 3", options), "Here scale_rows is --scale-rows.");
  EXPECT_EQ(flags_of_fields("scale_rows is 3", {"--scales"}), "Here scale_rows is --scales.");
}

TEST(Timing, StatisticsOfKnownSamples) {
  std::vector<double> samples;
  for (int i = 100; i >= 0; --i) samples.push_back(i);
  const Stats stats = statistics(samples);
  EXPECT_EQ(stats.samples, 101u);
  EXPECT_DOUBLE_EQ(stats.p50_us, 50);
  EXPECT_DOUBLE_EQ(stats.p90_us, 90);
  EXPECT_DOUBLE_EQ(stats.p99_us, 99);
  EXPECT_DOUBLE_EQ(stats.mean_us, 50);
  EXPECT_NEAR(stats.std_us, 29.3002, 1e-4);
  EXPECT_DOUBLE_EQ(statistics({7}).p99_us, 7);
}

TEST(Timing, ContendersTakeTurns) {
  std::string order;
  const auto stats = time_interleaved({[&] { order += 'a'; }, [&] { order += 'b'; }}, 1e-6);
  ASSERT_EQ(stats.size(), 2u);
  EXPECT_GE(stats[0].samples, 5u);
  EXPECT_EQ(stats[0].samples, stats[1].samples);
  EXPECT_NE(order.find("ababababab"), std::string::npos) << order.substr(0, 40);
}

TEST(Words, QuotingIsForTheShell) {
  EXPECT_EQ(shell_quote("canon_1"), "canon_1");
  EXPECT_EQ(shell_quote("b1 h2"), "'b1 h2'");
  EXPECT_EQ(shell_quote("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quote(""), "''");
}

TEST(Words, TheNearestIsNearOrNothing) {
  const std::vector<std::string> known = {"verify", "bench"};
  EXPECT_EQ(nearest("verfiy", known), "verify");
  EXPECT_EQ(nearest("xylophone", known), "");
}

TEST(Reduced, StaysWithinTheBudgetAndKeepsTheOptions) {
  for (const cases::Case& c : cases::named()) {
    const cases::Case small = reduced(c, 5e7);
    EXPECT_LE(oracle_flops(small), 5e7) << c.name;
    EXPECT_EQ(small.dim, c.dim);
    EXPECT_EQ(small.dtype, c.dtype);
    EXPECT_EQ(small.align, c.align);
    EXPECT_EQ(small.heads * c.kv_heads, c.heads * small.kv_heads) << "as many query heads per K/V head";
    if (oracle_flops(c) <= 5e7) {
      EXPECT_EQ(small, c);
    }
  }
}

TEST(ShapeOnlyProblem, EveryNamedCaseValidatesAsItDoesWithMemory) {
  for (const cases::Case& c : cases::named()) {
    if (oracle_flops(c) > 1e8) continue;
    const core::Problem shape = validated(c);
    const cases::Instance instance(c, cases::Input::normal, 1);
    core::Problem real;
    ASSERT_TRUE(core::validate(instance.problem(), &real).ok()) << c.name;
    EXPECT_EQ(shape.queries, real.queries);
    EXPECT_EQ(shape.group(), real.group());
    EXPECT_EQ(shape.visibility.has_band, real.visibility.has_band);
    EXPECT_EQ(shape.visibility.mask.kind, real.visibility.mask.kind) << c.name;
    EXPECT_EQ(shape.visibility.mask.strides[0] == 0, real.visibility.mask.strides[0] == 0) << c.name;
    EXPECT_EQ(shape.kv.lengths == nullptr, real.kv.lengths == nullptr) << c.name;
    EXPECT_EQ(shape.scoring.scale, real.scoring.scale) << c.name;
  }
}

TEST(Gpus, WhatADriverCallsThemIsFoundInTheTable) {
  const auto name = [](std::string_view driver_name) -> std::string {
    const Gpu* gpu = match_gpu(driver_name);
    return gpu == nullptr ? "" : std::string(gpu->name);
  };
  EXPECT_EQ(name("NVIDIA H200"), "H200");
  EXPECT_EQ(name("NVIDIA H100 80GB HBM3"), "H100 SXM");
  EXPECT_EQ(name("NVIDIA H100 PCIe"), "H100 PCIe");
  EXPECT_EQ(name("NVIDIA A100-SXM4-40GB"), "A100 40GB");
  EXPECT_EQ(name("NVIDIA A100-SXM4-80GB"), "A100 80GB");
  EXPECT_EQ(name("NVIDIA L4"), "L4");
  EXPECT_EQ(name("NVIDIA L40S"), "L40S");
  EXPECT_EQ(name("NVIDIA L40"), "");
  EXPECT_EQ(name("NVIDIA GeForce RTX 4090"), "RTX 4090");
  EXPECT_EQ(name("Tesla T4"), "T4");
  EXPECT_EQ(name(""), "");
}

TEST(Gpus, TheTableIsConsistent) {
  for (const Gpu& gpu : gpus()) {
    EXPECT_EQ(find_gpu(gpu.name), &gpu);
    // f32 is two operations for each of 64 or 128 lanes per SM and clock: a slipped digit shows.
    const double lanes = gpu.f32_tflops * 1e12 / (2.0 * gpu.sms * gpu.clock_ghz * 1e9);
    EXPECT_TRUE((lanes > 60 && lanes < 70) || (lanes > 120 && lanes < 150)) << gpu.name << ": " << lanes;
    if (gpu.f8_tflops > 0) {
      EXPECT_NEAR(gpu.f8_tflops / gpu.f16_tflops, 2, 0.03) << gpu.name;
    }
  }
  EXPECT_EQ(find_gpu("abacus"), nullptr);
}

}  // namespace
}  // namespace tessera::cli
