// Which registers are alive together, and slots for them. A kernel names tens of thousands of registers and
// has a few hundred alive at once; packed, a warp's values stay in the cache.
#include <algorithm>
#include <queue>

#include "emulator/ir/flow.hpp"

namespace emulator {
namespace {

using Bits = std::vector<std::uint64_t>;
bool test(const Bits& bits, int i) { return bits[i >> 6] >> (i & 63) & 1; }
void set(Bits& bits, int i) { bits[i >> 6] |= std::uint64_t{1} << (i & 63); }
void clear(Bits& bits, int i) { bits[i >> 6] &= ~(std::uint64_t{1} << (i & 63)); }
bool merge(Bits& to, const Bits& from) {
  bool grew = false;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::uint64_t more = to[i] | from[i];
    grew |= more != to[i];
    to[i] = more;
  }
  return grew;
}

bool is_product(const Instruction& in) { return in.form.substr(0, 15) == "wgmma.mma_async"; }
bool ends_products(const Instruction& in) {
  return in.form.substr(0, 16) == "wgmma.wait_group" && !in.operands.empty() && in.operands[0].value == 0;
}

struct Lifetime {
  int first = -1, last = -1;
  void cover(int at) {
    first = first < 0 ? at : std::min(first, at);
    last = std::max(last, at);
  }
};

struct Analysis {
  const Body& body;
  const std::vector<BasicBlock>& blocks;
  std::size_t words;
  std::vector<Bits> live_in, live_out;
  std::vector<Bits> flying_in, flying_out;  // accumulators of products that may still be computed

  Analysis(const Body& b, const std::vector<BasicBlock>& bs)
      : body(b), blocks(bs), words((b.registers.size() + 63) / 64) {
    live_in.assign(bs.size(), Bits(words));
    live_out = flying_in = flying_out = live_in;
  }
  void find_live();
  void find_flying();
  std::vector<Lifetime> lifetimes() const;
};

void Analysis::find_live() {
  Effects effects;
  std::vector<Bits> reads(blocks.size(), Bits(words)), writes = reads;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (int i = blocks[b].end - 1; i >= blocks[b].first; --i) {
      find_effects(body.code[i], effects);
      // Under a guard, the lanes it leaves out keep the old value.
      if (body.code[i].guard < 0)
        for (const int r : effects.writes) set(writes[b], r), clear(reads[b], r);
      for (const int r : effects.reads) set(reads[b], r);
    }
    live_in[b] = reads[b];
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t n = blocks.size(); n-- > 0;) {
      for (const int next : blocks[n].next)
        if (next < static_cast<int>(blocks.size())) changed |= merge(live_out[n], live_in[next]);
      Bits in = live_out[n];
      for (std::size_t w = 0; w < words; ++w) in[w] = (in[w] & ~writes[n][w]) | reads[n][w];
      changed |= merge(live_in[n], in);
    }
  }
}

void Analysis::find_flying() {
  const bool any = std::any_of(body.code.begin(), body.code.end(), is_product);
  if (!any) return;
  Effects effects;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      Bits flying = flying_in[b];
      for (int i = blocks[b].first; i < blocks[b].end; ++i) {
        if (ends_products(body.code[i])) std::fill(flying.begin(), flying.end(), 0);
        if (!is_product(body.code[i])) continue;
        find_effects(body.code[i], effects);
        for (const int r : effects.writes) set(flying, r);
      }
      changed |= merge(flying_out[b], flying);
      for (const int next : blocks[b].next)
        if (next < static_cast<int>(blocks.size())) changed |= merge(flying_in[next], flying_out[b]);
    }
  }
}

// In half steps: an instruction reads at 2 i and writes at 2 i + 1, so a result may take the slot of an
// operand that ends there. Not where there are several results: the first would be written over the second's
// operand.
std::vector<Lifetime> Analysis::lifetimes() const {
  std::vector<Lifetime> out(body.registers.size());
  const auto cover_all = [&](const Bits& bits, int at) {
    for (std::size_t w = 0; w < words; ++w)
      for (std::uint64_t rest = bits[w]; rest != 0; rest &= rest - 1)
        out[w * 64 + static_cast<std::size_t>(__builtin_ctzll(rest))].cover(at);
  };
  Effects effects;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    cover_all(live_in[b], 2 * blocks[b].first);
    cover_all(live_out[b], 2 * blocks[b].end);
    cover_all(flying_in[b], 2 * blocks[b].first);
    cover_all(flying_out[b], 2 * blocks[b].end);
    Bits flying = flying_in[b];
    bool any_flying = std::any_of(flying.begin(), flying.end(), [](std::uint64_t w) { return w != 0; });
    for (int i = blocks[b].first; i < blocks[b].end; ++i) {
      find_effects(body.code[i], effects);
      const bool apart = effects.writes.size() > 1 || body.code[i].guard >= 0;
      for (const int r : effects.reads) out[r].cover(2 * i);
      for (const int r : effects.writes) out[r].cover(2 * i + !apart), out[r].cover(2 * i + 1);
      if (is_product(body.code[i])) {
        for (const int r : effects.writes) set(flying, r);
        any_flying = true;
      } else if (any_flying && ends_products(body.code[i])) {
        cover_all(flying, 2 * i + 1);
        std::fill(flying.begin(), flying.end(), 0);
        any_flying = false;
      }
    }
  }
  return out;
}

// Takes registers by the start of their life; a slot is free again behind the end of one.
int pack(const std::vector<int>& registers, const std::vector<Lifetime>& lives, std::vector<int>& of) {
  std::vector<int> order = registers;
  std::sort(order.begin(), order.end(), [&](int x, int y) { return lives[x].first < lives[y].first; });
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>>
      busy;  // end, slot
  std::priority_queue<int, std::vector<int>, std::greater<>> free;
  int count = 0;
  for (const int r : order) {
    while (!busy.empty() && busy.top().first < lives[r].first) {
      free.push(busy.top().second);
      busy.pop();
    }
    int slot = count;
    if (free.empty()) {
      ++count;
    } else {
      slot = free.top();
      free.pop();
    }
    of[r] = slot;
    busy.push({lives[r].last, slot});
  }
  return count;
}

}  // namespace

Slots allocate_slots(const Body& body, const std::vector<BasicBlock>& blocks) {
  Analysis analysis(body, blocks);
  analysis.find_live();
  analysis.find_flying();
  const std::vector<Lifetime> lives = analysis.lifetimes();
  Slots slots;
  slots.of.assign(body.registers.size(), -1);
  slots.maybe_unwritten.assign(body.registers.size(), false);
  std::vector<int> words, doubles, predicates;
  for (std::size_t r = 0; r < body.registers.size(); ++r) {
    if (lives[r].first < 0) continue;
    if (!blocks.empty() && test(analysis.live_in[0], static_cast<int>(r))) slots.maybe_unwritten[r] = true;
    const RegisterType type = body.registers[r];
    auto& kind = type == RegisterType::predicate ? predicates
                 : type == RegisterType::bits64  ? doubles
                                                 : words;
    kind.push_back(static_cast<int>(r));
  }
  slots.words = pack(words, lives, slots.of);
  slots.doubles = pack(doubles, lives, slots.of);
  slots.predicates = pack(predicates, lives, slots.of);
  return slots;
}

}  // namespace emulator
