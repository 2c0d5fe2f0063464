// The rows of the comparison: which shapes, who takes part, what is to be reached.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "check.hpp"
#include "machine.hpp"
#include "rounds.hpp"

namespace tessera::peers {

struct Goal {
  std::string text;  // ">=1.10x as fast" ...
  double reached = 0;
  bool met = false;
};

// One contender in one block.
struct Line {
  std::string name;
  std::string how;      // which of its ways was timed
  std::string refused;  // not empty: it was not timed, and why
  tessera_dtype dtype = TESSERA_F32;
  bool ours = false;
  bool is_limit = false;
  Check check;
  Timing timing;
  double gflops = 0;             // by p50
  double gbs = 0;                // by p50, every tensor once
  double of_limit = 0;           // fraction of the limit's rate, median over rounds; 0 if there is none
  double time_over_tessera = 0;  // its time / Tessera's f32 time, median over rounds; 0 if there is none
  std::vector<Goal> goals;
};

// A figure measured elsewhere on the same kind of machine, for orientation only.
struct Recorded {
  std::string name;
  double gflops_1_thread = 0, gflops_2_threads = 0;
};

struct Block {
  std::string title;
  Case shape;
  int threads = 1;
  std::string limit_name;  // "SGEMM", "read" or ""
  std::vector<Line> lines;
  std::vector<Recorded> recorded;
};

struct Settings {
  Effort effort;
  std::uint64_t seed = 0;
  Pages pages = Pages::ordinary;
  bool quick = false;
};

// Runs blocks; keeps what they share (the limits' matrices and buffers).
class Suite {
 public:
  explicit Suite(const Settings& settings) : settings_(settings) {}

  std::size_t shape_count() const;
  Block run_shape(std::size_t index, int threads);
  Block run_causal(int threads);  // Tessera alone: causal against full
  std::vector<std::int64_t> sweep_queries() const;
  Block run_sweep_point(std::int64_t queries, int threads);  // Tessera alone: few query tokens

 private:
  const Limit* sgemm(int threads);
  const Limit* read(int threads);

  Settings settings_;
  std::map<int, std::optional<Limit>> sgemm_;
  std::map<int, Limit> read_;
};

// Goals that look at a whole sweep: no length is much slower, per flop, than a shorter one.
void add_cliff_goals(std::vector<Block>* sweep);

}  // namespace tessera::peers
