#include "emulator/ir/flow.hpp"

#include <algorithm>

#include "emulator/ptx/error.hpp"

namespace emulator {

bool is_branch(const Instruction& in) { return in.form == "bra" || in.form == "bra.uni"; }
bool is_return(const Instruction& in) {
  return in.form == "ret" || in.form == "exit" || in.form == "ret.uni";
}

namespace {

std::vector<int> find_leaders(const Body& body, std::string_view file) {
  const int count = static_cast<int>(body.code.size());
  std::vector<bool> leads(body.code.size() + 1, false);
  leads[0] = true;
  for (int i = 0; i < count; ++i) {
    const Instruction& in = body.code[i];
    if (is_branch(in)) {
      if (in.operands.size() != 1 || in.operands[0].kind != Operand::Kind::label)
        throw PtxError(file, in.line, "a branch needs one label");
      leads[in.operands[0].value] = true;
    }
    if (is_branch(in) || is_return(in)) leads[i + 1] = true;
  }
  std::vector<int> leaders;
  for (int i = 0; i < count; ++i)
    if (leads[i]) leaders.push_back(i);
  return leaders;
}

// Immediate post-dominators by the usual walk: the end dominates itself, every block the meeting point of its
// followers, until nothing changes.
void find_meeting_points(std::vector<BasicBlock>& blocks) {
  const int count = static_cast<int>(blocks.size());
  std::vector<std::vector<int>> before(count + 1);
  for (int b = 0; b < count; ++b)
    for (const int n : blocks[b].next) before[n].push_back(b);
  std::vector<int> order, rank(count + 1, -1);  // in post-order from the end, against the flow
  std::vector<bool> seen(count + 1, false);
  std::vector<std::pair<int, std::size_t>> walk{{count, 0}};
  seen[count] = true;
  while (!walk.empty()) {
    auto& [block, at] = walk.back();
    if (at < before[block].size()) {
      const int b = before[block][at++];
      if (!seen[b]) {
        seen[b] = true;
        walk.push_back({b, 0});
      }
    } else {
      rank[block] = static_cast<int>(order.size());
      order.push_back(block);
      walk.pop_back();
    }
  }
  std::vector<int> meets(count + 1, -1);
  meets[count] = count;
  const auto meet = [&](int x, int y) {
    while (x != y) {
      while (rank[x] < rank[y]) x = meets[x];
      while (rank[y] < rank[x]) y = meets[y];
    }
    return x;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (*it == count) continue;
      int found = -1;
      for (const int n : blocks[*it].next) {
        if (meets[n] < 0) continue;
        found = found < 0 ? n : meet(n, found);
      }
      if (found >= 0 && meets[*it] != found) meets[*it] = found, changed = true;
    }
  }
  for (int b = 0; b < count; ++b) blocks[b].meets_at = meets[b] == count ? -1 : meets[b];
}

}  // namespace

std::vector<BasicBlock> find_blocks(const Body& body, std::string_view file) {
  std::vector<BasicBlock> blocks;
  if (body.code.empty()) return blocks;
  const std::vector<int> leaders = find_leaders(body, file);
  const int end = static_cast<int>(leaders.size());
  const auto block_at = [&](std::int64_t instruction) {
    const auto it = std::lower_bound(leaders.begin(), leaders.end(), instruction);
    return it == leaders.end() ? end : static_cast<int>(it - leaders.begin());
  };
  for (int b = 0; b < end; ++b) {
    BasicBlock block;
    block.first = leaders[b];
    block.end = b + 1 < end ? leaders[b + 1] : static_cast<int>(body.code.size());
    const Instruction& last = body.code[block.end - 1];
    if (is_branch(last)) block.next.push_back(block_at(last.operands[0].value));
    if (is_return(last)) block.next.push_back(end);
    const bool goes_on = !(is_branch(last) || is_return(last)) || last.guard >= 0;
    if (goes_on && std::find(block.next.begin(), block.next.end(), b + 1) == block.next.end())
      block.next.push_back(b + 1);
    blocks.push_back(std::move(block));
  }
  find_meeting_points(blocks);
  return blocks;
}

namespace {

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// Opcodes whose first operand is not a result.
bool has_no_result(std::string_view form) {
  for (const std::string_view start : {"st.",
                                       "red.",
                                       "bar.sync",
                                       "bar.arrive",
                                       "bar.warp",
                                       "barrier.cta.sync",
                                       "barrier.cta.arrive",
                                       "barrier.sync",
                                       "barrier.arrive",
                                       "bra",
                                       "ret",
                                       "exit",
                                       "cp.",
                                       "mbarrier.init",
                                       "mbarrier.inval",
                                       "mbarrier.expect_tx",
                                       "mbarrier.complete_tx",
                                       "fence",
                                       "membar",
                                       "prefetch",
                                       "wgmma.fence",
                                       "wgmma.commit",
                                       "wgmma.wait",
                                       "setmaxnreg",
                                       "griddepcontrol",
                                       "trap",
                                       "nanosleep",
                                       "stmatrix",
                                       "createpolicy.none",
                                       "applypriority",
                                       "discard",
                                       "pmevent",
                                       "brkpt"})
    if (starts_with(form, start)) return true;
  return false;
}

void add_reads(const Operand& operand, std::vector<int>& reads) {
  if (operand.reg >= 0) reads.push_back(operand.reg);
  if (operand.paired >= 0) reads.push_back(operand.paired);
  for (const Operand& part : operand.parts) add_reads(part, reads);
}

}  // namespace

void find_effects(const Instruction& in, Effects& out) {
  out.writes.clear();
  out.reads.clear();
  if (in.guard >= 0) out.reads.push_back(in.guard);
  std::size_t first = 0;
  if (!has_no_result(in.form) && !in.operands.empty()) {
    first = 1;
    add_reads(in.operands[0], out.writes);
    const bool accumulates = starts_with(in.form, "wgmma.mma_async");
    if (accumulates || in.operands[0].kind == Operand::Kind::address) add_reads(in.operands[0], out.reads);
    if (in.operands[0].kind == Operand::Kind::address) out.writes.clear();
  }
  for (std::size_t i = first; i < in.operands.size(); ++i) add_reads(in.operands[i], out.reads);
}

}  // namespace emulator
