#include "suite.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tessera::peers {
namespace {

enum class Kind { prefill, decode, few_tokens };

struct Row {
  Kind kind;
  const char* title;
  const char* name;  // of the case
  std::vector<Recorded> recorded;
};

// The recorded figures: F16 K/V, 2 cores of an AMD EPYC (Zen 3), 2026-11-15.
const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {Kind::prefill, "prefill", "cpu_prefill_256", {{"llama.cpp", 52, 102}, {"ik_llama.cpp", 47, 95}}},
      {Kind::prefill, "prefill", "cpu_prefill_512", {{"llama.cpp", 52, 102}, {"ik_llama.cpp", 48, 95}}},
      {Kind::prefill, "prefill", "cpu_prefill_2k", {{"llama.cpp", 54, 105}, {"ik_llama.cpp", 49, 101}}},
      {Kind::decode, "decode", "cpu_decode_4k", {{"llama.cpp", 14, 28}, {"ik_llama.cpp", 46, 91}}},
      {Kind::decode, "decode", "cpu_decode_32k", {{"llama.cpp", 14, 27}, {"ik_llama.cpp", 27, 51}}},
      {Kind::decode, "decode", "cpu_decode_4k_b8", {{"llama.cpp", 14, 28}, {"ik_llama.cpp", 20, 32}}},
      {Kind::few_tokens, "few tokens", "cpu_few_8x4k", {{"llama.cpp", 14, 28}, {"ik_llama.cpp", 51, 101}}},
  };
  return all;
}

Case case_of(const std::string& words) {
  std::string error;
  const std::optional<Case> c = cases::parse(words, &error);
  if (!c) throw std::runtime_error(fmt::format("case '{}': {}", words, error));
  return *c;
}

constexpr double kErrorGoal = 1e-5;
constexpr double kSixteenBitTimeGoal = 1.05;
constexpr double kPrefillOfSgemmGoal = 0.88;
constexpr double kFewTokensOfSgemmGoal = 0.70;
constexpr double kPrefillOverOneDnnGoal = 1.10;
constexpr double kCausalSpeedGoal = 1.8;
constexpr double kLongDecodeOfReadGoal = 0.60;
constexpr double kLongDecodeMsGoal = 8.0;
constexpr double kCliffGoal = 0.90;

Goal at_least(const char* what, double goal, double reached) {
  return {fmt::format("{} ≥ {:.2f}", what, goal), reached, reached >= goal};
}
Goal at_most(const char* what, double goal, double reached) {
  return {fmt::format("{} ≤ {:.2f}", what, goal), reached, reached <= goal};
}

// Checks every way, keeps the right ones and leaves the fastest in front.
void choose_way(Contender* c, const Truth& truth, Line* line) {
  std::vector<std::pair<double, Way>> right;
  for (Way& way : c->ways) {
    try {
      std::memset(c->output.data(), 0xff, c->output.bytes());  // NaN in every floating dtype
      way.enter();
      way.run();
      const Check check = truth.judge(c->output.data());
      if (!check.passed) {
        line->refused = fmt::format("wrong result ({}): {}", way.how, check.why);
        continue;
      }
      line->check = check;
      const bool alone = c->ways.size() == 1;
      right.emplace_back(alone ? 0.0 : quick_time_s(way), way);
    } catch (const std::exception& e) {
      line->refused = e.what();
    }
  }
  if (right.empty()) return;
  line->refused.clear();
  const auto fastest = std::min_element(right.begin(), right.end(),
                                        [](const auto& a, const auto& b) { return a.first < b.first; });
  c->ways = {fastest->second};
  line->how = fastest->second.how;
}

// Fills rates and ratios of the lines from their timings. The first line is Tessera in f32.
void derive(const std::vector<std::unique_ptr<Contender>>& contenders, const Limit* limit, bool by_bytes,
            Block* block) {
  const Line* tessera = block->lines.front().refused.empty() ? &block->lines.front() : nullptr;
  const Line* limit_line = limit != nullptr ? &block->lines.back() : nullptr;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Line& line = block->lines[i];
    if (!line.refused.empty()) continue;
    const Contender& c = *contenders[i];
    const double time_s = line.timing.p50_s();
    const cases::Work work = cases::work(c.shape);
    line.gflops = work.flops / time_s * 1e-9;
    line.gbs = work.bytes / time_s * 1e-9;
    if (tessera != nullptr) line.time_over_tessera = median_ratio(line.timing, tessera->timing);
    if (limit_line != nullptr) {
      const double done = by_bytes ? work.bytes : work.flops;
      line.of_limit = done / limit->work * median_ratio(limit_line->timing, line.timing);
    }
  }
}

Line limit_line(const Limit& limit, bool by_bytes, Timing timing) {
  Line line;
  line.name = by_bytes ? "4-stream read" : "square SGEMM";
  line.is_limit = true;
  line.timing = std::move(timing);
  (by_bytes ? line.gbs : line.gflops) = limit.work / line.timing.p50_s() * 1e-9;
  line.of_limit = 1;
  return line;
}

// Checks all contenders, times those that passed in common rounds and derives the figures.
void run_block(std::vector<std::unique_ptr<Contender>> contenders, const std::vector<const Truth*>& truths,
               const Limit* limit, bool by_bytes, const Effort& effort, Block* block) {
  std::vector<const Way*> ways;
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Contender& c = *contenders[i];
    Line line;
    line.name = c.name;
    line.dtype = c.shape.dtype;
    line.ours = c.ours;
    choose_way(&c, *truths[i], &line);
    if (line.refused.empty()) {
      ways.push_back(&c.ways.front());
      owners.push_back(i);
    }
    block->lines.push_back(std::move(line));
  }
  if (limit != nullptr) ways.push_back(&limit->way);
  std::vector<Timing> timings = time_in_rounds(ways, effort);
  for (std::size_t i = 0; i < owners.size(); ++i) block->lines[owners[i]].timing = std::move(timings[i]);
  if (limit != nullptr) {
    block->limit_name = limit->name;
    block->lines.push_back(limit_line(*limit, by_bytes, std::move(timings.back())));
  }
  derive(contenders, limit, by_bytes, block);
}

void add_own_goals(Kind kind, const Block& block, Line* line) {
  const bool f32 = line->dtype == TESSERA_F32;
  if (f32 && block.limit_name == "SGEMM")
    line->goals.push_back(at_least(
        "of SGEMM", kind == Kind::prefill ? kPrefillOfSgemmGoal : kFewTokensOfSgemmGoal, line->of_limit));
  if (!f32 && line->time_over_tessera > 0)
    line->goals.push_back(at_most("time/f32", kSixteenBitTimeGoal, line->time_over_tessera));
  if (kind == Kind::decode && block.shape.keys >= 32768 && line->dtype == TESSERA_F16) {
    line->goals.push_back(at_least("of read", kLongDecodeOfReadGoal, line->of_limit));
    if (block.threads == 1)
      line->goals.push_back(at_most("ms", kLongDecodeMsGoal, line->timing.p50_s() * 1e3));
  }
  const double error = f32 ? line->check.relative_rms : line->check.beyond_rounding;
  line->goals.push_back({"error ≤ 1e-5", error, error <= kErrorGoal});
}

void add_goals(Kind kind, Block* block) {
  for (Line& line : block->lines) {
    if (line.is_limit || !line.refused.empty()) continue;
    if (line.ours) {
      add_own_goals(kind, *block, &line);
    } else if (line.time_over_tessera > 0) {
      const bool ten_percent = kind == Kind::prefill && line.name == "oneDNN";
      line.goals.push_back(
          at_least("speed-up", ten_percent ? kPrefillOverOneDnnGoal : 1.0, line.time_over_tessera));
    }
  }
}

}  // namespace

const Limit* Suite::sgemm(int threads) {
  auto [it, fresh] = sgemm_.try_emplace(threads);
  if (fresh) it->second = sgemm_limit(threads);
  return it->second ? &*it->second : nullptr;
}

const Limit* Suite::read(int threads) {
  const auto it = read_.find(threads);
  if (it != read_.end()) return &it->second;
  return &read_.emplace(threads, read_limit(threads, 4, Pages::huge)).first->second;
}

std::size_t Suite::shape_count() const { return rows().size(); }

namespace {

// Tessera in each dtype, with the truth for it; what they compute must outlive them.
struct InEachDtype {
  InEachDtype(const Case& f32, std::uint64_t seed, const Settings& settings, int threads) {
    for (const tessera_dtype dtype : {TESSERA_F32, TESSERA_F16, TESSERA_BF16}) {
      const Case c = in_dtype(f32, dtype);
      const std::size_t n = truths.size();
      inputs[n] = make_inputs(c, seed, settings.pages);
      truths.emplace_back(c, inputs[n], settings.seed);
      contenders.push_back(make_tessera({c, &inputs[n], threads}));
    }
  }
  Inputs inputs[3];
  std::vector<Truth> truths;
  std::vector<std::unique_ptr<Contender>> contenders;
};

}  // namespace

Block Suite::run_shape(std::size_t index, int threads) {
  const Row& row = rows()[index];
  const Case c = case_of(row.name);
  Block block{row.title, c, threads, "", {}, row.recorded};
  InEachDtype ours(c, settings_.seed + index, settings_, threads);
  std::vector<const Truth*> truths = {&ours.truths[0], &ours.truths[1], &ours.truths[2]};
  for (const Peer& peer : peers()) {
    ours.contenders.push_back(peer.make({c, &ours.inputs[0], threads}));
    truths.push_back(&ours.truths[0]);
  }
  const bool by_bytes = row.kind == Kind::decode;
  run_block(std::move(ours.contenders), truths, by_bytes ? read(threads) : sgemm(threads), by_bytes,
            settings_.effort, &block);
  add_goals(row.kind, &block);
  return block;
}

Block Suite::run_causal(int threads) {
  const Case full = case_of("cpu_prefill_2k"), causal = case_of("cpu_prefill_2k_causal");
  Block block{"causal against full", full, threads, "", {}, {}};
  const Inputs inputs = make_inputs(full, settings_.seed + 100, settings_.pages);
  const Truth truth_full(full, inputs, settings_.seed);
  const Truth truth_causal(causal, inputs, settings_.seed);
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(make_tessera({full, &inputs, threads}));
  contenders.push_back(make_tessera({causal, &inputs, threads}));
  run_block(std::move(contenders), {&truth_full, &truth_causal}, sgemm(threads), false, settings_.effort,
            &block);
  Line& line = block.lines[1];
  if (line.refused.empty() && line.time_over_tessera > 0) {
    line.goals.push_back(at_least("vs full", kCausalSpeedGoal, 1 / line.time_over_tessera));
    line.goals.push_back({"error ≤ 1e-5", line.check.relative_rms, line.check.relative_rms <= kErrorGoal});
  }
  return block;
}

std::vector<std::int64_t> Suite::sweep_queries() const {
  if (settings_.quick) return {1, 2, 5, 8, 16, 17, 33, 64};
  return {1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64};
}

Block Suite::run_sweep_point(std::int64_t queries, int threads) {
  const Case c = case_of(fmt::format("cpu_few_8x4k q{}", queries));
  Block block{"few-token sweep", c, threads, "", {}, {}};
  InEachDtype ours(c, settings_.seed + 200 + static_cast<std::uint64_t>(queries), settings_, threads);
  run_block(std::move(ours.contenders), {&ours.truths[0], &ours.truths[1], &ours.truths[2]}, sgemm(threads),
            false, settings_.effort, &block);
  Line& line = block.lines.front();
  if (line.refused.empty() && queries >= 2 && queries <= 63 && line.of_limit > 0)
    line.goals.push_back(at_least("of SGEMM", kFewTokensOfSgemmGoal, line.of_limit));
  return block;
}

void add_cliff_goals(std::vector<Block>* sweep) {
  for (std::size_t dtype = 0; dtype < 3; ++dtype) {
    double best = 0;
    for (Block& block : *sweep) {
      Line& line = block.lines[dtype];
      if (!line.refused.empty()) continue;
      // Against SGEMM of the same rounds where there is one, so that a drifting clock is no cliff.
      const double speed = line.of_limit > 0 ? line.of_limit : line.gflops;
      if (best > 0) line.goals.push_back(at_least("of shorter", kCliffGoal, speed / best));
      best = std::max(best, speed);
    }
  }
}

}  // namespace tessera::peers
