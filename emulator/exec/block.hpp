// One block from start to end on one host thread.
#pragma once

#include "emulator/exec/machine.hpp"

namespace emulator {

// Keeps its memory from block to block.
class BlockRunner {
 public:
  explicit BlockRunner(const Grid& grid);
  // Returns what went wrong; empty: nothing did. While the launch before it runs (Grid::early), it stops
  // where all warps wait for the end of that, and goes on with resume().
  std::vector<Report> run(std::uint64_t number);
  std::vector<Report> resume();
  std::uint64_t steps() const { return steps_; }

 private:
  void start(std::uint64_t number);
  std::vector<Report> proceed();
  bool waits_for_dependencies() const;
  void step();
  bool finish_something();
  void finish_by_chance();
  void check_end() const;
  [[noreturn]] void deadlock() const;
  Report describe(const Fault& fault, const Warp* running) const;

  const Grid& grid_;
  Block block_;
  std::vector<ConstantRow> registers_;
  std::vector<std::uint32_t> predicates_;
  std::vector<unsigned> ready_;
  Warp* running_ = nullptr;
  std::uint64_t steps_ = 0;
};

}  // namespace emulator
