#include "cuda/ladder/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "cuda/estimate.hpp"
#include "cuda/ladder/fp8_rung.hpp"
#include "cuda/ladder/production_rungs.hpp"
#include "cuda/ladder/table.hpp"
#include "cuda/sm89/choose.hpp"
#include "cuda/steps.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::ladder {
namespace {

constexpr core::Budget kBudget{128, 64 * 1024};

using Supports = core::Status (*)(const core::Problem&);

int padded_dim(const core::Problem& p) { return std::max(p.dim, p.value_dim) <= 64 ? 64 : 128; }

// What every rung but the first takes, whatever its dtype.
core::Status takes_plain_scores(const core::Problem& p) {
  if (p.dim > 128 || p.value_dim > 128) {
    return core::unsupported(
        fmt::format("dim is {} and value dim {}; this rung takes up to 128", p.dim, p.value_dim));
  }
  if (!plain_scores(p) || p.scoring.sinks.data != nullptr) {
    return core::unsupported("softcap, ALiBi, mask tensors and sinks are not for this rung");
  }
  return within_limits(p);
}

core::Status takes_16_bits(const core::Problem& p) {
  if (p.dtype != TESSERA_F16 && p.dtype != TESSERA_BF16) {
    return core::unsupported(
        fmt::format("dtype is {}; this rung takes f16 and bf16", core::dtype_name(p.dtype)));
  }
  if (core::Status s = takes_plain_scores(p); !s.ok()) return s;
  return dense_only(p);
}

core::Status takes_aligned(const core::Problem& p) {
  if (core::Status s = takes_16_bits(p); !s.ok()) return s;
  if (rows_of_16_bytes(p)) return {};
  return core::unsupported("rows are not aligned to 16 bytes or not a multiple of 8 elements long");
}

core::Status takes_positive_scale(const core::Problem& p) {
  if (core::Status s = takes_aligned(p); !s.ok()) return s;
  if (p.scoring.scale > 0) return {};
  return core::unsupported("scale is not positive: this rung takes the maximum before it scales");
}

core::Status takes_f16(const core::Problem& p) {
  if (p.dtype == TESSERA_BF16) return core::unsupported("dtype is bf16; half accumulation is for f16");
  return takes_aligned(p);
}

core::Status takes_8_bits(const core::Problem& p) {
  if (!core::is_8_bit(p.dtype)) {
    return core::unsupported(
        fmt::format("dtype is {}; this rung takes f8e4m3 and f8e5m2", core::dtype_name(p.dtype)));
  }
  if (core::Status s = takes_plain_scores(p); !s.ok()) return s;
  if (core::Status s = dense_batch(p); !s.ok()) return s;
  if (p.kv.value_column_stride != 1)
    return core::unsupported("value is transposed; this rung takes value rows of contiguous elements");
  if (queries_of_16_bytes(p) && keys_of_16_bytes(p)) return {};
  return core::unsupported("rows are not aligned to 16 bytes or not a multiple of 16 elements long");
}

struct Identity {
  int rung;
  const char* name;
  std::string_view symbol, summary;
};

// A row whose launch, over a grid of (row tiles, heads, batch entries), `rung_of` describes; `adjust` has the
// last word on it.
core::Kernel row_of(
    const Identity& identity, Supports supports, std::function<Rung(const core::Problem&)> rung_of,
    std::function<core::Status(const core::Problem&, const core::Device&, runtime::Step*)> adjust = nullptr) {
  core::Kernel row;
  row.rung = identity.rung;
  row.name = identity.name;
  row.symbol = identity.symbol;
  row.summary = identity.summary;
  row.supports = supports;
  row.budget = kBudget;
  row.prepare = [=](const core::Problem& p, const core::Device& device,
                    std::shared_ptr<const core::Prepared>* out) {
    const Rung rung = rung_of(p);
    auto made = std::make_shared<Steps>();
    runtime::Step& step = made->add();
    step.kernel = identity.name;
    if (core::is_8_bit(p.dtype))
      sm89::set_params(&step, p);
    else
      set_params(&step, p, 1);
    step.function = rung.function;
    step.grid[0] = static_cast<unsigned>(divide_up(p.queries, rung.rows));
    step.grid[1] = static_cast<unsigned>(p.heads);
    // A batch without entries may have rows that none of them owns.
    step.grid[2] = static_cast<unsigned>(p.query_offsets ? std::max<std::int64_t>(p.batch, 1) : p.batch);
    step.threads = static_cast<unsigned>(rung.threads);
    step.shared_bytes = static_cast<unsigned>(rung.shared_bytes);
    if (adjust)
      if (core::Status s = adjust(p, device, &step); !s.ok()) return s;
    *out = made;
    return made->finish(gpu_of(device).index, divide_up(p.queries, rung.rows) * p.heads * p.batch,
                        [rows = rung.rows] { return fmt::format("blocks of {} query rows", rows); });
  };
  return row;
}

// Rung 1 takes every option of f32, f16 and bf16 inputs.
core::Status takes_wide(const core::Problem& p) {
  if (!core::is_8_bit(p.dtype)) return within_limits(p);
  return core::unsupported(
      fmt::format("dtype is {}; this rung takes f32, f16 and bf16", core::dtype_name(p.dtype)));
}

// As many rows a block as fit 64 KB, 32 at most.
Rung scalar_rung(const core::Problem& p) {
  const int dim = static_cast<int>(p.dim), value_dim = static_cast<int>(p.value_dim);
  int rows = kScalarRows;
  while (rows > 1 && scalar_shared_bytes(dim, value_dim, rows) > kBudget.shared_bytes) rows /= 2;
  return {scalar_function(element_of(p.dtype)), rows, rows, scalar_shared_bytes(dim, value_dim, rows)};
}

core::Kernel scalar_row() {
  core::Kernel row =
      row_of({1, "scalar", "ladder::scalar<", "one thread a query row; every option, dtype and head dim"},
             takes_wide, scalar_rung);
  row.invariant = true;
  row.estimate = [](const core::Problem& p, const core::Device& device) -> core::Estimate {
    constexpr double kRate = 0.004;    // of the row time that estimate.hpp counts in
    constexpr double kAlone = 60'000;  // rows in the time of a single one, which one thread takes
    const double full = rounds(p.queries * p.heads * p.batch, gpu_of(device).sms) / kRate;
    return {std::max(full, kAlone) * row_us(p), ""};
  };
  return row;
}

core::Kernel table_row(const Identity& identity, Rung (*rung)(Element, int), Supports supports) {
  return row_of(identity, supports,
                [rung](const core::Problem& p) { return rung(element_of(p.dtype), padded_dim(p)); });
}

// Rungs 8 to 11: one of the production kernel's arrangements.
auto fragment_rung(const void* (*function)(Element, int), sm80::Config (*config)(int)) {
  return [=](const core::Problem& p) -> Rung {
    const sm80::Config c = config(padded_dim(p));
    return {function(element_of(p.dtype), padded_dim(p)), c.rows(), c.threads(), c.shared_bytes()};
  };
}

// One window a launch: K is read first and V lies behind it in most layouts, so it starts at K.
core::Status keep_keys_in_l2(const core::Problem& p, const core::Device&, runtime::Step* step) {
  step->l2_window_bytes = p.span_bytes[core::TensorId::key];
  return {};
}

// As many blocks as the GPU holds at once.
core::Status hold_all_at_once(const core::Problem&, const core::Device& device, runtime::Step* step) {
  runtime::Function found;
  const runtime::Gpu& gpu = gpu_of(device);
  if (core::Status s =
          runtime::current().inspect(step->function, gpu.index, step->threads, step->shared_bytes, &found);
      !s.ok())
    return s;
  const std::int64_t work = std::int64_t{step->grid[0]} * step->grid[1] * step->grid[2];
  step->grid[0] = static_cast<unsigned>(
      std::min(work, static_cast<std::int64_t>(gpu.sms) * std::max(found.blocks_per_sm, 1)));
  step->grid[1] = step->grid[2] = 1;
  return {};
}

std::string missing_for_8_bits(const core::Device& device) {
  const runtime::Gpu& gpu = gpu_of(device);
  if (gpu.arch < kFp8Arch)
    return fmt::format("GPU {} ({}) is sm_{}; this rung needs sm_{} or newer, whose tensor cores take 8 bits",
                       gpu.index, gpu.name, gpu.arch, kFp8Arch);
  return fp8(Element::e4m3, 64).function != nullptr ? "" : "this build has no code for sm_89 or newer";
}

core::Kernel fp8_row() {
  core::Kernel row = table_row({12, "fp8", "ladder::fp8<", "8-bit inputs, Q K by tensor cores of 8 bits"},
                               fp8, takes_8_bits);
  row.missing = missing_for_8_bits;
  row.arithmetic = core::Arithmetic::fp8_ada;
  row.least_arch = kFp8Arch;
  return row;
}

}  // namespace

std::vector<core::Kernel> rows() {
  std::vector<core::Kernel> all = {
      scalar_row(),
      table_row(
          {2, "shared_padded", "ladder::shared_padded<", "K/V tiles in shared memory, rows padded by a word"},
          shared_padded, takes_16_bits),
      table_row({2, "shared", "ladder::shared<", "K/V tiles in shared memory, swizzled"}, shared,
                takes_16_bits),
      table_row({3, "async", "ladder::async<", "tiles copied by cp.async, two stages"}, async, takes_16_bits),
      table_row({4, "vector", "ladder::vector<", "16-byte loads everywhere"}, vector, takes_aligned),
      table_row({5, "tensor_qk", "ladder::tensor_qk<", "tensor cores for Q K"}, tensor_qk, takes_aligned),
      table_row({6, "tensor_tiled", "ladder::tensor_tiled<", "each warp owns several 16x16 tiles"},
                tensor_tiled, takes_aligned),
      table_row(
          {6, "tensor_tiled_f16", "ladder::tensor_tiled_f16<", "the same with half accumulation of Q K"},
          tensor_tiled_f16, takes_f16),
      table_row({7, "tensor_pv", "ladder::tensor_pv<", "tensor cores for P V as well"}, tensor_pv,
                takes_aligned),
      row_of({8, "registers", "ladder::registers<", "scores, softmax and P stay in registers"},
             takes_positive_scale, fragment_rung(registers_function, registers_config)),
      row_of({9, "pipelined", "ladder::pipelined<", "a ring of three stages"}, takes_positive_scale,
             fragment_rung(pipelined_function, pipelined_config)),
      row_of({10, "l2_persistent", "ladder::pipelined<", "the same with an L2 window over the keys"},
             takes_positive_scale, fragment_rung(pipelined_function, pipelined_config), keep_keys_in_l2),
      row_of({11, "persistent", "ladder::persistent<",
              "as many blocks as the GPU holds, each with a list of tiles, longest first"},
             takes_positive_scale, fragment_rung(persistent_function, registers_config), hold_all_at_once),
      fp8_row(),
  };
  for (core::Kernel& row : all) {
    if (row.name == "tensor_tiled_f16") row.tolerance = 2e-2;
    if (row.name == "registers") row.budget.spill_bytes = 48;  // docs/sm80.md, "Registers"
  }
  return all;
}

}  // namespace tessera::cuda::ladder
