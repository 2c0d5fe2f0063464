// The wgmma kernel's choices, without a GPU: what it takes and leaves to others on which arch, that every
// tile fits, and what TMA is told of the tensors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cases/case.hpp"
#include "cases/tensors.hpp"
#include "core/plan.hpp"
#include "cuda/estimate.hpp"
#include "cuda/sm80/choose.hpp"
#include "cuda/sm90/choose.hpp"
#include "cuda/sm90/launch.hpp"
#include "cuda/sm90/tensors.hpp"
#include "tests/cuda/planned.hpp"

namespace tessera::cuda::sm90 {
namespace {

using testing_cuda::kSms;
using testing_cuda::Planned;
using testing_cuda::planned;
using testing_cuda::problem;

#define SKIP_WITHOUT_SM90() \
  if (!in_build()) GTEST_SKIP() << "this build has no code for sm_90a"

TEST(Sm90Rows, FitSharedMemoryAndRegisters) {
  for (const HeadDims& d : kHeadDims) {
    for (const Variant variant : {Variant::plain, Variant::tall, Variant::twin, Variant::split,
                                  Variant::narrow, Variant::alibi, Variant::softcap, Variant::general}) {
      if (variant == Variant::tall && !has_tall(d.dim)) continue;
      if (variant == Variant::twin && !has_twin(d.dim)) continue;
      if (takes_options(variant) && !has_options(d.dim)) continue;
      if (splits_keys(variant) && !has_split(d.dim)) continue;
      const Tiling tiling = tiling_for(d.dim, d.value_dim, variant);
      EXPECT_LE(tiling.shared_bytes, kMostSharedBytes) << d.dim << " " << d.value_dim;
      EXPECT_EQ(tiling.keys % 16, 0) << d.dim;  // whole products
      if (splits_keys(variant)) continue;
      const Config c = config_for(d.dim, d.value_dim, variant);
      // What the block starts with, whole eights a thread, is all there is to deal out.
      const int at_start = 64 * 1024 / c.threads() / 8 * 8 * c.threads();
      EXPECT_LE(128 * (c.producer_registers() + c.warpgroups() * c.consumer_registers()), at_start) << d.dim;
    }
  }
}

TEST(Sm90, TakesPrefillOnItsArchAlone) {
  SKIP_WITHOUT_SM90();
  for (const char* words :
       {"b4 h16 q2048 d128 f16", "b1 h32/8 q8192 d128 bf16 causal=bottom-right", "b8 h8 q512 d64 f16",
        "b2 h16 q1024 d192 v128 f16", "b2 h16 q1024 d256 bf16", "b2 h16 q1024 d80 f16",
        "b2 h16 q1024 d40 f16", "b4 h16 q2048 d128 f16 softcap=30",
        "b4 h16 q2048 d64 f16 mask=boolean lengths sinks"}) {
    const core::Problem p = problem(words);
    EXPECT_EQ(planned(p, 90).kernel, "sm90") << words;
    for (const int arch : {80, 86, 89, 100, 120}) EXPECT_EQ(planned(p, arch).kernel, "sm80") << words;
  }
  EXPECT_NE(planned(problem("b4 h16 q2048 d128 f16"), 89).reason.find("is sm_89; this kernel is for sm_90"),
            std::string::npos);
}

TEST(Sm90, TheLaunchIsToldInWords) {
  SKIP_WITHOUT_SM90();
  const auto words = [](const char* text, int arch) { return planned(problem(text), arch).words; };
  EXPECT_EQ(
      words("b2 h16 q1024 d88 f16", 90),
      "plain variant: tiles of 128 rows, 128 keys at a time, shared out to 132 blocks, head dims padded to "
      "96 and 96");
  EXPECT_EQ(
      words("b2 h16 q1024 d72 f16", 90),
      "tall variant: tiles of 256 rows, 48 keys at a time, shared out to 128 blocks, head dims padded to "
      "80 and 80");
  EXPECT_EQ(words("b8 h8 q512 k4096 d64 f16", 90),
            "tall variant: tiles of 256 rows, 64 keys at a time, shared out to 128 blocks");
  EXPECT_EQ(words("b8 h8 q512 d64 f16", 90),
            "twin variant: tiles of 128 rows, 64 keys at a time, shared out to 132 blocks that take two at a "
            "time");
  EXPECT_EQ(words("b2 h8 q512 d64 f16", 90),
            "split variant: tiles of 64 rows, 128 keys at a time, a block each, keys shared by 2 warpgroups");
  EXPECT_EQ(
      words("b2 h8 q256 d64 f16", 90),
      "narrow variant: tiles of 32 rows, 128 keys at a time, a block each, keys shared by 2 warpgroups");
  EXPECT_NE(words("b2 h16 q1024 d80 f16", 80).find(", head dims padded to 96 and 96"), std::string::npos);
  EXPECT_EQ(words("b2 h16 q1024 d96 f16", 80).find("padded"), std::string::npos);
}

TEST(Sm90, LeavesFewRowsToOthersUnlessAskedByName) {
  SKIP_WITHOUT_SM90();
  const core::Problem decode = problem("b8 h32/8 q1 k4096 d128 bf16");
  EXPECT_EQ(planned(decode, 90).kernel, "serving");
  EXPECT_EQ(planned(decode, 90, "sm90").kernel, "sm90");
  // 65 queries leave half a tile of 128 empty, and 2,048 heads make 16 rounds of such tiles. sm80 packs eight
  // heads into 520 rows, 5 blocks of 128: 10 rounds, at 0.75 of the rate.
  const Planned packed = planned(problem("b64 h32/4 q65 k4096 d64 f16"), 90);
  EXPECT_EQ(packed.kernel, "sm80");
  EXPECT_NE(packed.reason.find("times as long"), std::string::npos) << packed.reason;
  EXPECT_EQ(planned(problem("b64 h32/4 q128 k4096 d64 f16"), 90).kernel, "sm90");
}

TEST(Sm90, LeavesTheCopyEnginesLimitsToSm80InWords) {
  SKIP_WITHOUT_SM90();
  const struct {
    const char* says;
    void (*change)(core::Problem&);
  } rows[] = {
      {"key's row stride is 129 elements", [](core::Problem& p) { p.kv.key.row_stride = 129; }},
      {"value's head stride is 0 elements", [](core::Problem& p) { p.kv.value.head_stride = 0; }},
      {"query's batch stride is 1099511627776 elements",
       [](core::Problem& p) { p.query.batch_stride = std::int64_t{1} << 40; }},
      {"output does not start at a multiple of 16 bytes",
       [](core::Problem& p) { p.output.rows.data = static_cast<char*>(p.output.rows.data) + 2; }},
  };
  for (const auto& row : rows) {
    core::Problem p = problem("b2 h16 q2048 d128 f16");
    row.change(p);
    const Planned plan = planned(p, 90);
    EXPECT_EQ(plan.kernel, "sm80") << row.says;
    EXPECT_NE(plan.reason.find(row.says), std::string::npos) << plan.reason;
  }
  EXPECT_EQ(planned(problem("b2 h16 q1024 d256 bf16 softcap=30"), 90).kernel, "sm90");
}

TEST(Sm90, ListsOfTilesThatIntsCannotCountAreRefused) {
  core::Problem p = problem("b2 h16 q2048 d128 f16");
  p.batch = p.heads = p.kv_heads = 60000;
  p.queries = p.keys = 1 << 20;
  const core::Status status = production_row().supports(p);
  EXPECT_EQ(status.code, TESSERA_UNSUPPORTED);
  EXPECT_NE(status.message.find("row tiles"), std::string::npos) << status.message;
}

TEST(Sm90, VariantsByOptionAndSize) {
  const auto variant = [](const char* words) { return choose(problem(words), kSms).variant; };
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16"), Variant::plain);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16 lengths sinks"), Variant::plain);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16 softcap=30"), Variant::softcap);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16 alibi align=top-left"), Variant::alibi);
  EXPECT_EQ(variant("b4 h16 q2048 d64 f16 mask=additive"), Variant::general);
  EXPECT_EQ(variant("b4 h16 q2048 d64 f16 scale=-0.1"), Variant::softcap);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16 scale=1e-20"), Variant::plain);
  // Together.
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16 softcap=30 alibi align=top-left"), Variant::general);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16 softcap=30 mask=boolean"), Variant::general);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16 scale=-1 alibi align=top-left"), Variant::general);
  // 64 tiles of 128 rows, 32 of 256 or 128 of 64: one round each way, and the shortest is done first.
  EXPECT_EQ(variant("b2 h8 q512 d64 f16"), Variant::split);
  EXPECT_EQ(variant("b1 h16 q512 d128 f16"), Variant::split);
  EXPECT_EQ(variant("b1 h16 q512 d128 v124 f16"), Variant::split);
  EXPECT_EQ(variant("b1 h16 q512 d96 f16"), Variant::plain);  // no such kernel
  // 64 of 64 rows or 128 of 32. One row more is a second round, causal or not.
  EXPECT_EQ(variant("b2 h8 q256 d64 f16"), Variant::narrow);
  EXPECT_EQ(variant("b1 h8 q512 d128 f16"), Variant::narrow);
  EXPECT_EQ(variant("b2 h8 q257 d64 f16"), Variant::split);
  EXPECT_EQ(variant("b2 h8 q512 d64 f16 causal=bottom-right"), Variant::split);
  // One round of 256 rows, or two tiles of 128 at a time, which is less where they visit few keys; two rounds
  // of 128 or four of 64.
  EXPECT_EQ(variant("b8 h8 q512 d64 f16"), Variant::twin);
  EXPECT_EQ(variant("b8 h8 q512 k1025 d64 f16"), Variant::tall);
  EXPECT_EQ(variant("b4 h32 q4096 d64 bf16"), Variant::tall);
  EXPECT_EQ(variant("b4 h32 q4096 d64 bf16 causal=bottom-right"), Variant::tall);
  EXPECT_EQ(variant("b1 h64/8 q8192 d64 bf16 window=127,0 align=bottom-right"), Variant::twin);
  EXPECT_EQ(variant("b256 h12 q128 d64 bf16"), Variant::twin);
  // Three tiles an SM: two at a time and one alone would take longer than one after another.
  EXPECT_EQ(variant("b12 h25 q128 d64 bf16"), Variant::plain);
  // Causal, 3 tiles a head: the middle ones of all heads would fall to the same teams.
  EXPECT_EQ(variant("b16 h64 q300 d64 bf16"), Variant::twin);
  EXPECT_NE(variant("b16 h64 q300 d64 bf16 causal=bottom-right"), Variant::twin);
  // Head dims to 80 have a row of their own, but for options.
  EXPECT_EQ(variant("b32 h16 q729 d72 bf16"), Variant::tall);
  EXPECT_EQ(padded_dims(problem("b32 h16 q729 d72 bf16")).dim, 80);
  for (const char* option : {"softcap=30", "alibi align=top-left", "mask=boolean", "scale=-1"})
    EXPECT_EQ(padded_dims(problem(fmt::format("b32 h16 q729 d72 bf16 {}", option))).dim, 96);
  EXPECT_EQ(variant("b4 h33 q128 d72 bf16"), Variant::plain);
  // Causal: 128 tiles of 256 rows are one round, as long as the longest; 256 of 128 rows are dealt out and
  // take little more than the longest of them.
  EXPECT_EQ(variant("b1 h16 q2048 d64 bf16"), Variant::tall);
  EXPECT_EQ(variant("b1 h16 q2048 d64 bf16 causal=bottom-right"), Variant::plain);
  // 256 tiles of 64 rows would be two rounds, causal or not; 128 of 128 are one.
  EXPECT_EQ(variant("b1 h16 q1024 d128 bf16"), Variant::plain);
  EXPECT_EQ(variant("b1 h16 q1024 d128 bf16 causal=bottom-right"), Variant::plain);
  // Heads of 64 rows or fewer: as many rounds either way, of shorter tiles.
  EXPECT_EQ(variant("b16 h16 q64 d128 bf16"), Variant::split);
  EXPECT_EQ(variant("b16 h16 q32 d128 bf16"), Variant::narrow);
  // 132 tiles of 128 rows are one round, and so are as many of 256, half of which would be padding.
  EXPECT_EQ(variant("b4 h33 q128 d64 bf16"), Variant::plain);
}

// The model by hand, on 132 SMs.
TEST(Sm90, EstimatesAreRoundsTimesRows) {
  const Choice plain = choose(problem("b4 h16 q2048 d128 f16"), kSms);  // 1024 tiles: 8 rounds
  EXPECT_EQ(plain.total, 1024);
  EXPECT_DOUBLE_EQ(estimate(plain, kSms), 8 * 128);
  // As many, of which each is a little more than half as much as the longest.
  const Choice causal = choose(problem("b4 h16 q2048 d128 f16 causal=top-left"), kSms);
  EXPECT_TRUE(causal.unequal);
  EXPECT_EQ(causal.total, 1024);
  // A row sees 1,024.5 keys on average, a tile visits those of its last row: 63.5 more.
  EXPECT_DOUBLE_EQ(causal.share, (1024.5 + 63.5) / 2048);
  EXPECT_DOUBLE_EQ(estimate(causal, kSms), (1024 * causal.share / kSms + 0.125) * 128);
  // With four warpgroups each visits what its own last row sees: 31.5 more.
  const Choice tall = choose(problem("b4 h32 q4096 d64 f16 causal=top-left"), kSms);
  EXPECT_EQ(tall.variant, Variant::tall);
  EXPECT_DOUBLE_EQ(tall.share, (2048.5 + 31.5) / 4096);
  // Of 600 tiles some SMs have five: two at a time, and one alone. 128 keys are few.
  const core::Problem short_rows = problem("b12 h50 q128 d64 f16");
  const Choice twin = choose(short_rows, kSms);
  EXPECT_EQ(twin.variant, Variant::twin);
  EXPECT_EQ(twin.total, 600);
  EXPECT_DOUBLE_EQ(twin.visited, 128);
  EXPECT_DOUBLE_EQ(estimate(twin, kSms), (4 / 1.26 + 1 / 0.7) * 128);
  // A window's row tiles are all as long.
  EXPECT_FALSE(choose(problem("b4 h16 q2048 d128 f16 window=100,0 align=top-left"), kSms).unequal);
  // 128 tiles, an SM for each.
  const Choice few = choose(problem("b1 h16 q1024 d96 f16 causal=top-left"), kSms);
  EXPECT_EQ(few.total, 128);
  EXPECT_DOUBLE_EQ(estimate(few, kSms), 128);
  // One tile a head: every tile is as long as the longest, and some SMs have two.
  const Choice many = choose(problem("b20 h8 q128 d96 f16 causal=top-left"), kSms);
  EXPECT_EQ(many.total, 160);
  EXPECT_DOUBLE_EQ(estimate(many, kSms), 2 * 128);
  // At the end of 4,096 keys 2,048 queries see three quarters of them on average.
  EXPECT_DOUBLE_EQ(choose(problem("b4 h16 q2048 k4096 d128 f16 causal=bottom-right"), kSms).share,
                   (3072.5 + 63.5) / 4096);
  // Most of the tiles see nothing, but nothing is done before the longest is.
  const Choice late = choose(problem("b1 h8 q4096 k1024 d96 f16 causal=bottom-right"), kSms);
  EXPECT_LT(static_cast<double>(late.total) * late.share / kSms + 0.125, 1);
  EXPECT_DOUBLE_EQ(estimate(late, kSms), 128);
  // Blocks of 64 rows, whose keys are shared inside, count as equal.
  const Choice split = choose(problem("b1 h8 q1024 d128 f16 causal=top-left"), kSms);
  EXPECT_EQ(split.total, 128);
  EXPECT_DOUBLE_EQ(estimate(split, kSms), 64 / 0.6);
  const Choice narrow = choose(problem("b1 h8 q128 d128 f16 causal=top-left"), kSms);
  EXPECT_EQ(narrow.total, 32);
  EXPECT_DOUBLE_EQ(estimate(narrow, kSms), 32 / 0.33);
  // sm80: 64 query rows of 8 heads that share K and V are 512 rows, 4 blocks of 128 per K/V head.
  const core::Problem packed = problem("b64 h32/4 q64 k4096 d128 f16");
  EXPECT_DOUBLE_EQ(sm80::estimate_us(packed, 90, kSms), 8 * 128 / 0.54 * row_us(packed));
}

TEST(Sm90, TilesWithoutAPartnerFallToAllBlocks) {
  const auto blocks = [](const char* words) { return choose(problem(words), kSms).blocks; };
  EXPECT_EQ(blocks("b4 h16 q2048 d128 f16 causal=top-left"), 132);  // 16 row tiles: all have one
  EXPECT_EQ(blocks("b8 h64 q384 d128 f16 causal=top-left"), 131);   // 3: two kinds of pairs
  EXPECT_EQ(blocks("b8 h64 q1152 d128 f16 causal=top-left"), 132);  // 9: five kinds
  EXPECT_EQ(blocks("b8 h64 q384 d128 f16"), 132);
  EXPECT_EQ(blocks("b1 h64 q384 d128 f16 causal=top-left"), 132);  // no pairs: dealt out one by one
  EXPECT_EQ(blocks("b1 h8 q1024 d96 f16 causal=top-left"), 64);
}

TEST(Sm90, EveryNamedCaseThatIsTakenFitsItsRow) {
  int judged = 0;
  for (const cases::Case& c : cases::named()) {
    core::Problem p;
    ASSERT_TRUE(cases::validated(c, &p).ok()) << c.name;
    if (!production_row().supports(p).ok()) continue;
    const Choice choice = choose(p, kSms);
    EXPECT_GE(choice.tiling.dim, p.dim) << c.name;
    EXPECT_GE(choice.tiling.value_dim, p.value_dim) << c.name;
    EXPECT_GE(choice.row_tiles * choice.tiling.rows, p.queries) << c.name;
    ++judged;
  }
  EXPECT_GT(judged, 20);
}

TEST(Sm90Tensors, BoxesAreWhatTheEncoderIsAskedFor) {
  const core::Problem p = problem("b2 h16/4 q300 k500 d80 v40 bf16");
  ASSERT_TRUE(check_boxes(p).ok());
  const BoxedTensors boxes = boxes_of(p, tiling_for(96, 96, Variant::plain));
  using Extents = std::array<std::uint64_t, 4>;
  using Bytes = std::array<std::uint64_t, 3>;
  EXPECT_EQ(boxes.query.extents, (Extents{80, 300, 16, 2}));  // the true head dim: the rest is zeros
  EXPECT_EQ(boxes.query.strides_bytes, (Bytes{160, 300 * 160, 16 * 300 * 160}));
  EXPECT_EQ(boxes.query.box_rows, 64u);
  EXPECT_EQ(boxes.key.extents, (Extents{80, 500, 4, 2}));
  EXPECT_EQ(boxes.key.box_rows, 128u);
  EXPECT_EQ(boxes.value.extents, (Extents{40, 500, 4, 2}));
  EXPECT_EQ(boxes.value.strides_bytes, (Bytes{80, 500 * 80, 4 * 500 * 80}));
  EXPECT_EQ(boxes.value.data, p.kv.value.data);
  EXPECT_EQ(boxes_of(p, tiling_for(128, 128, Variant::split)).query.box_rows, 64u);
  EXPECT_EQ(boxes_of(p, tiling_for(128, 128, Variant::narrow)).query.box_rows, 8u);  // a warp's
  EXPECT_EQ(boxes.value.element, cuda::Element::bf16);
  for (const runtime::BoxedTensor& strip : boxes.strips) EXPECT_FALSE(strip.strip);
  // The last columns once more, in strips.
  const BoxedTensors with_strips = boxes_of(p, tiling_for(80, 80, Variant::tall));
  EXPECT_FALSE(with_strips.query.strip);
  EXPECT_EQ(with_strips.strips[1].extents, (Extents{80, 500, 4, 2}));
  EXPECT_EQ(with_strips.strips[1].box_rows, 48u);
  for (const runtime::BoxedTensor& strip : with_strips.strips) EXPECT_TRUE(strip.strip);
}

TEST(Sm90Tensors, StridesThatAreNeverUsedGetAValidOne) {
  core::Problem p = problem("b1 h16 q2048 d128 f16");
  for (core::Tensor4* t : {&p.query, &p.kv.key, &p.kv.value, &p.output.rows}) t->batch_stride = 1;
  p.kv.key.batch_stride = 0;
  p.kv.value.batch_stride = std::int64_t{1} << 60;
  ASSERT_TRUE(check_boxes(p).ok());
  const BoxedTensors boxes = boxes_of(p, tiling_for(128, 128, Variant::plain));
  for (const runtime::BoxedTensor* t : {&boxes.query, &boxes.key, &boxes.value})
    EXPECT_EQ(t->strides_bytes[2], 16u);
}

TEST(Sm90Tensors, NothingToCopyIsRefused) {
  core::Problem p = problem("b1 h16 q2048 d128 f16");
  p.keys = 0;
  EXPECT_EQ(check_boxes(p).message, "key has nothing along its row dimension");
}

}  // namespace
}  // namespace tessera::cuda::sm90
