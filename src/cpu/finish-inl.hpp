// From a row's unnormalised output and its (max, sum) to what the caller gets, sinks and empty rows
// included; and the merge of rows whose keys were split over several items.
#if defined(TESSERA_CPU_FINISH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_FINISH_INL
#undef TESSERA_CPU_FINISH_INL
#else
#define TESSERA_CPU_FINISH_INL
#endif

#include <cmath>
#include <type_traits>

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

// Calls body with a null pointer of the type that outputs or prior outputs have: the problem's, T, or f32; of
// codes any of the three.
template <class T, class Body>
HWY_INLINE void with_type(tessera_dtype dtype, Body body) {
  if (dtype == TESSERA_F32) {
    body(static_cast<float*>(nullptr));
  } else if constexpr (!std::is_same_v<T, Code>) {
    body(static_cast<T*>(nullptr));
  } else if (dtype == TESSERA_F16) {
    body(static_cast<F16*>(nullptr));
  } else {
    body(static_cast<BF16*>(nullptr));
  }
}

// merged += weight * part n's output for the row.
template <class T>
HWY_INLINE void add_part(const core::Problem& problem, std::int64_t at, float weight, float* merged) {
  const F f32;
  const std::size_t dim = static_cast<std::size_t>(problem.value_dim);
  HWY_ALIGN float part[TESSERA_MAX_HEAD_DIM + kLanes];
  convert_row(static_cast<const T*>(problem.prior.rows.data) + at, dim, part, hn::Zero(f32));
  std::fill(part + dim, part + dim + kLanes, 0.0f);
  for (std::size_t d = 0; d < dim; d += kLanes) {
    const Vec grown = grow_careful(hn::Load(f32, part + d), hn::Set(f32, weight), hn::Load(f32, merged + d));
    hn::Store(grown, f32, merged + d);
  }
}

// Prior parts are terms as keys are: those first, then what the keys came to, then the sink. *merged is their
// sum, still to be multiplied.
template <class T>
HWY_NOINLINE Normalisation take_in_priors(const core::Problem& problem, double natural, RowState row,
                                          Item::Place place, const float* unnormalised, float* merged) {
  const F f32;
  const core::Prior& prior = problem.prior;
  const std::size_t dim = static_cast<std::size_t>(problem.value_dim);
  const auto lse_of = [&](std::int64_t n) {
    return static_cast<double>(prior.lse[n * prior.lse_strides[0] + place.head * prior.lse_strides[1] +
                                         place.query * prior.lse_strides[2]]);
  };
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const bool no_keys = row.max == -kInf && !(row.sum != row.sum);
  const double keys = no_keys ? kNone : natural * static_cast<double>(row.max);
  const bool has_sink = problem.scoring.sinks.data != nullptr;
  const double sink = has_sink ? static_cast<double>(problem.scoring.sinks.of(0, place.head)) : kNone;
  double reference = sink > keys ? sink : keys;
  for (std::int64_t n = 0; n < prior.parts; ++n)
    if (lse_of(n) > reference) reference = lse_of(n);

  std::fill(merged, merged + dim + kLanes, 0.0f);
  double total = 0;
  bool seen = false;  // anything but -inf, NaN included
  for (std::int64_t n = 0; n < prior.parts; ++n) {
    const double lse = lse_of(n);
    if (lse == kNone) continue;
    seen = true;
    const double weight = std::exp(lse - reference);
    total += weight;
    const std::int64_t at = prior.rows.offset(n, place.head, place.query);
    with_type<T>(prior.dtype, [&](auto* type) HWY_ATTR {
      add_part<std::remove_pointer_t<decltype(type)>>(problem, at, static_cast<float>(weight), merged);
    });
  }
  if (!no_keys) {
    const double weight = std::exp(keys - reference);
    total += static_cast<double>(row.sum) * weight;
    for (std::size_t d = 0; d < dim; ++d) {
      const Vec own = hn::Set(f32, unnormalised[d]), sum = hn::Set(f32, merged[d]);
      merged[d] = hn::GetLane(grow_careful(own, hn::Set(f32, static_cast<float>(weight)), sum));
    }
  }
  if (sink != kNone) total += std::exp(sink - reference);
  if (!seen && no_keys && sink == kNone) return {0.0f, -kInf};
  return {static_cast<float>(1.0 / total), static_cast<float>(reference + std::log(total))};
}

template <class T>
HWY_INLINE void write_output(const core::Problem& problem, std::int64_t at, const float* row,
                             float multiplier) {
  const std::size_t dim = static_cast<std::size_t>(problem.value_dim);
  with_type<T>(problem.output.dtype, [&](auto* type) HWY_ATTR {
    write_row(row, dim, multiplier, static_cast<decltype(type)>(problem.output.rows.data) + at);
  });
}

template <class T>
inline void finish_row(const core::Problem& problem, const Scoring& scoring, const Item& item,
                       std::int64_t row, RowState state, const float* unnormalised) {
  const auto [head, query] = item.place(row);
  const std::int64_t at = problem.output.rows.offset(item.batch, head, query);
  Normalisation n;
  if (problem.prior.parts == 0) {
    n = normalise(problem, scoring.natural, state, head);
    write_output<T>(problem, at, unnormalised, n.multiplier);
  } else {
    HWY_ALIGN float merged[TESSERA_MAX_HEAD_DIM + kLanes];
    n = take_in_priors<T>(problem, scoring.natural, state, {head, query}, unnormalised, merged);
    write_output<T>(problem, at, merged, n.multiplier);
  }
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
