#include "cuda/fp8_rows/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cuda/estimate.hpp"
#include "cuda/fp8_rows/dispatch.hpp"
#include "cuda/fp8_rows/params.hpp"
#include "cuda/sm80/configs.hpp"
#include "cuda/steps.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::fp8_rows {
namespace {

core::Status supports(const core::Problem& p) {
  if (core::is_8_bit(p.kv.dtype)) return within_limits(p);
  return core::unsupported(
      fmt::format("key.dtype is {}; f8e4m3, f8e5m2 and i8 are accepted", core::dtype_name(p.kv.dtype)));
}

// A row has to be visited where it has no value columns, too: it may have an lse.
std::int64_t parts_of(const core::Sizes& p) {
  return std::max<std::int64_t>(divide_up(p.value_dim, kColumns), 1);
}

// Rows of all heads; of entries that lie one behind the other, `queries` counts all of them.
std::int64_t rows_of(const core::Problem& p) { return p.queries * p.heads * (p.query_offsets ? 1 : p.batch); }

core::Estimate estimate(const core::Problem& p, const core::Device& device) {
  constexpr double kRate = 0.01;     // of the row time that estimate.hpp counts in
  constexpr double kAlone = 10'000;  // rows in the time of a single one, which one warp takes
  const double full = rounds(rows_of(p) * parts_of(p), gpu_of(device).sms) / kRate;
  return {std::max(full, kAlone) * row_us(p), ""};
}

core::Status place(void* params, const core::Addresses& at, void*) {
  auto* const p = static_cast<RowsParams*>(params);
  cuda::place(&p->problem, at);
  cuda::place(&p->mixed.coded, at);
  return {};
}
core::Status place_tail(void* params, const core::Addresses& at, void* workspace) {
  static_cast<TailParams*>(params)->tail.keys.data = at[core::TensorId::key_tail];
  return place(static_cast<TailParams*>(params), at, workspace);
}

RowsParams params_of(const core::Problem& p) {
  return {translate(p, 1), translate_mixed(p), static_cast<int>(parts_of(p))};
}

Element output_element(const core::Problem& p) {
  return p.output.dtype == TESSERA_BF16 ? Element::bf16 : Element::f16;
}

// A step whose function, parameters and `place` are set.
core::Status finish(const core::Problem& p, const runtime::Gpu& gpu, std::shared_ptr<Steps> made,
                    runtime::Step& step, std::shared_ptr<const core::Prepared>* out) {
  constexpr std::int64_t kMostBlocks = 1 << 30;  // what is beyond, the same blocks take after
  int arch = 0;
  if (core::Status s = runtime::current().code_arch(step.function, gpu.index, &arch); !s.ok()) return s;
  const std::int64_t items = rows_of(p) * parts_of(p);
  step.pdl = sm80::pdl(arch);
  step.grid[0] = static_cast<unsigned>(
      std::clamp<std::int64_t>(divide_up(items, kWarps), items > 0 ? 1 : 0, kMostBlocks));
  step.threads = kThreads;
  *out = made;
  return made->finish(gpu.index, items, [] { return std::string("a warp for every query row"); });
}

core::Status prepare(const core::Problem& p, const core::Device& device,
                     std::shared_ptr<const core::Prepared>* out) {
  auto made = std::make_shared<Steps>();
  runtime::Step& step = made->add();
  step.kernel = "fp8_rows";
  step.set_params(params_of(p));
  step.place = place;
  step.function = function_for(codes_of(p.kv.dtype), output_element(p));
  return finish(p, gpu_of(device), made, step, out);
}

core::Status prepare_tail(const core::Problem& p, const core::Device& device,
                          std::shared_ptr<const core::Prepared>* out) {
  TailParams params{};
  static_cast<RowsParams&>(params) = params_of(p);
  params.tail = translate_tail(p);
  auto made = std::make_shared<Steps>();
  runtime::Step& step = made->add();
  step.kernel = "tail_rows";
  step.set_params(params);
  step.place = place_tail;
  step.function = core::is_8_bit(p.kv.dtype) ? tail_function_for(codes_of(p.kv.dtype), output_element(p))
                                             : tail_function_for(element_of(p.kv.dtype));
  return finish(p, gpu_of(device), made, step, out);
}

core::Status supports_tail(const core::Problem& p) {
  if (p.kv.tail_dim > 0) return within_limits(p);
  return core::unsupported("key_tail is not set; this kernel is for keys in two tensors");
}

}  // namespace

core::Kernel row() {
  core::Kernel row;
  row.name = "fp8_rows";
  row.summary =
      "8-bit inputs or caches, one warp a query row, plain arithmetic; every option, layout, head dim";
  row.mixed = true;
  row.invariant = true;
  row.supports = supports;
  row.estimate = estimate;
  row.prepare = prepare;
  row.budget = {128, 0, 0};
  row.symbol = "fp8_rows::attend<";
  return row;
}

core::Kernel tail_row() {
  core::Kernel row;
  row.name = "tail_rows";
  row.summary = "keys in two tensors (key_tail), one warp a query row; every option, layout, dtype, head dim";
  row.mixed = true;
  row.tail = true;
  row.invariant = true;
  row.supports = supports_tail;
  row.estimate = estimate;
  row.prepare = prepare_tail;
  row.budget = {128, 0, 0};
  row.symbol = "fp8_rows::attend_tails<";
  return row;
}

}  // namespace tessera::cuda::fp8_rows
