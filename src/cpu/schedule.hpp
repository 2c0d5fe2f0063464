// How one problem is cut into work items.
//
//   rows of one (batch entry, kv head): query-major, the heads of the group side by side
//     row r = query * group + head in group          so that all rows share the K/V they read
//   item  = (batch entry, kv head) x row tile x key chunk
//
// Everything that changes the order of additions (key tiles, key chunks) follows from the shape alone,
// never from the batch size or the thread count; row tiles may follow the thread count, because no row's
// arithmetic depends on the rows beside it. So results are the same bits on any number of threads.
//
// A batch whose entries differ in length (offsets, pages) is worked out as if each entry were a problem of
// its own (batch.hpp): what follows from the shape then follows from the entry's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/problem.hpp"
#include "cpu/scratch.hpp"

namespace tessera::cpu {

// What the schedule must know of an instruction set's kernels, in rows (see blocking-inl.hpp).
struct Blocking {
  std::int64_t lanes = 1;      // floats in a vector
  std::int64_t wide_rows = 0;  // rows of a full panel
};

inline constexpr std::int64_t kMaxKeyTile = 120;

struct Item {
  std::int64_t batch = 0, kv_head = 0;
  std::int64_t tile = 0, split = 0;
  std::int64_t row_begin = 0, row_end = 0;
  std::int64_t key_begin = 0, key_end = 0;  // before key_lengths
  std::int64_t group = 1;

  // Query head and query of a row. Divisions of 64 bits are slow, and most problems need none.
  struct Place {
    std::int64_t head, query;
  };
  Place place(std::int64_t row) const {
    if (group == 1) return {kv_head, row};
    return {kv_head * group + row % group, row / group};
  }
};

// What the splits of rows leave for each other.
struct SharedNeeds {
  std::int64_t partial_floats = 0;
  std::int64_t counters = 0;
};

struct Schedule {
  std::int64_t group = 1;
  std::int64_t rows = 0;  // per (batch entry, kv head)
  std::int64_t row_tile = 0, row_tiles = 0;
  std::int64_t max_item_rows = 0;
  std::int64_t key_tile = 0;
  std::int64_t key_chunk = 0, splits = 1;
  std::int64_t items = 0;

  Item item(const core::Problem& problem, std::int64_t index) const;

  // Partial results of split rows: sum, max, then value_dim unnormalised outputs each.
  std::int64_t partial_floats(const core::Problem& problem) const { return problem.value_dim + 2; }
  SharedNeeds needs(const core::Problem& problem) const;
};

// `entries` are those of the whole call, of which the problem may be one.
Schedule make_schedule(const core::Problem& problem, const Blocking& blocking, int threads,
                       std::int64_t entries);

// What the entries of a batch that is worked out entry by entry need at most, whatever its lengths are.
SharedNeeds most_needs(const core::Problem& problem);

// One call as the per-target code sees it.
struct Call {
  const core::Problem* problem = nullptr;
  Schedule schedule;
  float* partials = nullptr;                        // [batch, kv head, split, row][partial_floats]
  std::atomic<std::int32_t>* unfinished = nullptr;  // splits to come, per [batch, kv head, row tile]
};

}  // namespace tessera::cpu
