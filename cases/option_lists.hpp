// The generated cases of the list; see option_lists.cpp.
#pragma once

#include <string>
#include <vector>

#include "cases/case.hpp"

namespace tessera::cases {

struct Generated {
  std::string name, words;
};

// Every pair of options, each on a prefill of 16 bits, on a few rows of 16 bits and in f32.
std::vector<Generated> pair_list();
// Every content of a mask with every type, -inf and the lowest finite number both as what hides.
std::vector<Generated> mask_list();
// Every way to lay out a batch with every option.
std::vector<Generated> serving_list();
// Every option on 8-bit inputs, with scales of every kind.
std::vector<Generated> fp8_list();
// Every way to lay out a batch to whose keys rows can be added, and every kind of rope, with every option.
std::vector<Generated> append_list();
// Those that were written down (append_list.cpp): small ones, and big ones to be timed, with their twins.
std::vector<Generated> append_by_hand();
std::vector<Generated> append_costs();
std::vector<Generated> cache_costs();
// Keys in two tensors: every way to lay out a batch with every option, with and without new rows, codes,
// rope.
std::vector<Generated> tail_list();
std::vector<Generated> tail_by_hand();

}  // namespace tessera::cases
