// One key: the output of every row that sees it is the value row itself, so there is nothing to tile. The
// score is still needed: for the lse, for a sink beside it, and because a score that is no number makes the
// output none.
#if defined(TESSERA_CPU_ONE_KEY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_ONE_KEY_INL
#undef TESSERA_CPU_ONE_KEY_INL
#else
#define TESSERA_CPU_ONE_KEY_INL
#endif

#include <algorithm>
#include <type_traits>

#include "cpu/finish-inl.hpp"
#include "cpu/panels-inl.hpp"
#include "cpu/rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// What works on single scores stays with the kernels that do that.
HWY_INLINE bool has_one_key(const core::Problem& problem, const Scoring& scoring) {
  return problem.keys == 1 && !scoring.full && problem.visibility.mask.kind == core::MaskKind::none;
}

template <class T>
HWY_INLINE float dot(const T* query, const float* key, std::size_t dim) {
  const F f32;
  Vec even = hn::Zero(f32), odd = hn::Zero(f32);
  std::size_t d = 0;
  for (; d + 2 * kLanes <= dim; d += 2 * kLanes) {
    even = hn::MulAdd(load(query + d), hn::Load(f32, key + d), even);
    odd = hn::MulAdd(load(query + d + kLanes), hn::Load(f32, key + d + kLanes), odd);
  }
  for (; d + kLanes <= dim; d += kLanes) even = hn::MulAdd(load(query + d), hn::Load(f32, key + d), even);
  float sum = hn::GetLane(hn::SumOfLanes(f32, hn::Add(even, odd)));
  for (; d < dim; ++d) sum += to_float(query[d]) * key[d];
  return sum;
}

template <class T>
HWY_INLINE void attend_one_key(const core::Problem& problem, const Scoring& scoring, const Item& item,
                               const Workspace& work) {
  const std::size_t dim = static_cast<std::size_t>(problem.dim);
  const std::size_t value_dim = static_cast<std::size_t>(problem.value_dim);
  const std::int64_t keys = problem.key_length(item.batch);
  if constexpr (std::is_same_v<T, Code>) {
    if (keys > 0) {
      CodeRows::keys(problem, item).read(0, 1, work.key, work.query_stride);
      CodeRows::values(problem, item).read(0, 1, work.value, work.output_stride);
    }
  } else if (keys > 0) {  // what is past the length is not read
    const auto row_of = [&](const auto& tensor) {
      return reinterpret_cast<const T*>(Rows(problem.kv, tensor, item, sizeof(T)).row(0));
    };
    convert_row(row_of(problem.kv.key), dim, work.key, hn::Zero(F()));
    convert_row(row_of(problem.kv.value), value_dim, work.value, hn::Zero(F()));
  }
  std::fill(work.outputs, work.outputs + value_dim, 0.0f);  // of a row that sees nothing
  for (std::int64_t row = item.row_begin; row < item.row_end; ++row) {
    const auto [head, query] = item.place(row);
    float score = -kInf;
    if (const auto [begin, end] = visible_keys(problem, item, keys, query); begin < end) {
      if constexpr (std::is_same_v<T, Code>) {
        read_query(problem, item.batch, head, query, work.rows_in_transit);
        score = dot(work.rows_in_transit, work.key, dim);
      } else {
        const T* const from =
            static_cast<const T*>(problem.query.data) + problem.query.offset(item.batch, head, query);
        score = dot(from, work.key, dim);
      }
      if (scoring.flip_query) score = -score;
    }
    // The weight is exp(score - score): 1 for numbers, NaN otherwise.
    const bool hidden = score == -kInf;
    const RowState state{score, hidden ? 0.0f : 1.0f + (score - score)};
    finish_row<T>(problem, scoring, item, row, state, hidden ? work.outputs : work.value);
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
