// A body as basic blocks: who follows whom, where diverged lanes meet again, which registers live where.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/module.hpp"

namespace emulator {

struct BasicBlock {
  int first = 0, end = 0;  // instructions
  std::vector<int> next;   // blocks; the number of blocks stands for the end of the program
  int meets_at = -1;       // the block where all paths from here meet again; -1: only at the end
};

// The last instruction of a block branches, returns or falls through. Code may end in a label.
std::vector<BasicBlock> find_blocks(const Body& body, std::string_view file);

// Registers an instruction writes and reads. Accumulators of wgmma are both.
struct Effects {
  std::vector<int> writes, reads;
};
void find_effects(const Instruction& instruction, Effects& out);
bool is_branch(const Instruction& instruction);
bool is_return(const Instruction& instruction);

// Where each register's value is kept. Two registers share a slot when they are never alive at once.
struct Slots {
  std::vector<int> of;  // by register; in its kind's numbering; -1: never written or read
  int words = 0, doubles = 0, predicates = 0;  // how many of each kind
  std::vector<bool> maybe_unwritten;           // some path reads it before any write
};
Slots allocate_slots(const Body& body, const std::vector<BasicBlock>& blocks);

}  // namespace emulator
