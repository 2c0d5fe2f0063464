// Setting up the panels of a work item: which rows go to which kind, what each row may see, its query in
// the layout its kernel reads.
#if defined(TESSERA_CPU_PANELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_PANELS_INL
#undef TESSERA_CPU_PANELS_INL
#else
#define TESSERA_CPU_PANELS_INL
#endif

#include <algorithm>
#include <type_traits>

#include "cpu/few-inl.hpp"
#include "cpu/finish-inl.hpp"
#include "cpu/panel.hpp"
#include "cpu/schedule.hpp"
#include "cpu/tiles-inl.hpp"
#include "cpu/tiny-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// With at most this many keys no panel has rows in lanes: transposing Q and O would take longer than the
// rest.
inline constexpr std::int64_t kFewKeysAll = 2;

// The scratch memory of one item. Built twice: over nothing to learn the size, then for real.
struct Workspace {
  Workspace(const core::Problem& problem, const Schedule& schedule, std::byte* base) {
    Carver carver(base);
    query_stride = static_cast<std::size_t>(padded(problem.dim));
    output_stride = static_cast<std::size_t>(padded(problem.value_dim));
    const std::int64_t tile = schedule.key_tile;
    const std::int64_t rows = schedule.max_item_rows;
    const std::int64_t panel = problem.keys <= kFewKeysAll ? kFew : static_cast<std::int64_t>(kMaxWidth);
    max_panels = rows / panel + 1 + static_cast<std::int64_t>(kMaxWidth) / kFew;
    // Panels are padded to their width; only the last few of an item can be.
    const std::int64_t width = rows + static_cast<std::int64_t>(kMaxWidth) * 2;
    // Codes, and keys in two tensors, become floats for every kernel: for those of few rows too, which read
    // others where they are.
    const bool always = core::is_8_bit(problem.kv.dtype) || problem.kv.tail_dim > 0;
    const std::int64_t converted = always ? std::max(tile, kStreams * kFewKeys) : tile;
    key = carver.take<float>(converted * padded(problem.dim));
    value = carver.take<float>(converted * padded(problem.value_dim));
    queries = carver.take<float>(width * padded(problem.dim));
    outputs = carver.take<float>(width * padded(problem.value_dim));
    score_floats = std::max(tile * static_cast<std::int64_t>(kMaxWidth),
                            kStreams * kFewKeys * static_cast<std::int64_t>(kFewWidth));
    scores = carver.take<float>(score_floats);
    const bool masked = problem.visibility.mask.kind != core::MaskKind::none;
    bias = carver.take<float>(masked ? score_floats : 0);
    states = carver.take<float>(2 * (width + max_panels * static_cast<std::int64_t>(kMaxWidth)));
    rows_in_transit = carver.take<float>(static_cast<std::int64_t>(kMaxWidth) *
                                         std::max(padded(problem.dim), padded(problem.value_dim)));
    const bool tiny = problem.dim <= kTinyDim && problem.value_dim <= kTinyDim;
    // K, V, rows as floats, scores.
    columns = carver.take<float>(tiny ? (3 * kTinyDim + 1) * static_cast<std::int64_t>(kColumnStride) : 0);
    panels = carver.take<Panel>(max_panels);
    bytes = carver.used();
  }

  std::size_t query_stride, output_stride;  // of rows that are not transposed
  std::int64_t max_panels;
  float *key, *value;  // one tile, converted
  float *queries, *outputs;
  std::int64_t score_floats;
  float *scores, *bias;
  float* columns;          // for tiny panels: see walk_tiny
  float* states;           // max and sum of every panel
  float* rows_in_transit;  // a panel's rows on their way in or out, not transposed
  Panel* panels;
  std::size_t bytes;
};

HWY_INLINE std::size_t width_of(PanelKind kind) {
  if (kind == PanelKind::wide) return kWidth<kWide>;
  return kind == PanelKind::narrow ? kWidth<kNarrow> : kFewWidth;
}

// With at most this many rows in all, the dim-in-lanes kernels take every one: the conversion of K and V
// to float, which the other kernels need, would not pay. Short heads give these kernels little to do per key
// beside the sums across lanes and the softmax, in which half of their lanes are empty.
HWY_INLINE std::int64_t few_rows_item(const core::Problem& problem) {
  return problem.dim + problem.value_dim <= 64 ? kFew : 12;
}

// Counted from the end of all rows, not of the item's: where row tiles end depends on the thread count,
// and the kind of a row's panel decides the order of its additions.
HWY_INLINE PanelKind choose_kind(const core::Problem& problem, const Scoring& scoring, std::int64_t all_rows,
                                 std::int64_t rows_left) {
  constexpr std::int64_t kLanesHere = kLanes, kNarrowRows = kWidth<kNarrow>;
  const std::int64_t shortest = std::min(problem.dim, problem.value_dim);
  const std::int64_t longest = std::max(problem.dim, problem.value_dim);
  const bool plain = !scoring.full && problem.visibility.mask.kind == core::MaskKind::none;
  if (plain && all_rows <= kFew && longest <= kTinyDim && kLanesHere > 1) return PanelKind::tiny;
  const bool few_fits = shortest >= kLanesHere;
  const bool few = all_rows <= few_rows_item(problem) || rows_left <= kFew || problem.keys <= kFewKeysAll;
  if (few && few_fits) return PanelKind::few;
  // A row or two beside a narrow panel cost less than doubling its width.
  return rows_left <= kNarrowRows + (few_fits ? 2 : 0) ? PanelKind::narrow : PanelKind::wide;
}

HWY_INLINE bool rows_in_lanes(PanelKind kind) { return kind == PanelKind::wide || kind == PanelKind::narrow; }

struct KeySpan {
  std::int64_t begin, end;
};

// The keys of the item that the band and key lengths let a query see; 0, 0 if there are none.
HWY_INLINE KeySpan visible_keys(const core::Problem& problem, const Item& item, std::int64_t keys,
                                std::int64_t query) {
  KeySpan seen{item.key_begin, std::min(keys, item.key_end)};
  if (problem.visibility.has_band) {
    const std::int64_t position = query + problem.position_offset(keys);
    seen.begin = std::max(seen.begin, position - problem.visibility.left);
    seen.end = std::min(seen.end, position + problem.visibility.right + 1);
  }
  return seen.begin < seen.end ? seen : KeySpan{0, 0};
}

// What row r of the panel sees, and where.
inline void place_row(const core::Problem& problem, const Item& item, std::int64_t keys, int r,
                      Panel* panel) {
  const std::int64_t row = panel->first_row + r;
  const auto [head, query] = item.place(row);
  const auto [begin, end] = visible_keys(problem, item, keys, query);
  panel->begin[r] = begin;
  panel->end[r] = end;
  panel->position[r] = query + problem.position_offset(keys);
  panel->slope[r] = 0;
  if (problem.scoring.alibi_slopes.data != nullptr) {
    panel->slope[r] = problem.scoring.alibi_slopes.of(item.batch, head);
  }
  const auto& strides = problem.visibility.mask.strides;
  panel->mask_offset[r] = item.batch * strides[0] + head * strides[1] + query * strides[2];
  if (begin < end) {
    const bool first = panel->key_begin >= panel->key_end;
    panel->key_begin = first ? begin : std::min(panel->key_begin, begin);
    panel->key_end = first ? end : std::max(panel->key_end, end);
  }
  panel->full_begin = std::max(panel->full_begin, begin);
  panel->full_end = std::min(panel->full_end, end);
}

// The query of a few-rows panel as its kernel wants it: see few-inl.hpp on lengths that end within a vector.
inline void place_few_query(const float* row, std::size_t dim, float* to) {
  const Spans spans(dim);
  std::copy(row, row + spans.whole * kLanes, to);
  if (spans.whole == spans.vectors) return;
  const std::size_t overlap = spans.vectors * kLanes - dim;
  for (std::size_t i = 0; i < kLanes; ++i) {
    to[spans.whole * kLanes + i] = i < overlap ? 0.0f : row[dim - kLanes + i];
  }
}

template <class T>
inline void load_queries(const core::Problem& problem, const Item& item, bool flip, const Workspace& work,
                         const Panel& panel) {
  const std::size_t dim = static_cast<std::size_t>(problem.dim), stride = work.query_stride;
  const std::size_t width = width_of(panel.kind), rows = static_cast<std::size_t>(panel.rows);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::int64_t row = panel.first_row + static_cast<std::int64_t>(r);
    const auto [head, query] = item.place(row);
    float* const to = work.rows_in_transit + r * stride;
    if constexpr (std::is_same_v<T, Code>) {
      read_query(problem, item.batch, head, query, to);
    } else {
      const T* const from =
          static_cast<const T*>(problem.query.data) + problem.query.offset(item.batch, head, query);
      convert_row(from, dim, to, hn::Zero(F()));
    }
    if (flip) {
      for (std::size_t d = 0; d < dim; ++d) to[d] = -to[d];
    }
    if (panel.kind == PanelKind::few) place_few_query(to, dim, panel.query + r * stride);
    if (panel.kind == PanelKind::tiny) std::copy(to, to + dim, panel.query + r * stride);
  }
  if (!rows_in_lanes(panel.kind)) return;
  if (rows < width) std::fill(panel.query, panel.query + dim * width, 0.0f);
  transpose(work.rows_in_transit, stride, rows, dim, panel.query, width);
}

// Cuts the item's rows into panels. Returns how many there are.
template <class T>
inline int set_up_panels(const core::Problem& problem, const Scoring& scoring, const Item& item,
                         const Workspace& work) {
  const std::int64_t keys = problem.key_length(item.batch);
  const std::int64_t all_rows = item.group * problem.queries;
  float *query = work.queries, *output = work.outputs, *state = work.states;
  int count = 0;
  for (std::int64_t row = item.row_begin; row < item.row_end; ++count) {
    Panel& panel = work.panels[count];
    panel.kind = choose_kind(problem, scoring, all_rows, all_rows - row);
    const std::int64_t width = static_cast<std::int64_t>(width_of(panel.kind));
    const std::int64_t room = rows_in_lanes(panel.kind) ? width : kFew;
    panel.rows = static_cast<int>(std::min(room, item.row_end - row));
    panel.first_row = row;
    panel.query = query;
    panel.output = output;
    panel.max = state;
    panel.sum = state + width;
    panel.key_begin = panel.key_end = 0;
    panel.full_begin = 0;
    panel.full_end = keys;
    panel.mask_key = problem.visibility.mask.first_key(keys);
    for (int r = 0; r < panel.rows; ++r) place_row(problem, item, keys, r, &panel);
    load_queries<T>(problem, item, scoring.flip_query, work, panel);
    const std::int64_t output_floats = rows_in_lanes(panel.kind)
                                           ? width * problem.value_dim
                                           : room * static_cast<std::int64_t>(work.output_stride);
    std::fill(output, output + output_floats, 0.0f);
    std::fill(panel.max, panel.max + width, -kInf);
    std::fill(panel.sum, panel.sum + width, 0.0f);
    query += room * static_cast<std::int64_t>(work.query_stride);
    output += room * static_cast<std::int64_t>(work.output_stride);
    state += 2 * width;
    row += panel.rows;
  }
  return count;
}

// Hands every row of the panel to the caller's output, or to the partial results of its split.
template <class T>
inline void finish_panel(const Call& call, const Scoring& scoring, const Item& item, const Workspace& work,
                         const Panel& panel) {
  const core::Problem& problem = *call.problem;
  const std::size_t dim = static_cast<std::size_t>(problem.value_dim);
  const std::size_t width = width_of(panel.kind);
  const bool in_lanes = rows_in_lanes(panel.kind);
  if (in_lanes) transpose(panel.output, width, dim, width, work.rows_in_transit, work.output_stride);
  const Spans spans(dim);
  for (int r = 0; r < panel.rows; ++r) {
    float* const row =
        (in_lanes ? work.rows_in_transit : panel.output) + static_cast<std::size_t>(r) * work.output_stride;
    if (panel.kind == PanelKind::few) {
      // The overlapping last vector has its own slot; the lanes it shares are equal in both.
      if (spans.whole != spans.vectors) {
        hn::StoreU(hn::Load(F(), row + spans.whole * kLanes), F(), row + dim - kLanes);
      }
    }
    const RowState state{panel.max[r], panel.sum[r]};
    if (call.schedule.splits == 1) {
      finish_row<T>(problem, scoring, item, panel.first_row + r, state, row);
    } else {
      float* const part = partial_row(call, item, item.split, panel.first_row + r);
      part[0] = state.max;
      part[1] = state.sum;
      std::copy(row, row + dim, part + 2);
    }
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
