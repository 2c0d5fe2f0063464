// From a row's unnormalised output and its (max, sum) to what the caller gets, sinks and empty rows
// included; and the merge of rows whose keys were split over several items.
#if defined(TESSERA_CPU_FINISH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_FINISH_INL
#undef TESSERA_CPU_FINISH_INL
#else
#define TESSERA_CPU_FINISH_INL
#endif

#include <cmath>

#include "cpu/panel.hpp"
#include "cpu/schedule.hpp"
#include "cpu/softmax-inl.hpp"
#include "cpu/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

struct RowState {
  float max, sum;
};

// What the unnormalised output must be multiplied with, and the row's lse.
struct Normalisation {
  float multiplier;
  float lse;
};

inline Normalisation normalise(const core::Problem& problem, double natural, RowState row,
                               std::int64_t head) {
  const double sum = row.sum;
  const bool empty = row.max == -kInf && !(row.sum != row.sum);
  if (problem.scoring.sinks.data == nullptr) {
    if (empty) return {0.0f, -kInf};
    const double lse = problem.output.lse == nullptr ? 0.0 : natural * row.max + std::log(sum);
    return {static_cast<float>(1.0 / sum), static_cast<float>(lse)};
  }
  const double sink = problem.scoring.sinks.of(0, head);
  if (empty) return {0.0f, static_cast<float>(sink)};
  const double max = natural * row.max;
  const double reference = sink > max ? sink : max;
  const double weight = std::exp(max - reference);
  const double total = sum * weight + std::exp(sink - reference);
  return {static_cast<float>(weight / total), static_cast<float>(reference + std::log(total))};
}

template <class T>
inline void finish_row(const core::Problem& problem, const Scoring& scoring, const Item& item,
                       std::int64_t row, RowState state, const float* unnormalised) {
  const auto [head, query] = item.place(row);
  const Normalisation n = normalise(problem, scoring.natural, state, head);
  write_row(unnormalised, static_cast<std::size_t>(problem.value_dim), n.multiplier,
            static_cast<T*>(problem.output.rows.data) + problem.output.rows.offset(item.batch, head, query));
  if (problem.output.lse != nullptr) {
    problem.output.lse[item.batch * problem.output.lse_strides[0] + head * problem.output.lse_strides[1] +
                       query * problem.output.lse_strides[2]] = n.lse;
  }
}

// Where a split row's partial result lies: [max, sum, output ...].
inline float* partial_row(const Call& call, const Item& item, std::int64_t split, std::int64_t row) {
  const core::Problem& problem = *call.problem;
  const std::int64_t pair = item.batch * problem.kv_heads + item.kv_head;
  const std::int64_t at = (pair * call.schedule.splits + split) * call.schedule.rows + row;
  return call.partials + at * call.schedule.partial_floats(problem);
}

// Merges the splits of every row of the item's row tile, always in the order of the keys.
template <class T>
HWY_NOINLINE void merge_splits(const Call& call, const Scoring& scoring, const Item& item, float* merged) {
  const F f32;
  const core::Problem& problem = *call.problem;
  const std::size_t dim = static_cast<std::size_t>(problem.value_dim);
  for (std::int64_t row = item.row_begin; row < item.row_end; ++row) {
    RowState total{-kInf, 0.0f};
    std::fill(merged, merged + dim + kLanes, 0.0f);
    for (std::int64_t split = 0; split < call.schedule.splits; ++split) {
      const float* const part = partial_row(call, item, split, row);
      if (part[0] == -kInf && part[1] == 0) continue;
      const float old_max = total.max;
      // Written so that a NaN on either side reaches the sum.
      total.max = part[0] > old_max ? part[0] : old_max;
      const Vec max = hn::Set(f32, total.max == -kInf ? 0.0f : total.max),
                factor = hn::Set(f32, scoring.factor);
      const Vec alpha = exp2_nonpositive(hn::Mul(hn::Sub(hn::Set(f32, old_max), max), factor));
      const Vec beta = exp2_nonpositive(hn::Mul(hn::Sub(hn::Set(f32, part[0]), max), factor));
      total.sum = total.sum * hn::GetLane(alpha) + part[1] * hn::GetLane(beta);
      for (std::size_t d = 0; d < dim; d += kLanes) {
        // The last vector may read past the partial row, into the next one or the block's padding; those
        // lanes of `merged` are never used.
        const Vec x = hn::LoadU(f32, part + 2 + d);
        const Vec scaled = grow_careful(x, beta, hn::Zero(f32));
        hn::Store(grow_careful(hn::Load(f32, merged + d), alpha, scaled), f32, merged + d);
      }
    }
    finish_row<T>(problem, scoring, item, row, total, merged);
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
