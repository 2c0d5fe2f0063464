// A batch whose entries differ in length, as a list of dense calls, one for each entry, whose items are taken
// by all threads: an entry has the bits that it has alone.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "cpu/schedule.hpp"

namespace tessera::cpu {

struct EntryCall {
  Schedule schedule;
  std::int64_t first_item = 0;                      // within all
  std::int64_t first_float = 0, first_counter = 0;  // within what the splits share
};

struct Batch {
  const EntryCall* entries = nullptr;  // [problem.batch]
  std::int64_t items = 0;
  SharedNeeds needs;
  double work = 0;  // see work_of
};

// Goes over the lengths and fills entries, unless they are null: then it measures.
Batch make_batch(const core::Problem& problem, const Blocking& blocking, int threads, EntryCall* entries);

// The entry that an item of the whole list belongs to.
std::int64_t entry_of(const Batch& batch, std::int64_t entries, std::int64_t item);

// Rows that belong to no entry: output 0, lse -inf.
void clear_unowned_rows(const core::Problem& problem);

// Multiply-adds, and what a row and an exponential cost beside them, of one batch entry.
double work_of(const core::Problem& entry);

}  // namespace tessera::cpu
