// The producer and the consumers of the wgmma kernel as they are, on a machine made up of the host
// (protocol/machine.hpp): random problems, warps and copies in random order. Every row tile must be computed
// once, from its own Q, K and V, with all key tiles that its rows see, masked where they do not see all;
// nothing may be read before it is there or overwritten before it has been read, and nobody may wait for
// ever.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <tuple>

#include "cuda/sm90/configs.hpp"
#include "protocol/machine.hpp"
// The kernel, with stand-ins for what is PTX.
#include "cuda/sm90/consumer_rows.hpp"
#include "cuda/sm90/make_schedule.hpp"
#include "cuda/sm90/producer.hpp"

namespace tessera::testing_cuda {
namespace {

using cuda::kFarAway;
using cuda::sm90::Config;
using cuda::sm90::TileIndex;
using cuda::sm90::Variant;

struct Problem {
  int queries, keys, left, right, heads, group, batch, blocks;
  bool bottom_right;
  std::vector<int> lengths;

  bool later_rows_see_more() const { return left >= keys && right < kFarAway; }
  std::string words() const {
    std::string all =
        fmt::format("b{} h{}/{} q{} k{} left {} right {} {} blocks {} lengths", batch, heads, heads / group,
                    queries, keys, left, right, bottom_right ? "bottom-right" : "top-left", blocks);
    for (const int length : lengths) all += fmt::format(" {}", length);
    return all;
  }
};

Problem random_problem(unsigned seed, int rows_a_tile) {
  std::mt19937 random(seed);
  const auto any = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  const auto one_of = [&](int n) { return any(1, n) == 1; };
  Problem p{};
  p.queries = one_of(4) ? any(1, 40) : any(1, 4 * rows_a_tile);
  p.keys = one_of(4) ? any(1, 90) : any(1, 900);
  p.left = one_of(3) ? kFarAway : any(0, one_of(2) ? 80 : 500);
  p.right = one_of(3) ? kFarAway : one_of(2) ? 0 : any(0, 300);
  if (one_of(3)) p.left = kFarAway, p.right = 0;
  p.bottom_right = one_of(2);
  p.heads = any(1, 4);
  p.group = one_of(2) ? p.heads : 1;
  p.batch = any(1, 3);
  p.blocks = any(1, 8);
  if (one_of(2))
    for (int b = 0; b < p.batch; ++b) p.lengths.push_back(one_of(3) ? 0 : any(0, p.keys));
  return p;
}

// Policies of scores, as far as the kernel's order of events depends on them.
template <Variant kVariant, int kKeys>
struct Policy {
  static constexpr bool kMaskTensor = kVariant == Variant::general;
  static constexpr bool kEveryTile = kMaskTensor || kVariant == Variant::softcap;
  static constexpr bool kRotates = kVariant == Variant::alibi;
  using Factor = float;
  static float factor(const cuda::Params&) { return 1; }
  static void enter(const cuda::Params&, int, int) {}
  template <int kGroups>
  static void apply(float (&)[kGroups][4], const cuda::Params&, int, int key) {
    machine->perhaps_pause();
    machine->look_at_scores(key / kKeys * kKeys);
    machine->changed().push_back(key / kKeys);
  }
  template <bool, int, class Rows>
  static int shift(const Rows&, int, int key) {
    machine->look_at_scores(key / kKeys * kKeys);
    machine->shifted().push_back(key / kKeys);
    return 0;
  }
};

template <Config C, Variant kVariant>
class Kernel {
 public:
  explicit Kernel(const Problem& problem) : problem_(problem) {
    params_.query = {Piece::query, 64};
    params_.key = {Piece::key, C.keys};
    params_.value = {Piece::value, C.keys};
    cuda::Params& p = params_.problem;
    p.sizes.queries = problem.queries;
    p.sizes.keys = problem.keys;
    p.visibility.left = problem.left;
    p.visibility.right = problem.right;
    p.visibility.align_bottom_right = problem.bottom_right ? 1 : 0;
    p.kv.lengths_i32 = problem.lengths.empty() ? nullptr : problem.lengths.data();
    p.kv.lengths_stride = 1;
    params_.group = cuda::tile::make_divider(problem.group);
    if constexpr (kMask) set_mask();
    blocks_ = std::min(problem.blocks, row_tiles() * problem.heads * problem.batch);
    params_.schedule = cuda::sm90::make_schedule(row_tiles(), problem.heads, problem.batch, blocks_ * C.teams,
                                                 problem.later_rows_see_more() && dealt_.empty());
  }

  // What went wrong, or nothing.
  std::string run(unsigned seed) {
    cuda::sm90::when_written = [this](const TileIndex& at, int first_row) {
      if (const std::string wrong = check(at, first_row); !wrong.empty()) machine->fail(wrong);
      ++written_[{at.row_tile, at.head, at.batch, threadIdx.x % (128 * C.consumers)}];
    };
    gridDim.x = static_cast<unsigned>(blocks_);
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
      if (std::string wrong = run_block(seed * 1000 + blockIdx.x); !wrong.empty()) return wrong;
    const std::size_t all = static_cast<std::size_t>(row_tiles() * problem_.heads * problem_.batch) * 4 *
                            static_cast<std::size_t>(C.consumers);
    if (written_.size() != all) return "not all row tiles were written";
    for (const auto& [what, times] : written_)
      if (times != 1) return "a row tile was written twice";
    return "";
  }

 private:
  using Shared = cuda::sm90::Shared<C>;
  using Scoring = Policy<kVariant, C.keys>;
  static constexpr bool kMask = Scoring::kMaskTensor;

  // An additive mask of 16 bits, of which every granule is hidden, open or neither by chance.
  void set_mask() {
    const int tiles = std::max((problem_.keys + C.keys - 1) / C.keys, 1),
              granules = (problem_.queries + 63) / 64;
    std::mt19937 random(static_cast<unsigned>(problem_.queries * 1000 + problem_.keys));
    const bool mostly_hidden = random() % 3 == 0;
    const bool by_head = random() % 2 == 0, by_batch = random() % 2 == 0, by_row = random() % 3 != 0;
    states_.resize(static_cast<std::size_t>(tiles * granules * problem_.heads * problem_.batch));
    for (unsigned char& state : states_)
      state = mostly_hidden && random() % 4 != 0 ? cuda::sm90::kHidden
              : random() % 3 == 0                ? cuda::sm90::kHidden
              : random() % 2 == 0                ? cuda::sm90::kOpen
                                                 : cuda::sm90::kMixed;
    params_.problem.visibility.mask_kind = cuda::MaskTensorKind::additive_f16;
    params_.problem.mask_tiles = {
        states_.data(),         nullptr,       tiles, by_batch ? granules * problem_.heads : 0,
        by_head ? granules : 0, by_row ? 1 : 0};
    params_.mask = {Piece::mask, C.rows()};
    params_.slot_bytes = C.rows() * C.keys * 2;
    params_.slot_bits = static_cast<int>(random() % 3);
    while (params_.slot_bytes << params_.slot_bits > C.mask_bytes) --params_.slot_bits;
    if (random() % 4 != 0) {
      dealt_.assign(1 + static_cast<std::size_t>(row_tiles() * problem_.heads * problem_.batch), 0);
      params_.dealt = dealt_.data();
    }
    params_.box_keys = 64;
    params_.moves[0] = params_.moves[1] = params_.moves[2] = 1;
  }
  int row_tiles() const { return (problem_.queries + C.rows() - 1) / C.rows(); }
  int state(const TileIndex& at, int first_row, int tile) const {
    const cuda::MaskTiles& mask = params_.problem.mask_tiles;
    const int granule = std::min(first_row / 64, (problem_.queries - 1) / 64);
    return states_[static_cast<std::size_t>(
        (mask.batch_stride * at.batch + mask.head_stride * at.head + mask.row_stride * granule) * mask.tiles +
        tile)];
  }

  std::string run_block(unsigned seed) {
    const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(1024, 256 * 1024), std::free);
    auto* const shared = static_cast<Shared*>(memory.get());
    Machine block(seed);
    machine = &block;
    block.place(memory.get());
    for (int team = 0; team < C.teams; ++team) cuda::sm90::start_barriers(shared[team]);
    // Warpgroups, warps and the producer, some of them much slower than others.
    const auto pace = [&] { return block.chance(1.0 / 3) ? 0.02 : block.chance(0.5) ? 0.3 : 1.0; };
    for (int w = 0; w < C.warpgroups(); ++w) {
      const double warpgroup_pace = pace();
      const int team = w / C.consumers, of_team = w % C.consumers;
      for (int warp = 4 * w; warp < 4 * w + 4; ++warp)
        block.add_warp(32 * static_cast<unsigned>(warp), warpgroup_pace * (block.chance(0.25) ? 0.1 : 1),
                       [shared, team, of_team, this] {
                         cuda::sm90::Consumer<C, __half, Scoring>{params_, shared[team], team, of_team}.run();
                       });
    }
    for (int team = 0; team < C.teams; ++team)
      block.add_warp(static_cast<unsigned>(128 * C.warpgroups() + 32 * team), pace(), [shared, team, this] {
        if constexpr (kMask) {
          cuda::sm90::MaskProducer<C> producer{{params_, shared[team], team}};
          producer.run();
        } else {
          cuda::sm90::Producer<C, Scoring::kRotates>{params_, shared[team], team}.run();
        }
      });
    return block.run();
  }

  // What the warp has done since it wrote last, now that it writes rows first_row ... of a warpgroup.
  std::string check(const TileIndex& at, int first_row) {
    const int warpgroup = static_cast<int>(threadIdx.x) / 128 % C.consumers;
    if (first_row != at.row_tile * C.rows() + 64 * warpgroup) return "other rows than the warpgroup's";
    auto &scores = machine->scores(), &outputs = machine->outputs();
    std::set<int> visited;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (i >= scores.size()) return "outputs without scores";
      const int kv_head = at.head / problem_.group, row = scores[i].b.row;
      if (scores[i].a != Piece{Piece::query, first_row, at.head, at.batch}) return "scores of another Q";
      if (scores[i].b != Piece{Piece::key, row, kv_head, at.batch}) return "scores of another K";
      if (outputs[i].b != Piece{Piece::value, row, kv_head, at.batch}) return "an output of another V";
      if (scores[i].steps != C.dim / 16 || outputs[i].steps != C.keys / 16 * (C.strips ? 2 : 1))
        return "a product in part";
      if (const int before = i == 0 ? 0 : scores[i - 1].b.row; i > 0 && !follows(row, before))
        return "key tiles in another order";
      if (!visited.insert(row / C.keys).second) return "a key tile twice";
    }
    if (std::string wrong = check_tiles(at, first_row, visited); !wrong.empty()) return wrong;
    // The next row tile's first scores may have been started already.
    scores.erase(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(outputs.size()));
    if (scores.size() > (C.ahead ? 1 : 0)) return "scores without an output";
    outputs.clear();
    machine->masked().clear();
    machine->changed().clear();
    machine->shifted().clear();
    machine->applied().clear();
    return "";
  }
  // Down, one by one; with a mask tensor some are left out, and from the diagonal on they go round once.
  static bool follows(int row, int before) {
    return kMask ? row < before : row == before - C.keys || (Scoring::kRotates && row > before);
  }

  // The policy's part is in the exponents' shift; or in the scores, always of those that are masked, and then
  // not in the shift. Where something has grown, exponents are shifted once more.
  static bool once_changed(int tile, bool masked) {
    const auto changed = std::ranges::count(machine->changed(), tile),
               shifted = std::ranges::count(machine->shifted(), tile);
    return masked ? changed == 1 && shifted == 0 : changed == 1 ? shifted == 0 : shifted == 1 || shifted == 2;
  }

  std::string check_tiles(const TileIndex& at, int first_row, const std::set<int>& visited) const {
    const cuda::tile::Band band = cuda::tile::Sequence{params_.problem, at.batch}.band();
    const int end = std::min(first_row + 64, problem_.queries);  // there may be no such rows
    const auto& masked = machine->masked();
    std::set<int> seen, through_mask;
    for (int tile = 0; tile * C.keys < std::max(band.keys, C.keys); ++tile) {
      bool some = false, all = true;
      for (int row = first_row; row < end; ++row)
        for (int key = tile * C.keys; key < (tile + 1) * C.keys; ++key) {
          some |= band.visible(row, key);
          all &= band.visible(row, key);
        }
      if (some) seen.insert(tile);
      const int mask = kMask && tile < params_.problem.mask_tiles.tiles ? state(at, first_row, tile)
                                                                        : static_cast<int>(cuda::sm90::kOpen);
      const bool to_see = some && mask != cuda::sm90::kHidden;
      if (to_see) through_mask.insert(tile);
      if (to_see && !visited.contains(tile)) return "a key tile was left out";
      if (!to_see || !visited.contains(tile)) continue;
      if (!all && std::ranges::count(masked, tile) != 1) return "a key tile was not masked";
      if (Scoring::kEveryTile && std::ranges::count(machine->changed(), tile) != 1)
        return "a key tile was not changed";
      if (Scoring::kRotates && !once_changed(tile, !all))
        return "a key tile was changed twice, or not at all";
      const Piece piece{Piece::mask, tile * C.keys, at.head, at.batch};
      const auto applied = std::ranges::count(machine->applied(), piece);
      if (applied != (mask == cuda::sm90::kMixed ? 1 : 0))
        return "a mask tensor was not applied as it should be";
    }
    if (visited.empty()) return "no key tile at all";
    // With a mask tensor those between the first and the last that the warpgroup sees are visited, hidden or
    // not, if others see them.
    if (kMask && !through_mask.empty() &&
        (*visited.begin() != *through_mask.begin() || *visited.rbegin() != *through_mask.rbegin()))
      return "key tiles that the warpgroup does not see";
    if (kMask && !seen.empty()) return "";
    if (C.passes_over() && !kMask && visited != (seen.empty() ? std::set{*visited.begin()} : seen))
      return "key tiles that the warpgroup does not see";
    return "";
  }

  const Problem& problem_;
  std::conditional_t<kMask, cuda::sm90::Sm90MaskParams, cuda::sm90::StripParams> params_{};
  std::vector<unsigned char> states_;
  std::vector<int> dealt_;
  int blocks_;
  std::map<std::tuple<int, int, int, unsigned>, int> written_;  // row tile, head, batch, thread
};

template <int kDim, int kValueDim, Variant kVariant>
void try_random_problems() {
  constexpr Config kConfig = cuda::sm90::config_for(kDim, kValueDim, kVariant);
  for (unsigned seed = 1; seed <= 150; ++seed) {
    const Problem problem = random_problem(seed, kConfig.rows());
    const auto kernel = std::make_unique<Kernel<kConfig, kVariant>>(problem);
    ASSERT_EQ(kernel->run(seed), "") << problem.words() << ", seed " << seed;
  }
}

TEST(Sm90Protocol, Tall) { try_random_problems<64, 64, Variant::tall>(); }
TEST(Sm90Protocol, Twin) { try_random_problems<64, 64, Variant::twin>(); }
TEST(Sm90Protocol, Tall80) { try_random_problems<80, 80, Variant::tall>(); }
TEST(Sm90Protocol, Plain80) { try_random_problems<80, 80, Variant::plain>(); }
TEST(Sm90Protocol, Plain64) { try_random_problems<64, 64, Variant::plain>(); }
TEST(Sm90Protocol, Plain128) { try_random_problems<128, 128, Variant::plain>(); }
TEST(Sm90Protocol, Plain192) { try_random_problems<192, 192, Variant::plain>(); }
TEST(Sm90Protocol, Plain192To128) { try_random_problems<192, 128, Variant::plain>(); }
TEST(Sm90Protocol, Plain256) { try_random_problems<256, 256, Variant::plain>(); }
TEST(Sm90Protocol, Alibi64) { try_random_problems<64, 64, Variant::alibi>(); }
TEST(Sm90Protocol, Alibi128) { try_random_problems<128, 128, Variant::alibi>(); }
TEST(Sm90Protocol, Softcap64) { try_random_problems<64, 64, Variant::softcap>(); }
TEST(Sm90Protocol, Softcap128) { try_random_problems<128, 128, Variant::softcap>(); }
TEST(Sm90Protocol, Softcap256) { try_random_problems<256, 256, Variant::softcap>(); }
TEST(Sm90Protocol, General64) { try_random_problems<64, 64, Variant::general>(); }
TEST(Sm90Protocol, General128) { try_random_problems<128, 128, Variant::general>(); }
TEST(Sm90Protocol, General256) { try_random_problems<256, 256, Variant::general>(); }

}  // namespace
}  // namespace tessera::testing_cuda
