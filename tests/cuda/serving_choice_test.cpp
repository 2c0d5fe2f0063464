// Whether the slots that the host gives every block of the serving kernels are enough, whatever rows and keys
// the entries turn out to have: the kernels' own arithmetic, on made-up batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/serving/params.hpp"
#include "cuda/serving/pieces.hpp"
#include "tests/cuda/planned.hpp"

namespace tessera::cuda::serving {
namespace {

using testing_cuda::Pretend;
using testing_cuda::pretended_gpu;
using testing_cuda::problem;

struct Lengths {
  int rows, keys;
};

// What an entry takes of the line, as the kernels find it (run.hpp).
struct Taken {
  Cut cut;
  int cost, sequences;

  int length() const { return cut.pieces * sequences * cost; }
};
Taken taken(const ServingParams& d, const Lengths& entry) {
  const int rows = entry.rows * d.problem.sizes.group;
  const bool here = rows >= d.least_rows && rows <= d.most_rows;
  const int row_tiles = here ? ceil_divide(rows, d.tile_rows) : 0,
            sequences = d.problem.sizes.kv_heads * row_tiles;
  const int all = d.few != 0 ? kMostPieces : kMostLargePieces;
  const Cut c = cut(ceil_divide(entry.keys, kTileKeys),
                    row_tiles <= 1 ? d.most_pieces : share_of_pieces(all, sequences));
  return {c, c.cost(d.coarse), sequences};
}

// The most that a block has of one sequence: pieces of a chain which another began, and chains that begin
// with it.
struct Most {
  int pieces, chains;
};
Most most_of_a_block(const ServingParams& d, const std::vector<Lengths>& batch) {
  int length = 0;
  for (const Lengths& each : batch) length += taken(d, each).length();
  const Line line = make_line(length, d.blocks);
  const int chain = 1 << d.chain_shift;
  int start = 0;
  Most most = {0, 0};
  for (const Lengths& each : batch) {
    const Taken t = taken(d, each);
    for (int sequence = 0; sequence < t.sequences; ++sequence) {
      for (int piece = 0; piece < t.cut.pieces;) {
        const int block = line.block_of(start + piece * t.cost);
        const int end = std::min(first_from(line.first_of(block + 1), start, t.cost), t.cut.pieces);
        const int rest_of_chain = std::min((piece + chain - 1) / chain * chain, end) - piece;
        most.pieces = std::max(most.pieces, rest_of_chain);
        if (t.cut.pieces > chain)
          most.chains = std::max(most.chains, ceil_divide(end, chain) - ceil_divide(piece, chain));
        piece = end;
      }
      start += t.cut.pieces * t.cost;
    }
  }
  return most;
}

// The parameters of every variant that would be launched.
std::vector<ServingParams> launched_for(const char* words, const std::vector<Lengths>& batch) {
  core::Problem p = problem(words);
  p.batch = static_cast<std::int64_t>(batch.size());
  p.queries = p.keys = 0;
  for (const Lengths& each : batch) {
    p.queries += each.rows;
    p.keys = std::max<std::int64_t>(p.keys, each.keys);
  }
  const Pretend pretend({pretended_gpu(90)});
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = TESSERA_CUDA;
  core::Plan plan;
  const core::Status status = core::plan(p, device, &plan);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(plan.kernel->name, "serving");
  EXPECT_TRUE(plan.prepared->submit({}, device).ok());
  std::vector<ServingParams> all;
  for (const runtime::Step& step : pretend.launched()) {
    if (step.grid[0] == 0 || step.params_bytes != sizeof(ServingParams)) continue;
    ServingParams d;
    std::memcpy(&d, step.params.data(), sizeof d);
    all.push_back(d);
  }
  return all;
}

void expect_enough(const char* words, const std::vector<Lengths>& batch) {
  const std::vector<ServingParams> all = launched_for(words, batch);
  EXPECT_FALSE(all.empty());
  for (const ServingParams& d : all) {
    const Most most = most_of_a_block(d, batch);
    EXPECT_TRUE(most.pieces <= d.slots - 1 && most.chains <= d.chain_slots)
        << words << ": " << batch.size() << " entries, the first of " << batch[0].rows << " rows and "
        << batch[0].keys << " keys, packed rows from " << d.least_rows << " on: " << most.pieces << " of "
        << d.slots - 1 << " pieces, " << most.chains << " of " << d.chain_slots << " chains";
  }
}

// The last have prompts in these kernels, too: sm90 takes no pages of 1.
constexpr const char* kWords[] = {"b2 h4/1 q9 k99 d128 bf16 ragged lengths pages=16",
                                  "b2 h1 q9 k99 d64 f16 ragged lengths pages=16",
                                  "b2 h8/2 q9 k99 d256 f16 ragged lengths pages=16",
                                  "b2 h4/1 q9 k99 d128 bf16 ragged lengths pages=1",
                                  "b2 h8/2 q9 k99 d256 f16 ragged lengths pages=1",
                                  "b2 h16/1 q9 k99 d576 v512 bf16 ragged lengths pages=16 latent"};

// Positions on the line of all pieces have 32 bits.
TEST(ServingChoice, MoreSequencesThanCanBeCountedAreRefused) {
  const Pretend pretend({pretended_gpu(90)});
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = TESSERA_CUDA;
  device.kernel = "serving";
  core::Plan plan;
  EXPECT_TRUE(core::plan(problem("b4096 h4096 q1 k1 d2 f16"), device, &plan).ok());
  const core::Status refused = core::plan(problem("b65535 h65535 q1 k1 d2 f16"), device, &plan);
  EXPECT_NE(refused.message.find("sequences of up to 8 rows; this kernel takes up to 268435456"),
            std::string::npos)
      << refused.message;
}

// Prompts whose keys are cut once, into pieces almost twice as long as the keys, beside entries of small
// pieces.
TEST(ServingSlots, AreEnoughBesideLongPrompts) {
  for (const char* words : kWords)
    for (const int tiles : {9, 17, 33, 65, 129})
      for (int prompt = 100; prompt <= 40'000; prompt *= 2)
        for (const int small : {1, 5, 20, 40})
          expect_enough(words, {{small, tiles * kTileKeys}, {prompt, tiles * kTileKeys}, {small, 70}});
}

TEST(ServingSlots, AreEnoughForRandomBatches) {
  std::mt19937 random(5);
  const auto any = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Lengths> batch;
    const int longest = any(1, 20'000);
    for (int n = any(1, 40); n > 0; --n)
      batch.push_back({any(0, 3) == 0 ? any(0, 5'000) : any(0, 20), any(0, longest)});
    for (const char* words : kWords) expect_enough(words, batch);
  }
}

}  // namespace
}  // namespace tessera::cuda::serving
