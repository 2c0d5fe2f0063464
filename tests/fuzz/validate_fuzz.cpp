// A problem that starts out sound and has some of its fields replaced by anything, wild pointers included.
// validate() must not touch tensor memory, must not overflow, and may say OK only if what it promises the
// backends holds; the promises are checked here in 128-bit arithmetic.
#include <fuzzer/FuzzedDataProvider.h>
#include <tessera/tessera.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <vector>

#include "core/append.hpp"
#include "core/backend.hpp"
#include "core/plan.hpp"
#include "core/problem.hpp"
#include "tests/support/fake_cpu.hpp"

using namespace tessera::core;

// In place of the real backends: a CPU with one kernel, which takes everything and is never run.
namespace tessera::core {
namespace {

class Unrun final : public Prepared {
 public:
  std::string words() const override { return ""; }
  Status submit(const Addresses&, const tessera_device&) const override { std::abort(); }
};

Kernel unrun_row() {
  Kernel row;
  row.name = "cpu_none";
  row.device = TESSERA_CPU;
  row.missing = [](const Device&) { return std::string(); };
  row.supports = [](const Problem&) { return Status{}; };
  row.estimate = [](const Problem&, const Device&) { return Estimate{1, ""}; };
  row.prepare = [](const Problem&, const Device&, std::shared_ptr<const Prepared>* out) {
    *out = std::make_shared<Unrun>();
    return Status{};
  };
  return row;
}

}  // namespace

const std::vector<const Backend*>& backends() {
  static const testing_rows::FakeCpu cpu({unrun_row()});
  static const std::vector<const Backend*> all = {&cpu};
  return all;
}

}  // namespace tessera::core

namespace {

__extension__ using Wide = __int128;

void require(bool promise) {
  if (!promise) std::abort();
}

std::int64_t any_size(FuzzedDataProvider& fuzz) {
  constexpr std::int64_t kEdges[] = {0,
                                     1,
                                     2,
                                     -1,
                                     1024,
                                     1025,
                                     INT64_MAX,
                                     INT64_MIN,
                                     std::int64_t{1} << 31,
                                     std::int64_t{1} << 61,
                                     std::int64_t{1} << 62};
  return fuzz.ConsumeBool() ? fuzz.PickValueInArray(kEdges) : fuzz.ConsumeIntegral<std::int64_t>();
}

tessera_tensor sound_tensor(std::uintptr_t* address, tessera_dtype dtype, std::vector<std::int64_t> shape) {
  tessera_tensor t = TESSERA_TENSOR_NONE;
  t.data = reinterpret_cast<void*>(*address);  // never read: nothing is mapped there
  t.dtype = dtype;
  t.rank = static_cast<std::int32_t>(shape.size());
  std::int64_t stride = 1;
  for (int d = t.rank - 1; d >= 0; --d) {
    t.shape[d] = shape[static_cast<std::size_t>(d)];
    t.strides[d] = stride;
    stride *= t.shape[d];
  }
  *address += (static_cast<std::uintptr_t>(stride) * 8 + 255) & ~std::uintptr_t{255};
  return t;
}

// The same problem with rows or keys one behind the other, keys in pages, prior results.
void make_sequences(FuzzedDataProvider& fuzz, std::uintptr_t* address, tessera_attention* p) {
  const std::int64_t batch = p->query.shape[0], heads = p->query.shape[1], kv_heads = p->key.shape[1];
  const std::int64_t queries = p->query.shape[2], keys = p->key.shape[2];
  const std::int64_t dim = p->query.shape[3], value_dim = p->value.shape[3];
  const tessera_dtype dtype = p->query.dtype, whole = fuzz.ConsumeBool() ? TESSERA_I32 : TESSERA_I64;
  if (fuzz.ConsumeBool()) {
    p->query = sound_tensor(address, dtype, {1, heads, queries, dim});
    p->output = sound_tensor(address, fuzz.ConsumeBool() ? p->output.dtype : TESSERA_F32,
                             {1, heads, queries, value_dim});
    if (p->lse.rank != 0) p->lse = sound_tensor(address, TESSERA_F32, {1, heads, queries});
    p->query_offsets = sound_tensor(address, whole, {batch + 1});
    p->mask.tensor = TESSERA_TENSOR_NONE;
    if (fuzz.ConsumeBool()) {
      const std::int64_t parts = fuzz.ConsumeIntegralInRange<std::int64_t>(0, 3);
      p->prior_output = sound_tensor(address, TESSERA_F32, {parts, heads, queries, value_dim});
      p->prior_lse = sound_tensor(address, TESSERA_F32, {parts, heads, queries});
    }
  }
  const bool paged = fuzz.ConsumeBool();
  if (!paged && fuzz.ConsumeBool()) return;
  const std::int64_t pieces = paged ? fuzz.ConsumeIntegralInRange<std::int64_t>(1, 4) : 1;
  p->key = sound_tensor(address, p->key.dtype, {pieces, kv_heads, keys, dim});
  p->value = sound_tensor(address, p->value.dtype, {pieces, kv_heads, keys, value_dim});
  p->mask.tensor = TESSERA_TENSOR_NONE;
  p->key_lengths = TESSERA_TENSOR_NONE;
  if (paged) p->key_lengths = sound_tensor(address, whole, {batch});
  if (paged) p->page_table = sound_tensor(address, TESSERA_I32, {batch, pieces});
  if (!paged) p->key_offsets = sound_tensor(address, whole, {batch + 1});
}

void add_scales(FuzzedDataProvider& fuzz, std::uintptr_t* address, tessera_attention* p) {
  const bool of_query = is_8_bit(p->query.dtype);
  if (of_query) p->precision = fuzz.ConsumeIntegralInRange<tessera_precision>(0, 1);
  p->scale_rows = fuzz.PickValueInArray({0, 64, 128});
  const struct {
    const tessera_tensor& of;
    tessera_tensor* scales;
  } all[] = {{p->query, &p->query_scales}, {p->key, &p->key_scales}, {p->value, &p->value_scales}};
  for (const auto& each : all) {
    if (!fuzz.ConsumeBool() || (each.scales == &p->query_scales && !of_query)) continue;
    const std::int64_t outer = fuzz.ConsumeBool() ? 1 : each.of.shape[0];
    const std::int64_t heads = fuzz.ConsumeBool() ? 1 : each.of.shape[1];
    const bool channels = each.scales == &p->value_scales && fuzz.ConsumeBool();
    *each.scales = sound_tensor(address, TESSERA_F32, {outer, heads, 1, channels ? each.of.shape[3] : 1});
  }
}

// New rows, rope and positions, and values that lie in their keys.
void add_append(FuzzedDataProvider& fuzz, std::uintptr_t* address, tessera_attention* p) {
  const std::int64_t *q = p->query.shape, kv_heads = p->key.shape[1];
  const bool in_key = fuzz.ConsumeBool() && p->value.shape[3] <= p->key.shape[3];
  if (fuzz.ConsumeBool()) {
    p->new_key = sound_tensor(address, p->query.dtype, {q[0], kv_heads, q[2], q[3]});
    if (!in_key)
      p->new_value = sound_tensor(address, p->query.dtype, {q[0], kv_heads, q[2], p->value.shape[3]});
  }
  if (in_key) {
    p->value.data = p->key.data;
    for (int d = 0; d < TESSERA_MAX_RANK; ++d) p->value.strides[d] = p->key.strides[d];
  }
  if (fuzz.ConsumeBool()) return;
  const std::int64_t pairs = fuzz.ConsumeIntegralInRange<std::int64_t>(1, 4), positions = 7;
  p->rope.cos = sound_tensor(address, TESSERA_F32, {positions, pairs});
  p->rope.sin = sound_tensor(address, TESSERA_F32, {positions, pairs});
  p->rope.interleaved = fuzz.ConsumeBool() ? 1 : 0;
  p->rope.first = fuzz.ConsumeIntegralInRange<std::int32_t>(0, 2);
  if (fuzz.ConsumeBool()) return;
  const tessera_dtype whole = fuzz.ConsumeBool() ? TESSERA_I32 : TESSERA_I64;
  p->positions = p->query_offsets.rank > 0 ? sound_tensor(address, whole, {q[2]})
                                           : sound_tensor(address, whole, {q[0], q[2]});
}

// The same keys in two tensors: a part of key's dimensions, and the rest of the query's as its tail.
void add_tail(FuzzedDataProvider& fuzz, std::uintptr_t* address, tessera_attention* p) {
  const std::int64_t* const k = p->key.shape;
  if (is_8_bit(p->query.dtype) || k[3] < 2) return;
  const std::int64_t tail = fuzz.ConsumeIntegralInRange<std::int64_t>(1, k[3] - 1);
  p->key_tail = sound_tensor(address, p->query.dtype, {k[0], k[1], k[2], tail});
  p->key = sound_tensor(address, p->key.dtype, {k[0], k[1], k[2], k[3] - tail});
}

tessera_attention sound_problem(FuzzedDataProvider& fuzz) {
  const auto size = [&](std::int64_t most) { return fuzz.ConsumeIntegralInRange<std::int64_t>(1, most); };
  const std::int64_t batch = size(3), kv_heads = size(3), heads = kv_heads * size(3);
  const std::int64_t queries = size(5), keys = fuzz.ConsumeBool() ? queries : size(5), dim = size(9),
                     value_dim = size(9);
  const tessera_dtype dtype = fuzz.ConsumeIntegralInRange<tessera_dtype>(TESSERA_F32, TESSERA_F8E5M2);
  const tessera_dtype cache = is_8_bit(dtype) || fuzz.ConsumeBool()
                                  ? dtype
                                  : fuzz.PickValueInArray({TESSERA_F8E4M3, TESSERA_F8E5M2, TESSERA_I8});
  const tessera_dtype wide = is_8_bit(dtype) ? TESSERA_F16 : dtype;
  std::uintptr_t address = 0x100000;
  tessera_attention p = TESSERA_ATTENTION_INIT;
  p.query = sound_tensor(&address, dtype, {batch, heads, queries, dim});
  p.key = sound_tensor(&address, cache, {batch, kv_heads, keys, dim});
  p.value = sound_tensor(&address, cache, {batch, kv_heads, keys, value_dim});
  p.output = sound_tensor(&address, wide, {batch, heads, queries, value_dim});
  if (fuzz.ConsumeBool()) p.lse = sound_tensor(&address, TESSERA_F32, {batch, heads, queries});
  if (fuzz.ConsumeBool()) {
    const bool broadcast = fuzz.ConsumeBool();
    p.mask.tensor = sound_tensor(&address, fuzz.ConsumeBool() ? TESSERA_BOOL : wide,
                                 {broadcast ? 1 : batch, broadcast ? 1 : heads, queries, keys});
  }
  if (fuzz.ConsumeBool()) p.key_lengths = sound_tensor(&address, TESSERA_I32, {batch});
  if (fuzz.ConsumeBool()) p.sinks = sound_tensor(&address, TESSERA_F32, {heads});
  if (fuzz.ConsumeBool()) make_sequences(fuzz, &address, &p);
  if (fuzz.ConsumeBool()) add_tail(fuzz, &address, &p);
  if (is_8_bit(cache)) add_scales(fuzz, &address, &p);
  p.mask.align = fuzz.ConsumeIntegralInRange<tessera_align>(0, 2);
  if (p.mask.align != TESSERA_ALIGN_NONE) p.mask.right = fuzz.ConsumeIntegralInRange<std::int64_t>(-1, 4);
  if (p.mask.align != TESSERA_ALIGN_NONE && fuzz.ConsumeBool()) {
    p.alibi_slopes = sound_tensor(&address, TESSERA_F32, {heads});
  }
  if (fuzz.ConsumeBool()) add_append(fuzz, &address, &p);
  return p;
}

void disturb(FuzzedDataProvider& fuzz, tessera_attention* p) {
  tessera_tensor* const tensors[] = {&p->query,        &p->key,           &p->value,        &p->output,
                                     &p->lse,          &p->mask.tensor,   &p->key_lengths,  &p->alibi_slopes,
                                     &p->sinks,        &p->query_offsets, &p->key_offsets,  &p->page_table,
                                     &p->prior_output, &p->prior_lse,     &p->query_scales, &p->key_scales,
                                     &p->value_scales, &p->new_key,       &p->new_value,    &p->rope.cos,
                                     &p->rope.sin,     &p->positions,     &p->key_tail};
  tessera_tensor* t = fuzz.PickValueInArray(tensors);
  const auto d = fuzz.ConsumeIntegralInRange<std::size_t>(0, TESSERA_MAX_RANK - 1);
  switch (fuzz.ConsumeIntegralInRange(0, 17)) {
    case 0:
      t->data = reinterpret_cast<void*>(fuzz.ConsumeIntegral<std::uintptr_t>());
      break;
    case 1:
      t->data = fuzz.PickValueInArray(tensors)->data;
      break;
    case 2:
      t->data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(t->data) +
                                        fuzz.ConsumeIntegralInRange<std::uintptr_t>(0, 64));
      break;
    case 3:
      t->dtype = fuzz.ConsumeIntegralInRange<tessera_dtype>(-1, 10);
      break;
    case 4:
      t->rank = fuzz.ConsumeIntegralInRange<std::int32_t>(-1, 6);
      break;
    case 5:
      t->shape[d] = any_size(fuzz);
      break;
    case 6:
      t->strides[d] = any_size(fuzz);
      break;
    case 7:
      t->strides[d] = fuzz.ConsumeIntegralInRange<std::int64_t>(0, 64);
      break;
    case 8:
      *t = TESSERA_TENSOR_NONE;
      break;
    case 9:
      p->scale = fuzz.ConsumeFloatingPoint<float>();
      break;
    case 10:
      p->softcap = fuzz.ConsumeFloatingPoint<float>();
      break;
    case 11:
      (fuzz.ConsumeBool() ? p->mask.left : p->mask.right) = any_size(fuzz);
      break;
    case 12:
      p->mask.align = fuzz.ConsumeIntegralInRange<tessera_align>(-1, 4);
      break;
    case 13:
      p->mask.tensor_align = fuzz.ConsumeIntegralInRange<tessera_align>(-1, 4);
      break;
    case 14:
      p->precision = fuzz.ConsumeIntegralInRange<tessera_precision>(-1, 3);
      break;
    case 15:
      p->scale_rows = fuzz.ConsumeIntegralInRange<std::int32_t>(-1, 200);
      break;
    case 16:
      p->rope.first = fuzz.ConsumeBool() ? fuzz.ConsumeIntegral<std::int32_t>()
                                         : fuzz.ConsumeIntegralInRange<std::int32_t>(-1, 10);
      break;
    case 17:
      p->rope.interleaved = fuzz.ConsumeIntegral<std::int32_t>();
      break;
    default:
      break;
  }
}

struct Extent {
  Wide begin = 0, end = 0;  // equal if nothing can be touched
};

// The bytes a tensor can touch: they must be addressable, and aligned to its elements.
Extent extent(const tessera_tensor& t) {
  if (t.data == nullptr && t.rank == 0) return {};
  require(t.rank >= 1 && t.rank <= TESSERA_MAX_RANK);
  const Wide size = static_cast<Wide>(dtype_size(t.dtype));
  const Wide begin = reinterpret_cast<std::uintptr_t>(t.data);
  Wide last = 0;
  for (int d = 0; d < t.rank; ++d) {
    require(t.shape[d] >= 0 && t.strides[d] >= 0);
    if (t.shape[d] == 0) return {};
  }
  for (int d = 0; d < t.rank; ++d) last += static_cast<Wide>(t.shape[d] - 1) * t.strides[d];
  require(t.data != nullptr && size > 0 && begin % size == 0);
  require(last <= INT64_MAX);  // element offsets are counted in 64 bits
  require(begin + (last + 1) * size <= static_cast<Wide>(UINTPTR_MAX));
  return {begin, begin + (last + 1) * size};
}

bool overlap(const Extent& a, const Extent& b) {
  return a.begin < a.end && b.begin < b.end && a.begin < b.end && b.begin < a.end;
}

// No two elements in one place; tried out where there are few.
void require_distinct_elements(const tessera_tensor& t) {
  Wide count = 1;
  for (int d = 0; d < t.rank; ++d) count *= t.shape[d];
  if (count > 2000 || count == 0) return;
  std::set<std::int64_t> seen;
  for (std::int64_t n = 0; n < static_cast<std::int64_t>(count); ++n) {
    std::int64_t at = 0, rest = n;
    for (int d = t.rank - 1; d >= 0; --d) {
      at += rest % t.shape[d] * t.strides[d];
      rest /= t.shape[d];
    }
    require(seen.insert(at).second);
  }
}

// The scale of the tensor's last element lies within the scales.
void require_scales_within(const tessera_tensor& of, const tessera_tensor& given, const Scales& scales) {
  const Extent all = extent(given);
  if (!scales || all.begin == all.end) return;
  for (int d = 0; d < 4; ++d)
    if (of.shape[d] == 0) return;
  const Wide last = static_cast<Wide>(of.shape[0] - 1) * scales.outer_stride +
                    static_cast<Wide>(of.shape[1] - 1) * scales.head_stride +
                    static_cast<Wide>(scales.block(of.shape[2] - 1)) * scales.block_stride +
                    static_cast<Wide>(of.shape[3] - 1) * scales.channel_stride;
  require(all.begin + (last + 1) * 4 <= all.end);
}

// Behind validation a new row has one place, its heads and dimensions are those of the keys, and the pairs
// that are turned are dimensions of a row.
void require_append(const tessera_attention& given, const Problem& p) {
  const Append& a = p.append;
  require(a.stores == (given.new_key.rank != 0) && a.stores_value == (given.new_value.rank != 0));
  if (a.stores) {
    require(given.key_offsets.rank == 0 && p.visibility.align_bottom_right);
    for (const tessera_tensor* rows : {&given.new_key, &given.new_value}) {
      if (rows->rank == 0) continue;
      require(rows->dtype == p.dtype && rows->shape[0] == given.query.shape[0]);
      require(rows->shape[1] == p.kv_heads && rows->shape[2] == p.queries);
      require(rows->strides[3] == 1 || rows->shape[3] <= 1);
    }
    require(given.new_key.shape[3] == p.dim);
    require(a.stores_value ? given.new_value.shape[3] == p.value_dim : p.value_dim <= p.key_dim());
    require_distinct_elements(given.key);
    require_distinct_elements(given.key_tail);
    if (a.stores_value) require_distinct_elements(given.value);
    for (const tessera_tensor* other : {&given.query, &given.mask.tensor, &given.key_lengths, &given.sinks,
                                        &given.query_offsets, &given.page_table, &given.new_key,
                                        &given.new_value, &given.rope.cos, &given.rope.sin, &given.positions})
      require(!overlap(extent(*other), extent(given.key)) &&
              !overlap(extent(*other), extent(given.key_tail)) &&
              (!a.stores_value || !overlap(extent(*other), extent(given.value))));
  }
  if (!a.rope) return require(given.positions.rank == 0 && turned_query_bytes(p) == 0);
  require(!is_8_bit(p.dtype) && a.rope.positions >= 1 && a.rope.first >= 0);
  require(static_cast<Wide>(a.rope.first) + 2 * static_cast<Wide>(a.rope.pairs) <= p.dim);
  require(p.visibility.align_bottom_right || a.positions_dtype != 0);
  const Wide rows = static_cast<Wide>(given.query.shape[0]) * p.heads * p.queries;
  require(turned_query_bytes(p) >= 0 && turned_query_bytes(p) >= rows * p.dim * dtype_size(p.dtype));
}

void require_promises(const tessera_attention& given, const Problem& p) {
  require(p.batch >= 0 && p.queries >= 0 && p.keys >= 0 && p.heads >= 1 && p.kv_heads >= 1);
  require(p.heads % p.kv_heads == 0);
  require(p.dim >= 1 && p.dim <= TESSERA_MAX_HEAD_DIM && p.value_dim >= 1 &&
          p.value_dim <= TESSERA_MAX_HEAD_DIM);
  const bool ragged = given.query_offsets.rank != 0, paged = given.page_table.rank != 0;
  require(given.query.shape[0] == (ragged ? 1 : p.batch) && given.query.shape[2] == p.queries);
  require(!ragged || given.query_offsets.shape[0] == p.batch + 1);
  require(given.key.shape[2] == given.value.shape[2] && given.output.shape[3] == p.value_dim);
  require(!paged || (given.page_table.shape[0] == p.batch && given.key.shape[2] == p.kv.pages.rows));
  require(!paged || static_cast<Wide>(given.page_table.shape[1]) * p.kv.pages.rows == p.keys);
  require(paged || given.key.shape[2] == p.keys);
  require(p.by_entry() == (ragged || paged || given.key_offsets.rank != 0));
  const bool tail = given.key_tail.rank != 0;
  require(tail == (p.kv.tail_dim > 0) && p.kv.tail_dim == (tail ? given.key_tail.shape[3] : 0));
  require(given.query.shape[3] == p.dim && given.key.shape[3] == p.key_dim() && p.key_dim() >= 1);
  for (int d = 0; tail && d < 3; ++d) require(given.key_tail.shape[d] == given.key.shape[d]);
  require(!tail || (given.key_tail.dtype == p.dtype && !is_8_bit(p.dtype)));
  require(p.output.dtype == p.dtype || p.output.dtype == TESSERA_F32 || is_8_bit(p.dtype));
  require(p.output.dtype >= TESSERA_F32 && p.output.dtype <= TESSERA_BF16);
  require(p.prior.parts == 0 || given.prior_lse.shape[0] == p.prior.parts);
  require(p.dtype >= TESSERA_F32 && p.dtype <= TESSERA_F8E5M2);
  require(given.key.dtype == p.kv.dtype && given.value.dtype == p.kv.dtype && given.query.dtype == p.dtype);
  require(p.kv.dtype == p.dtype || (is_8_bit(p.kv.dtype) && !is_8_bit(p.dtype)));
  require(is_8_bit(p.dtype) || (!p.scales.query && p.precision == 0));
  require(is_8_bit(p.kv.dtype) || (!p.scales.key && !p.scales.value && p.kv.value_column_stride == 1));
  require(std::isfinite(p.scoring.scale) && std::isfinite(p.scoring.softcap) && p.scoring.softcap >= 0);
  const Visibility& v = p.visibility;
  require(v.left >= 0 && v.left <= kUnboundedReach && v.right >= 0 && v.right <= kUnboundedReach);
  require(v.mask.kind == MaskKind::none || v.mask.data != nullptr);

  const Extent output = extent(given.output), lse = extent(given.lse);
  for (const tessera_tensor* input :
       {&given.query,        &given.key,       &given.value,         &given.mask.tensor, &given.key_lengths,
        &given.alibi_slopes, &given.sinks,     &given.query_offsets, &given.key_offsets, &given.page_table,
        &given.prior_output, &given.prior_lse, &given.query_scales,  &given.key_scales,  &given.value_scales,
        &given.new_key,      &given.new_value, &given.rope.cos,      &given.rope.sin,    &given.positions,
        &given.key_tail}) {
    require(!overlap(extent(*input), output) && !overlap(extent(*input), lse));
  }
  require(!overlap(output, lse));
  require_distinct_elements(given.output);
  require_distinct_elements(given.lse);
  for (const tessera_tensor* rows :
       {&given.query, &given.key, &given.value, &given.output, &given.key_tail}) {
    const bool transposed =
        rows == &given.value && is_8_bit(p.kv.dtype) && (rows->strides[2] == 1 || rows->shape[2] <= 1);
    require(rows->rank == 0 || rows->strides[3] == 1 || rows->shape[3] <= 1 || transposed);
  }
  require_append(given, p);
  require_scales_within(given.query, given.query_scales, p.scales.query);
  require_scales_within(given.key, given.key_scales, p.scales.key);
  require_scales_within(given.value, given.value_scales, p.scales.value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider fuzz(data, size);
  tessera_attention given = sound_problem(fuzz);
  for (int n = fuzz.ConsumeIntegralInRange(0, 6); n > 0; --n) disturb(fuzz, &given);

  Problem problem;
  const Status status = validate(given, &problem);
  require(status.ok() == status.message.empty());
  if (status.ok()) {
    require_promises(given, problem);
    require(cost(problem).flops >= 0);
  }
  // The interface on top of it, on a device that may not exist either.
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = fuzz.ConsumeIntegralInRange<tessera_device_kind>(0, 3);
  device.threads = fuzz.ConsumeIntegralInRange<std::int32_t>(-1, 4);
  tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
  const tessera_status planned = tessera_plan(&given, &device, &plan);
  require(status.ok() || planned != TESSERA_OK);
  char text[64];
  tessera_explain(&given, &device, text, sizeof text);
  return 0;
}
