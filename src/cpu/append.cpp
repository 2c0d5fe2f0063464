#include "cpu/append.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/backend.hpp"
#include "cpu/elements.hpp"
#include "cpu/pool.hpp"
#include "cpu/scratch.hpp"
#include "cpu/threads.hpp"
#include "quantise/codes.hpp"

namespace tessera::cpu {
namespace {

constexpr std::int64_t kItemRows = 16;

// A row of the query tensor: whose it is, and where it stands on the key axis.
struct Place {
  std::int64_t entry, key;
};

// Rows of `outer` that no entry has: entry -1.
Place place_of(const core::Problem& p, std::int64_t outer, std::int64_t row) {
  if (!p.query_offsets) return {outer, p.key_length(outer) - p.queries + row};
  if (row < p.query_offsets[0] || row >= p.query_offsets[p.batch]) return {-1, 0};
  std::int64_t first = 0, last = p.batch;  // the last entry that begins at or before `row`
  while (last - first > 1) {
    const std::int64_t middle = first + (last - first) / 2;
    (p.query_offsets[middle] <= row ? first : last) = middle;
  }
  return {first, p.key_length(first) - (p.query_offsets[first + 1] - row)};
}

// The angles of a row, or none.
struct Angles {
  const float *cos = nullptr, *sin = nullptr;
};

Angles angles_of(const core::Problem& p, std::int64_t outer, std::int64_t row, const Place& place) {
  const core::Rope& rope = p.append.rope;
  if (!rope) return {};
  const std::int64_t at =
      p.append.positions_dtype != 0 ? p.append.position(outer, row) : std::max<std::int64_t>(place.key, 0);
  return {rope.cos + at * rope.cos_stride, rope.sin + at * rope.sin_stride};
}

// As tessera.h has it: in f32, each operation rounded.
template <class T>
void turn(const core::Rope& rope, const Angles& angles, const T* from, T* to) {
  const std::int64_t step = rope.interleaved ? 2 : 1, other = rope.interleaved ? 1 : rope.pairs;
  for (std::int64_t j = 0; j < rope.pairs; ++j) {
    const std::int64_t at = rope.first + j * step;
    const float x = to_float(from[at]), y = to_float(from[at + other]);
    const float c = angles.cos[j], s = angles.sin[j];
    from_float(x * c - y * s, to + at);
    from_float(y * c + x * s, to + at + other);
  }
}

void copy(const void* from, std::int64_t dim, tessera_dtype dtype, void* to) {
  std::memcpy(to, from, static_cast<std::size_t>(dim * core::dtype_size(dtype)));
}

void turned(const core::Problem& p, const Angles& angles, const void* from, void* to) {
  const core::Rope& rope = p.append.rope;
  copy(from, p.dim, p.dtype, to);
  if (angles.cos == nullptr) return;
  if (p.dtype == TESSERA_F32)
    return turn(rope, angles, static_cast<const float*>(from), static_cast<float*>(to));
  if (p.dtype == TESSERA_F16) return turn(rope, angles, static_cast<const F16*>(from), static_cast<F16*>(to));
  turn(rope, angles, static_cast<const BF16*>(from), static_cast<BF16*>(to));
}

const char* element(const core::Tensor4& t, tessera_dtype dtype, std::int64_t o, std::int64_t h,
                    std::int64_t row) {
  return static_cast<const char*>(t.data) + t.offset(o, h, row) * core::dtype_size(dtype);
}
char* element_to(const core::Tensor4& t, tessera_dtype dtype, std::int64_t o, std::int64_t h,
                 std::int64_t row) {
  return static_cast<char*>(t.data) + t.offset(o, h, row) * core::dtype_size(dtype);
}

// A row of f32, f16 or bf16 as floats.
void read_floats(const void* from, std::int64_t dim, tessera_dtype dtype, float* to) {
  if (dtype == TESSERA_F32) return copy(from, dim, dtype, to);
  for (std::int64_t d = 0; d < dim; ++d)
    to[d] = dtype == TESSERA_F16 ? to_float(static_cast<const F16*>(from)[d])
                                 : to_float(static_cast<const BF16*>(from)[d]);
}

std::uint8_t encode(tessera_dtype dtype, float x) {
  return dtype == TESSERA_F8E4M3   ? codes::encode<codes::E4M3>(x)
         : dtype == TESSERA_F8E5M2 ? codes::encode<codes::E5M2>(x)
                                   : codes::encode<codes::I8>(x);
}

// Where a new row goes: [outer, head, row] of key or value.
struct Slot {
  std::int64_t outer, head, row;
};

// A row of numbers into a cache of 8 bits: divided by the scale that is there.
void write_codes(const core::Problem& p, const float* row, std::int64_t dim, const core::Scales& scales,
                 const Slot& slot, std::int64_t column_stride, void* to) {
  for (std::int64_t d = 0; d < dim; ++d)
    static_cast<std::uint8_t*>(to)[d * column_stride] =
        encode(p.kv.dtype, row[d] / scales.at(slot.outer, slot.head, slot.row, d));
}

// The same of a row of the query's dtype.
void store_codes(const core::Problem& p, const void* from, std::int64_t dim, const Angles& angles,
                 const core::Scales& scales, const Slot& slot, std::int64_t column_stride, void* to) {
  float row[TESSERA_MAX_HEAD_DIM] = {};
  read_floats(from, dim, p.dtype, row);
  if (angles.cos != nullptr) turn(p.append.rope, angles, row, row);
  write_codes(p, row, dim, scales, slot, column_stride, to);
}

// Floats as a row of f32, f16 or bf16.
void write_floats(const float* row, std::int64_t dim, tessera_dtype dtype, void* to) {
  if (dtype == TESSERA_F32) return copy(row, dim, dtype, to);
  for (std::int64_t d = 0; d < dim; ++d) {
    if (dtype == TESSERA_F16)
      from_float(row[d], static_cast<F16*>(to) + d);
    else
      from_float(row[d], static_cast<BF16*>(to) + d);
  }
}

// A new key whose last columns belong to the tail. It is turned as a whole: pairs may have one in each.
void store_with_tail(const core::Problem& p, const void* from, const Angles& angles, const Slot& slot,
                     void* key, void* tail) {
  float row[TESSERA_MAX_HEAD_DIM] = {};
  read_floats(from, p.dim, p.dtype, row);
  if (angles.cos != nullptr) turn(p.append.rope, angles, row, row);
  if (p.mixed())
    write_codes(p, row, p.key_dim(), p.scales.key, slot, 1, key);
  else
    write_floats(row, p.key_dim(), p.dtype, key);
  write_floats(row + p.key_dim(), p.kv.tail_dim, p.dtype, tail);
}

// Stores the new row of every K/V head where it stands.
void store(const core::Problem& p, std::int64_t outer, std::int64_t row, const Place& place,
           const Angles& angles) {
  if (place.key < 0) return;
  const core::PageTable& pages = p.kv.pages;
  const std::int64_t where = pages ? pages.page(place.entry, place.key / pages.rows) : place.entry;
  const std::int64_t slot = pages ? place.key % pages.rows : place.key;
  for (std::int64_t h = 0; h < p.kv_heads; ++h) {
    const Slot at{where, h, slot};
    const void* const key = element(p.append.key, p.dtype, outer, h, row);
    void* const key_slot = element_to(p.kv.key, p.kv.dtype, where, h, slot);
    if (p.kv.tail_dim > 0)
      store_with_tail(p, key, angles, at, key_slot, element_to(p.kv.tail, p.dtype, where, h, slot));
    else if (p.mixed())
      store_codes(p, key, p.dim, angles, p.scales.key, at, 1, key_slot);
    else
      turned(p, angles, key, key_slot);
    if (!p.append.stores_value) continue;
    const void* const value = element(p.append.value, p.dtype, outer, h, row);
    char* const value_slot = element_to(p.kv.value, p.kv.dtype, where, h, slot);
    const std::int64_t column = p.kv.value_column_stride;
    if (p.mixed()) {
      store_codes(p, value, p.value_dim, {}, p.scales.value, at, column, value_slot);
    } else if (column == 1) {
      copy(value, p.value_dim, p.dtype, value_slot);
    } else {  // of 8 bits
      for (std::int64_t d = 0; d < p.value_dim; ++d)
        value_slot[d * column] = static_cast<const char*>(value)[d];
    }
  }
}

// Blocks of rows of the query tensor, each by itself.
class AppendTask final : public Task {
 public:
  AppendTask(const core::Problem& problem, const core::Tensor4& query)
      : problem_(problem), query_(query), per_outer_((problem.queries + kItemRows - 1) / kItemRows) {}

  std::int64_t items() const { return (problem_.query_offsets ? 1 : problem_.batch) * per_outer_; }
  std::byte* enter(bool) noexcept override { return &nothing_; }
  void run(std::int64_t item, std::byte*) noexcept override {
    const std::int64_t outer = item / per_outer_, first = item % per_outer_ * kItemRows;
    for (std::int64_t row = first; row < std::min(first + kItemRows, problem_.queries); ++row) {
      const Place place = place_of(problem_, outer, row);
      if (place.entry < 0) continue;
      const Angles angles = angles_of(problem_, outer, row, place);
      if (problem_.append.stores) store(problem_, outer, row, place, angles);
      for (std::int64_t h = 0; problem_.append.rope && h < problem_.heads; ++h)
        turned(problem_, angles, element(problem_.query, problem_.dtype, outer, h, row),
               element_to(query_, problem_.dtype, outer, h, row));
    }
  }

 private:
  const core::Problem& problem_;
  const core::Tensor4 query_;  // the turned one
  const std::int64_t per_outer_;
  std::byte nothing_{};
};

class CpuAppend final : public core::AppendFirst {
 public:
  CpuAppend(const core::Problem& problem, const tessera_device& device,
            std::shared_ptr<const core::Prepared> attend)
      : AppendFirst(problem, std::move(attend)),
        problem_(problem),
        query_(core::after_append(problem).query),
        threads_(thread_count(device.threads)) {}

  core::Status submit(const core::Addresses& at, const tessera_device& device) const override {
    core::Problem problem = problem_;
    problem.move_to(at);
    if (core::Status s = core::validate_contents(problem); !s.ok()) return s;
    if (core::Status s = core::validate_append_contents(problem); !s.ok()) return s;
    Block block;
    void* memory = device.workspace;
    if (memory == nullptr && own_bytes_ > 0) {
      block = allocate_block(static_cast<std::size_t>(own_bytes_));
      if (!block)
        return {TESSERA_OUT_OF_MEMORY, fmt::format("no memory for {} bytes of turned queries", own_bytes_)};
      memory = block.get();
    }
    core::Tensor4 query = query_;
    query.data = memory;
    AppendTask task(problem, query);
    constexpr std::int64_t kWorthHelp = 1 << 15;  // elements: fewer are done before a helper has woken up
    const bool help = problem.all_rows() * problem.dim * (problem.heads + 2 * problem.kv_heads) >= kWorthHelp;
    run_parallel(task, task.items(), help ? threads_ : 1,
                 help ? ForeignPool{device.run_tasks, device.run_context} : ForeignPool{});
    Rest rest = rest_of(at, device, memory);
    if (device.workspace == nullptr) rest.device.workspace = nullptr, rest.device.workspace_bytes = 0;
    return attend_->submit(rest.at, rest.device);
  }

 private:
  core::Problem problem_;
  core::Tensor4 query_;
  int threads_;
};

}  // namespace

std::shared_ptr<const core::Prepared> make_append(const core::Problem& problem, const tessera_device& device,
                                                  std::shared_ptr<const core::Prepared> attend) {
  return std::make_shared<CpuAppend>(problem, device, std::move(attend));
}

}  // namespace tessera::cpu
