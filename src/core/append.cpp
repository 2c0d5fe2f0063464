#include "core/append.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/shared_elements.hpp"
#include "core/tensor_checks.hpp"

namespace tessera::core {
namespace {

constexpr std::int64_t kPartAlignment = 256;  // of the workspace and of its parts

// Elements from one row of the turned query to the next.
std::int64_t turned_row(const Problem& p) {
  const std::int64_t per_16_bytes = 16 / dtype_size(p.dtype);
  return (p.dim + per_16_bytes - 1) / per_16_bytes * per_16_bytes;
}

// A tensor whose rows share memory may have more of them than a copy has room for.
Status check_room_to_turn(const Problem& p) {
  std::int64_t elements = 0;
  const std::int64_t most = INT64_MAX / dtype_size(p.dtype) / 2;
  const std::int64_t rows[] = {p.heads, p.query_offsets ? 1 : p.batch, turned_row(p)};
  elements = p.queries;
  for (const std::int64_t times : rows)
    if (__builtin_mul_overflow(elements, times, &elements) || elements > most)
      return invalid(
          fmt::format("query has {} rows of {} heads in each of {} batch entries: too many to be turned",
                      p.queries, p.heads, p.batch));
  return {};
}

Status check_new_rows(const tessera_attention& p, Problem* out) {
  const bool key = !is_absent(p.new_key), value = !is_absent(p.new_value);
  if (value && !key) return invalid("new_value is set and new_key is not: rows are stored in both");
  if (!key) return {};
  if (!is_absent(p.key_offsets)) {
    return invalid(
        "new_key and key_offsets are both set: keys that lie one behind the other have no room for new ones");
  }
  if (p.mask.align != TESSERA_ALIGN_BOTTOM_RIGHT) {
    return invalid(
        "new_key needs mask.align = bottom-right (2): a new row stands where its query stands, among the "
        "last "
        "keys");
  }
  for (const auto& [name, t] : {std::pair<std::string_view, const tessera_tensor&>{"new_key", p.new_key},
                                {"new_value", p.new_value}}) {
    if (is_absent(t)) continue;
    if (t.dtype != p.query.dtype) {
      return invalid(fmt::format("{}.dtype is {}; query's dtype ({}) is accepted", name, dtype_name(t.dtype),
                                 dtype_name(p.query.dtype)));
    }
    const std::int64_t dim = name == "new_key" ? out->dim : out->value_dim;
    const std::string_view meaning = name == "new_value" ? "value's head dimension"
                                     : out->kv.tail_dim > 0
                                         ? "the head dimension of key and key_tail together"
                                         : "key's head dimension";
    if (Status s = agree({{t, name, 0, p.query.shape[0], "query.shape[0]"},
                          {t, name, 1, out->kv_heads, "key's number of heads"},
                          {t, name, 2, out->queries, "query's number of rows"},
                          {t, name, 3, dim, meaning}});
        !s.ok())
      return s;
  }
  const auto view = [&](const tessera_tensor& t) {
    return Tensor4{t.data, out->query_offsets ? 0 : t.strides[0], t.strides[1], t.strides[2]};
  };
  out->append.stores = true;
  out->append.stores_value = value;
  out->append.key = view(p.new_key);
  if (value) out->append.value = view(p.new_value);
  if (Status s = check_written_once("key", p.key); !s.ok()) return s;
  if (Status s = check_written_once("key_tail", p.key_tail); !s.ok()) return s;
  if (value) return check_written_once("value", p.value);
  for (int d = 0; d < 3; ++d) {
    if (p.value.shape[d] <= 1 || p.value.strides[d] == p.key.strides[d]) continue;
    return invalid(
        fmt::format("value.strides[{}] is {}, but key's is {}: without new_value the values lie in "
                    "key, row by row",
                    d, p.value.strides[d], p.key.strides[d]));
  }
  if (out->value_dim <= out->key_dim()) return {};
  return invalid(
      fmt::format("value.shape[3] is {}, but key.shape[3] is {}: without new_value the values lie in "
                  "key, row by row",
                  out->value_dim, out->key_dim()));
}

Status check_rope(const tessera_attention& p, Problem* out) {
  const tessera_tensor &cos = p.rope.cos, &sin = p.rope.sin;
  if (is_absent(cos) != is_absent(sin)) {
    return invalid(fmt::format("rope.{} is set and rope.{} is not: they come together",
                               is_absent(sin) ? "cos" : "sin", is_absent(sin) ? "sin" : "cos"));
  }
  if (is_absent(cos)) {
    const auto refuse = [](std::string_view field, std::int32_t value) {
      return invalid(fmt::format("rope.{} is {}, but there is no rope.cos", field, value));
    };
    if (p.rope.first != 0) return refuse("first", p.rope.first);
    return p.rope.interleaved != 0 ? refuse("interleaved", p.rope.interleaved) : Status{};
  }
  if (is_8_bit(p.query.dtype)) {
    return invalid(fmt::format("rope is set, but query.dtype is {}: f32, f16 and bf16 are accepted with it",
                               dtype_name(p.query.dtype)));
  }
  if (Status s = agree({{sin, "rope.sin", 0, cos.shape[0], "rope.cos's number of positions"},
                        {sin, "rope.sin", 1, cos.shape[1], "rope.cos's number of pairs"}});
      !s.ok())
    return s;
  if (cos.shape[0] < 1) return invalid("rope.cos.shape[0] is 0; at least one position is needed");
  if (p.rope.first < 0) return invalid(fmt::format("rope.first is {}; 0 or more is accepted", p.rope.first));
  const std::int64_t most = (out->dim - p.rope.first) / 2;
  if (p.rope.first >= out->dim || cos.shape[1] < 1 || cos.shape[1] > most) {
    return invalid(
        fmt::format("rope.cos.shape[1] is {} and rope.first is {}: that many pairs of dimensions, from "
                    "there on, do not fit into a head dimension of {}{}",
                    cos.shape[1], p.rope.first, out->dim,
                    most >= 1 ? fmt::format("; 1 to {} pairs are accepted", most) : ""));
  }
  if (p.mask.align != TESSERA_ALIGN_BOTTOM_RIGHT && is_absent(p.positions)) {
    return invalid("rope needs mask.align = bottom-right (2) or positions: they say where the rows stand");
  }
  if (Status s = check_room_to_turn(*out); !s.ok()) return s;
  out->append.rope = {static_cast<const float*>(cos.data),
                      static_cast<const float*>(sin.data),
                      cos.strides[0],
                      sin.strides[0],
                      cos.shape[0],
                      cos.shape[1],
                      p.rope.first,
                      p.rope.interleaved != 0};
  return {};
}

Status check_positions(const tessera_attention& p, Problem* out) {
  const tessera_tensor& t = p.positions;
  if (is_absent(t)) return {};
  if (!out->append.rope) return invalid("positions is set, but there is no rope, which they are for");
  if (!is_absent(p.alibi_slopes)) {
    return invalid(
        "positions and alibi_slopes are both set: the slopes count from where a row stands on the key axis");
  }
  const int rank = out->query_offsets ? 1 : 2;
  if (t.rank != rank) {
    return invalid(fmt::format("positions.rank is {}; {} is accepted: {}", t.rank, rank,
                               rank == 1 ? "[rows], with query_offsets" : "[batch, queries]"));
  }
  out->append.positions = t.data;
  out->append.positions_dtype = t.dtype;
  out->append.positions_stride = t.strides[rank - 1];
  if (rank == 1) return agree({{t, "positions", 0, out->queries, "query's number of rows"}});
  out->append.positions_batch_stride = t.strides[0];
  return agree({{t, "positions", 0, out->batch, "query's batch"},
                {t, "positions", 1, out->queries, "query's number of rows"}});
}

// The first position in rope's tables that is not there, and whose; empty if all are.
Status check_positions_of(const Problem& p, std::int64_t b) {
  const Append& a = p.append;
  const std::int64_t first = p.query_offsets ? p.query_offsets[b] : 0, rows = p.rows_of(b);
  const auto refuse = [&](std::string_view what, std::int64_t at) {
    return invalid(fmt::format("{} is {}; 0 to {} (the positions of rope.cos) is accepted", what, at,
                               a.rope.positions - 1));
  };
  if (a.positions_dtype == 0) {
    const std::int64_t last = p.key_length(b) - 1;
    if (rows == 0 || last < a.rope.positions) return {};
    return refuse(fmt::format("the position of the last row of entry {}", b), last);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t at = a.position(b, first + i);
    if (at >= 0 && at < a.rope.positions) continue;
    return refuse(
        p.query_offsets ? fmt::format("positions[{}]", first + i) : fmt::format("positions[{}, {}]", b, i),
        at);
  }
  return {};
}

// Every new row has a place.
Status check_slots_of(const Problem& p, std::int64_t b) {
  if (!p.kv.pages) return {};
  const std::int64_t end = p.key_length(b), begin = std::max<std::int64_t>(end - p.rows_of(b), 0);
  for (std::int64_t n = begin / p.kv.pages.rows; n * p.kv.pages.rows < end && begin < end; ++n) {
    if (p.kv.pages.has(p.kv.pages.page(b, n))) continue;
    return invalid(
        fmt::format("page_table[{}, {}] is {}, and a new row of entry {} is to be stored there: {}", b, n,
                    p.kv.pages.page(b, n), b,
                    p.kv.pages.count == 0 ? "there are no pages"
                                          : fmt::format("0 to {} is accepted", p.kv.pages.count - 1)));
  }
  return {};
}

}  // namespace

Status check_append(const tessera_attention& p, Problem* out) {
  if (Status s = check_new_rows(p, out); !s.ok()) return s;
  if (Status s = check_rope(p, out); !s.ok()) return s;
  return check_positions(p, out);
}

Status check_append_memory(const tessera_attention& p, const PerTensor<std::uint64_t>& span_bytes) {
  if (span_bytes[TensorId::new_key] == 0 || span_bytes[TensorId::value] == 0) return {};
  const bool in_key = p.key.data == p.value.data;
  const bool given = span_bytes[TensorId::new_value] > 0;
  if (!given && !in_key) {
    return invalid("new_key is set and new_value is not: that is accepted where value.data is key.data");
  }
  if (given && in_key)
    return invalid("new_value is set, but value.data is key.data: what is stored in key is both then");
  if (!given || !share_an_element(p.key, p.value)) return {};
  return invalid(
      "value overlaps key in memory: what is stored in one of them would change the other; accepted are rows "
      "that lie between each other's, and value.data = key.data without new_value");
}

bool is_written(const TensorField& field, const PerTensor<std::uint64_t>& span_bytes) {
  const bool cache =
      field.id == TensorId::key || field.id == TensorId::value || field.id == TensorId::key_tail;
  if (cache) return span_bytes[TensorId::new_key] > 0;
  return field.written;
}

Status validate_append_contents(const Problem& p) {
  for (std::int64_t b = 0; b < p.batch; ++b) {
    if (p.append.rope)
      if (Status s = check_positions_of(p, b); !s.ok()) return s;
    if (p.append.stores)
      if (Status s = check_slots_of(p, b); !s.ok()) return s;
  }
  return {};
}

std::int64_t turned_query_bytes(const Problem& p) {
  if (!p.append.rope) return 0;
  return p.heads * p.all_rows() * turned_row(p) * dtype_size(p.dtype);
}

Problem after_append(const Problem& problem) {
  Problem p = problem;
  p.append = {};
  if (!problem.append.rope) return p;
  const std::int64_t row = turned_row(problem), head = row * p.queries;
  p.query = {reinterpret_cast<void*>(kPartAlignment), p.query_offsets ? 0 : head * p.heads, head, row};
  p.span_bytes[TensorId::query] = static_cast<std::uint64_t>(turned_query_bytes(problem));
  return p;
}

AppendFirst::AppendFirst(const Problem& problem, std::shared_ptr<const Prepared> attend)
    : attend_(std::move(attend)),
      stores_(problem.append.stores),
      own_bytes_((turned_query_bytes(problem) + kPartAlignment - 1) / kPartAlignment * kPartAlignment) {
  workspace_bytes = own_bytes_ + attend_->workspace_bytes;
  has_own_memory = true;
  work_items = attend_->work_items;
  threads = attend_->threads;
  splits = attend_->splits;
}

std::string AppendFirst::words() const {
  std::string words = attend_->words() + "; before it ";
  if (stores_) words += "new keys and values are stored";
  if (stores_ && own_bytes_ > 0) words += ", and ";
  if (own_bytes_ > 0) words += "queries are turned into the workspace";
  return words;
}

AppendFirst::Rest AppendFirst::rest_of(const Addresses& at, const tessera_device& device,
                                       void* memory) const {
  Rest rest{at, device};
  if (own_bytes_ > 0) rest.at[TensorId::query] = memory;
  const bool room = memory != nullptr && attend_->workspace_bytes > 0;
  rest.device.workspace = room ? static_cast<char*>(memory) + own_bytes_ : nullptr;
  rest.device.workspace_bytes = room ? static_cast<std::size_t>(attend_->workspace_bytes) : 0;
  return rest;
}

}  // namespace tessera::core
