// The launch before those of attention. Attention kernels start early and wait for its end before they read
// key, value or query (ptx/pdl.hpp). One does look at keys and values sooner, serving's producer: it has the
// first tiles brought into L2, where they are also written, and what it learnt from lengths, offsets and
// tables for that, past L1, it forgets and reads anew. So whatever it fetched too early does no harm.
#include "cuda/append/prepare.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cuda/append/dispatch.hpp"
#include "cuda/append/params.hpp"
#include "cuda/estimate.hpp"
#include "cuda/runtime/runtime.hpp"
#include "cuda/sm80/configs.hpp"
#include "cuda/steps.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::append {
namespace {

constexpr int kSmThreads = 2048;

// A dense batch, or all rows one behind the other.
std::int64_t outer_of(const core::Problem& p) { return p.query_offsets ? 1 : p.batch; }

// All rows that are moved are of whole chunks of 16 bytes, and what is turned with each other lies in chunks
// of its own, or in one.
bool wide(const core::Problem& p) {
  const core::Append& a = p.append;
  const auto rows = [&](const core::Tensor4& t, std::int64_t heads, std::int64_t dim) {
    return rows_of_16_bytes(p, t, outer_of(p), heads, p.queries, dim);
  };
  const auto slots = [&](const core::Tensor4& t, std::int64_t dim) {
    return rows_of_16_bytes(p, t, p.kv.pages ? p.kv.pages.count : p.batch, p.kv_heads,
                            p.kv.pages ? p.kv.pages.rows : p.keys, dim);
  };
  const auto angles = [&](const float* data, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && (a.rope.positions == 1 || stride % 4 == 0);
  };
  const std::int64_t elements = 16 / core::dtype_size(p.dtype);
  if (a.stores && !(rows(a.key, p.kv_heads, p.dim) && slots(p.kv.key, p.dim))) return false;
  if (a.stores_value && !(p.kv.value_column_stride == 1 && rows(a.value, p.kv_heads, p.value_dim) &&
                          slots(p.kv.value, p.value_dim)))
    return false;
  if (!a.rope) return true;
  return rows(p.query, p.heads, p.dim) && angles(a.rope.cos, a.rope.cos_stride) &&
         angles(a.rope.sin, a.rope.sin_stride) && a.rope.first % elements == 0 &&
         a.rope.pairs * (a.rope.interleaved ? 2 : 1) % elements == 0;
}

// `elements` of a chunk.
Slots slots_of(const core::Problem& p, int elements) {
  const core::Rope& rope = p.append.rope;
  const int chunks = static_cast<int>(p.dim) / elements, pairs = static_cast<int>(rope.pairs);
  Slots s{};
  s.first = static_cast<int>(rope.first) / elements;
  s.step = 1;
  if (!rope.interleaved) {
    s.turning = s.other = s.skip = pairs / elements;
  } else if (elements == 1) {
    s.turning = s.skip = pairs;
    s.step = 2;
    s.other = 1;
  } else {
    s.turning = 2 * pairs / elements;
  }
  s.all = tile::make_divider(std::max(chunks - s.skip, 1));
  return s;
}

Tensor tensor_of(const core::Tensor4& t) { return {t.data, {t.batch_stride, t.head_stride, t.row_stride}}; }

AppendParams params_of(const core::Problem& p, bool wide) {
  const core::Append& a = p.append;
  const int elements = wide ? static_cast<int>(16 / core::dtype_size(p.dtype)) : 1;
  const int value_chunks = static_cast<int>(p.value_dim) / elements;
  AppendParams params{};
  params.problem = translate(p, 1);
  if (a.rope) params.turned = tensor_of(core::after_append(p).query);
  params.new_key = tensor_of(a.key);
  params.new_value = tensor_of(a.value);
  params.value_column = p.kv.value_column_stride;
  if (p.mixed()) {
    const Coded coded = translate_coded(p);
    params.codes = codes_of(p.kv.dtype);
    params.key_scales = coded.key;
    params.value_scales = coded.value;
  }
  params.rope = {a.rope.cos, a.rope.sin, a.rope.cos_stride, a.rope.sin_stride,
                 static_cast<int>(std::min<std::int64_t>(a.rope.positions, kMaxLength))};
  params.positions = {a.positions, a.positions_batch_stride, a.positions_stride,
                      a.positions_dtype == TESSERA_I64 ? 1 : 0};
  params.slots = slots_of(p, elements);
  params.value_slots = tile::make_divider(std::max(value_chunks, 1));
  const int kv_heads = static_cast<int>(p.kv_heads);
  params.query_heads = a.rope ? static_cast<int>(p.heads) : 0;
  params.key_slots =
      (params.query_heads + (a.stores ? kv_heads : 0)) * static_cast<int>(params.slots.all.divisor);
  params.tail = tensor_of(p.kv.tail);
  params.tail_first = static_cast<int>(p.key_dim());
  params.all_slots = params.key_slots + (a.stores_value ? kv_heads * value_chunks : 0);
  return params;
}

core::Status place(void* params, const core::Addresses& at, void* workspace) {
  using core::TensorId;
  auto* const p = static_cast<AppendParams*>(params);
  cuda::place(&p->problem, at);
  p->turned.data = workspace;
  p->new_key.data = at[TensorId::new_key];
  p->new_value.data = at[TensorId::new_value];
  p->tail.data = at[TensorId::key_tail];
  p->key_scales.data = static_cast<const float*>(at[TensorId::key_scales]);
  p->value_scales.data = static_cast<const float*>(at[TensorId::value_scales]);
  p->rope.cos = static_cast<const float*>(at[TensorId::rope_cos]);
  p->rope.sin = static_cast<const float*>(at[TensorId::rope_sin]);
  p->positions.data = at[TensorId::positions];
  return {};
}

core::Status set_step(const core::Problem& p, const runtime::Gpu& gpu, runtime::Step* step) {
  const bool tail = p.append.stores && p.kv.tail_dim > 0;
  const Way way = p.mixed() ? Way::codes : !tail && wide(p) ? Way::wide : Way::narrow;
  const AppendParams params = params_of(p, way == Way::wide);
  step->kernel = "the pass that stores new rows";
  step->function =
      tail ? tail_function_for(element_of(p.dtype), way) : function_for(element_of(p.dtype), way);
  step->set_params(params);
  step->place = place;
  step->threads = kThreads;
  int arch = 0;
  if (core::Status s = runtime::current().code_arch(step->function, gpu.index, &arch); !s.ok()) return s;
  step->pdl = sm80::pdl(arch);
  // A slot for each thread, as long as the GPU has threads; a block for each row at least.
  const std::int64_t rows = p.queries * outer_of(p), parts = divide_up(params.all_slots, kThreads),
                     blocks = std::int64_t{gpu.sms} * (kSmThreads / kThreads);
  step->grid[0] = static_cast<unsigned>(p.queries);
  step->grid[1] = static_cast<unsigned>(
      std::min(parts, std::max<std::int64_t>(blocks / std::max<std::int64_t>(rows, 1), 1)));
  step->grid[2] = static_cast<unsigned>(outer_of(p));
  return {};
}

class CudaAppend final : public core::AppendFirst {
 public:
  CudaAppend(const core::Problem& problem, std::shared_ptr<const core::Prepared> attend,
             const runtime::Step& step)
      : AppendFirst(problem, std::move(attend)), step_(step) {}

  core::Status submit(const core::Addresses& at, const tessera_device& device) const override {
    if (workspace_bytes == 0 || device.workspace != nullptr) return launch(at, device, device.workspace);
    // Once for both: what a stream keeps is one call's at a time.
    const runtime::Runtime& cuda = runtime::current();
    void* own = nullptr;
    if (core::Status s = cuda.allocate(workspace_bytes, device, &own); !s.ok()) return s;
    core::Status launched = launch(at, device, own);
    core::Status freed = cuda.release(own, device);
    return launched.ok() ? freed : launched;
  }

 private:
  core::Status launch(const core::Addresses& at, const tessera_device& device, void* memory) const {
    const bool empty = step_.grid[0] == 0 || step_.grid[1] == 0 || step_.grid[2] == 0;
    if (!empty)
      if (core::Status s = runtime::current().launch(step_, at, memory, device); !s.ok()) return s;
    const Rest rest = rest_of(at, device, memory);
    return attend_->submit(rest.at, rest.device);
  }

  runtime::Step step_;
};

}  // namespace

core::Status prepare(const core::Problem& problem, const core::Device& device,
                     std::shared_ptr<const core::Prepared> attend,
                     std::shared_ptr<const core::Prepared>* out) {
  runtime::Step step;
  if (core::Status s = set_step(problem, gpu_of(device), &step); !s.ok()) return s;
  *out = std::make_shared<CudaAppend>(problem, std::move(attend), step);
  return {};
}

}  // namespace tessera::cuda::append
