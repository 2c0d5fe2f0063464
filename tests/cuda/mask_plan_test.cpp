// The pass over a mask tensor as the host plans it, without a GPU: how the mask is cut up, what that takes of
// a workspace, and where the attention kernel finds what the pass wrote.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/plan.hpp"
#include "cuda/mask/params.hpp"
#include "cuda/mask/plan.hpp"
#include "cuda/sm90/launch.hpp"
#include "cuda/sm90/tensors.hpp"
#include "tests/cuda/planned.hpp"

namespace tessera::cuda::mask {
namespace {

using testing_cuda::problem;

TEST(MaskLayout, WhatIsTheSameForAllIsLookedAtOnce) {
  struct Row {
    const char* shape;
    std::int64_t batch, heads, rows, row_granules;
  };
  for (const Row& row :
       {Row{"full", 3, 4, 200, 4}, Row{"queries-keys", 1, 1, 200, 4}, Row{"keys", 1, 1, 1, 1},
        Row{"batch-keys", 3, 1, 1, 1}, Row{"heads-queries-keys", 1, 4, 200, 4}}) {
    const core::Problem p = problem(fmt::format("b3 h4 q200 k300 d64 f16 mask=boolean:{}", row.shape));
    const Layout l = layout_of(p, true);
    EXPECT_EQ(l.batch, row.batch) << row.shape;
    EXPECT_EQ(l.heads, row.heads) << row.shape;
    EXPECT_EQ(l.rows, row.rows) << row.shape;
    EXPECT_EQ(l.row_granules, row.row_granules) << row.shape;
    EXPECT_EQ(l.tiles, 8) << row.shape;  // 5, but four are read at once
    // A byte for every granule, then 64 rows of 8 bytes for each, both from a multiple of 256 on.
    const std::int64_t granules = row.batch * row.heads * row.row_granules * 8;
    EXPECT_EQ(l.bits_at, (granules + 255) / 256 * 256) << row.shape;
    EXPECT_EQ(l.bytes - l.bits_at, granules * 64 * 8) << row.shape;
    EXPECT_EQ(l.copy_row, 0) << row.shape;

    const MaskTiles tiles = tiles_of(l);
    EXPECT_EQ(tiles.row_stride, row.rows == 1 ? 0 : 1) << row.shape;
    EXPECT_EQ(tiles.head_stride, row.heads == 1 ? 0 : row.row_granules) << row.shape;
    EXPECT_EQ(tiles.batch_stride, row.batch == 1 ? 0 : row.heads * row.row_granules) << row.shape;
  }
}

TEST(MaskLayout, WhatTmaCannotReadIsCopied) {
  // 304 keys of 2 bytes are whole chunks of 16 bytes; 303 are not, and neither are those at an odd address.
  EXPECT_EQ(layout_of(problem("b1 h2 q64 k304 d64 f16 mask=additive-bf16"), true).copy_row, 0);
  const core::Problem odd = problem("b1 h2 q64 k303 d64 f16 mask=additive-bf16:heads-queries-keys");
  const Layout copied = layout_of(odd, true);
  EXPECT_EQ(copied.copy_row, 304);
  EXPECT_EQ(copied.bytes - copied.copy_at, (2 * 64 * 304 * 2 + 255) / 256 * 256);
  EXPECT_EQ(layout_of(odd, false).copy_row, 0);
  core::Problem moved = problem("b1 h2 q64 k304 d64 f16 mask=additive-f32");
  moved.visibility.mask.data = static_cast<const char*>(moved.visibility.mask.data) + 4;
  EXPECT_EQ(layout_of(moved, true).copy_row, 304);

  const runtime::BoxedTensor box = sm90::mask_box(odd, copied, 256);
  EXPECT_EQ(box.extents, (std::array<std::uint64_t, 4>{303, 64, 2, 1}));
  EXPECT_EQ(box.strides_bytes, (std::array<std::uint64_t, 3>{608, 608 * 64, 16}));
  EXPECT_EQ(box.element, Element::bf16);
}

// A plan with a mask has two launches, of which the second reads what the first writes.
TEST(MaskSteps, TheWorkspaceIsTheCallersOrTheStreams) {
  if (!sm90::in_build()) GTEST_SKIP() << "this build has no code for sm_90a";
  const testing_cuda::Pretend pretend({testing_cuda::pretended_gpu(90)});
  const core::Problem p = problem("b2 h4 q512 k512 d64 f16 mask=boolean");
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = TESSERA_CUDA;
  device.kernel = "sm90";
  core::Plan plan;
  ASSERT_TRUE(core::plan(p, device, &plan).ok());
  const std::int64_t needed = plan.prepared->workspace_bytes;
  const Layout layout = layout_of(p, true, 2 * 8);  // row tiles of 256 rows, 2 a head
  EXPECT_EQ(needed, layout.bytes);

  alignas(256) static char given[256];
  for (char* const workspace : {static_cast<char*>(nullptr), given}) {
    device.workspace = workspace;
    const std::size_t before = pretend.launched().size();
    ASSERT_TRUE(plan.prepared->submit(core::Addresses{}, device).ok());
    ASSERT_EQ(pretend.launched().size(), before + 2);
    PassParams pass;
    std::memcpy(&pass, pretend.launched()[before].params.data(), sizeof pass);
    const char* const base = workspace == nullptr ? testing_cuda::Pretend::kOwnMemory : workspace;
    EXPECT_EQ(static_cast<const void*>(pass.states), base);
    EXPECT_EQ(static_cast<const void*>(pass.bits), base + layout.bits_at);
    EXPECT_EQ(static_cast<const void*>(pass.dealt), base + layout.dealt_at);
    EXPECT_EQ(pass.row_tiles, 16);
    EXPECT_EQ(pass.whole_chunks, 1);
    // 8 heads of 512 rows in granules of 64, one stretch of 1024 keys.
    EXPECT_EQ(pretend.launched()[before].grid[0], 64U);
  }

  // Less than is needed is refused, as a budget for the plan and in the call.
  device.workspace = nullptr;
  device.workspace_bytes = static_cast<std::size_t>(needed) - 1;
  const core::Status refused = core::plan(p, device, &plan);
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.message.find(fmt::format("{} are needed", needed)), std::string::npos) << refused.message;
}

}  // namespace
}  // namespace tessera::cuda::mask
