#include "cpu/batch.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tessera::cpu {

Batch make_batch(const core::Problem& problem, const Blocking& blocking, int threads, EntryCall* entries) {
  Batch batch;
  batch.entries = entries;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const core::Problem entry = problem.entry(b);
    const Schedule schedule = make_schedule(entry, blocking, threads, problem.batch);
    if (entries != nullptr)
      entries[b] = {schedule, batch.items, batch.needs.partial_floats, batch.needs.counters};
    const SharedNeeds more = schedule.needs(entry);
    batch.items += schedule.items;
    batch.needs.partial_floats += more.partial_floats;
    batch.needs.counters += more.counters;
    batch.work += work_of(entry);
  }
  return batch;
}

std::int64_t entry_of(const Batch& batch, std::int64_t entries, std::int64_t item) {
  const EntryCall* const after =
      std::upper_bound(batch.entries, batch.entries + entries, item,
                       [](std::int64_t wanted, const EntryCall& entry) { return wanted < entry.first_item; });
  return after - batch.entries - 1;
}

void clear_unowned_rows(const core::Problem& problem) {
  if (!problem.query_offsets) return;
  const core::Output& out = problem.output;
  const std::int64_t size = core::dtype_size(out.dtype);
  const auto clear = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = 0; h < problem.heads; ++h) {
      for (std::int64_t row = begin; row < end; ++row) {
        std::memset(static_cast<char*>(out.rows.data) + out.rows.offset(0, h, row) * size, 0,
                    static_cast<std::size_t>(problem.value_dim * size));
        if (out.lse != nullptr)
          out.lse[h * out.lse_strides[1] + row * out.lse_strides[2]] =
              -std::numeric_limits<float>::infinity();
      }
    }
  };
  clear(0, problem.query_offsets[0]);
  clear(problem.query_offsets[problem.batch], problem.queries);
}

double work_of(const core::Problem& entry) {
  constexpr double kPerRow = 64, kPerScore = 16;
  const double rows = static_cast<double>(entry.heads) * static_cast<double>(entry.queries);
  const double dims = static_cast<double>(entry.dim + entry.value_dim);
  return rows * (kPerRow + dims + static_cast<double>(entry.keys) * (kPerScore + dims));
}

}  // namespace tessera::cpu
