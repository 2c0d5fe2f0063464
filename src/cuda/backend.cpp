// The CUDA rows of the kernel table: production first, then the scalar kernel that takes everything, then the
// other rungs, which are there to be asked for by name.
#include "cuda/backend.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/ladder/production_rungs.hpp"
#include "cuda/ladder/table.hpp"
#include "cuda/runtime/runtime.hpp"
#include "cuda/sm80/choose.hpp"
#include "cuda/sm90/choose.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda {
namespace {

constexpr core::Budget kRungBudget{128, 64 * 1024};

std::string missing(const tessera_device& device) {
  std::string why;
  return runtime::find_gpu(device.index, &why) == nullptr ? why : "";
}

std::int64_t tiles(std::int64_t rows, int tile) { return (rows + tile - 1) / tile; }

core::Launch plain_geometry(const core::Problem& p, int rows, int threads) {
  core::Launch launch;
  launch.work_items = tiles(p.queries, rows) * p.heads * p.batch;
  launch.threads = threads;
  launch.reason = fmt::format("blocks of {} query rows", rows);
  return launch;
}

// A grid of (row tiles, heads, batch entries).
core::Status run(const char* name, const void* function, const core::Problem& problem,
                 const tessera_device& device, int rows, int threads, int shared_bytes,
                 bool keep_keys_in_l2 = false) {
  Params params = translate(problem, 1);
  runtime::Launch launch;
  launch.kernel = name;
  launch.function = function;
  launch.grid[0] = static_cast<unsigned>(tiles(problem.queries, rows));
  launch.grid[1] = static_cast<unsigned>(problem.heads);
  launch.grid[2] = static_cast<unsigned>(problem.batch);
  launch.threads = static_cast<unsigned>(threads);
  launch.shared_bytes = static_cast<unsigned>(shared_bytes);
  if (keep_keys_in_l2) {
    // One window a launch: K is read first and V lies behind it in most layouts, so it starts at K.
    const std::int64_t elements = (problem.batch - 1) * problem.key.batch_stride +
                                  (problem.kv_heads - 1) * problem.key.head_stride +
                                  (problem.keys - 1) * problem.key.row_stride + problem.dim;
    const std::int64_t bytes = problem.keys == 0 ? 0 : elements * core::dtype_size(problem.dtype);
    launch.l2_window = problem.key.data;
    launch.l2_window_bytes = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0));
  }
  return runtime::launch(launch, &params, device);
}

// Rung 1
// ------------------------------------------------------------------------------------------------------

// As many rows a block as fit 64 KB, 32 at most.
int scalar_rows(const core::Problem& p) {
  int rows = ladder::kScalarRows;
  const int dim = static_cast<int>(p.dim), value_dim = static_cast<int>(p.value_dim);
  while (rows > 1 && ladder::scalar_shared_bytes(dim, value_dim, rows) > kRungBudget.shared_bytes) rows /= 2;
  return rows;
}

core::Kernel scalar_row() {
  core::Kernel row{};
  row.name = "scalar";
  row.summary = "one thread a query row; every option, dtype and head dim";
  row.supports = within_limits;
  row.geometry = [](const core::Problem& p, const tessera_device&) {
    return plain_geometry(p, scalar_rows(p), scalar_rows(p));
  };
  row.launch = [](const core::Problem& p, const tessera_device& device, const core::Launch&) {
    const int rows = scalar_rows(p);
    return run("scalar", ladder::scalar_function(element_of(p.dtype)), p, device, rows, rows,
               ladder::scalar_shared_bytes(static_cast<int>(p.dim), static_cast<int>(p.value_dim), rows));
  };
  row.rung = 1;
  row.symbol = "ladder::scalar<";
  return row;
}

// Rungs 2 to 11
// -----------------------------------------------------------------------------------------------

int padded_dim(const core::Problem& p) { return std::max(p.dim, p.value_dim) <= 64 ? 64 : 128; }

core::Status rung_supports(const core::Problem& p) {
  if (p.dtype != TESSERA_F16 && p.dtype != TESSERA_BF16) {
    return core::unsupported(
        fmt::format("dtype is {}; this rung takes f16 and bf16", core::dtype_name(p.dtype)));
  }
  if (p.dim > 128 || p.value_dim > 128) {
    return core::unsupported(
        fmt::format("dim is {} and value dim {}; this rung takes up to 128", p.dim, p.value_dim));
  }
  if (!plain_scores(p) || p.sinks != nullptr) {
    return core::unsupported("softcap, ALiBi, mask tensors and sinks are not for this rung");
  }
  return within_limits(p);
}

core::Status aligned_rung_supports(const core::Problem& p) {
  if (core::Status s = rung_supports(p); !s.ok()) return s;
  if (rows_of_16_bytes(p)) return {};
  return core::unsupported("rows are not aligned to 16 bytes or not a multiple of 8 elements long");
}

core::Status fragment_rung_supports(const core::Problem& p) {
  if (core::Status s = aligned_rung_supports(p); !s.ok()) return s;
  if (p.scale > 0) return {};
  return core::unsupported("scale is not positive: this rung takes the maximum before it scales");
}

core::Status f16_rung_supports(const core::Problem& p) {
  if (p.dtype == TESSERA_BF16) return core::unsupported("dtype is bf16; half accumulation is for f16");
  return aligned_rung_supports(p);
}

core::Kernel rung_row(int rung, std::string_view name, std::string_view symbol, std::string_view summary,
                      core::Status (*supports)(const core::Problem&)) {
  core::Kernel row{};
  row.rung = rung;
  row.name = name;
  row.symbol = symbol;
  row.summary = summary;
  row.supports = supports;
  return row;
}

// Rungs whose launch is a Rung of ladder/table.hpp.
template <ladder::Rung (*kRung)(Element, int)>
core::Kernel table_row(int rung, std::string_view name, std::string_view symbol, std::string_view summary,
                       core::Status (*supports)(const core::Problem&)) {
  core::Kernel row = rung_row(rung, name, symbol, summary, supports);
  row.geometry = [](const core::Problem& p, const tessera_device&) {
    const ladder::Rung r = kRung(element_of(p.dtype), padded_dim(p));
    return plain_geometry(p, r.rows, r.threads);
  };
  static std::string_view launch_name;  // one per kRung
  launch_name = name;
  row.launch = [](const core::Problem& p, const tessera_device& device, const core::Launch&) {
    const ladder::Rung r = kRung(element_of(p.dtype), padded_dim(p));
    return run(launch_name.data(), r.function, p, device, r.rows, r.threads, r.shared_bytes);
  };
  return row;
}

// Rungs 8 to 10: one of the production kernel's arrangements.
template <const void* (*kFunction)(Element, int), sm80::Config (*kConfig)(int), bool kKeepInL2>
core::Kernel fragment_row(int rung, std::string_view name, std::string_view symbol,
                          std::string_view summary) {
  core::Kernel row = rung_row(rung, name, symbol, summary, fragment_rung_supports);
  row.geometry = [](const core::Problem& p, const tessera_device&) {
    const sm80::Config c = kConfig(padded_dim(p));
    return plain_geometry(p, c.rows(), c.threads());
  };
  static std::string_view launch_name;
  launch_name = name;
  row.launch = [](const core::Problem& p, const tessera_device& device, const core::Launch&) {
    const sm80::Config c = kConfig(padded_dim(p));
    return run(launch_name.data(), kFunction(element_of(p.dtype), padded_dim(p)), p, device, c.rows(),
               c.threads(), c.shared_bytes(), kKeepInL2);
  };
  return row;
}

core::Status launch_persistent(const core::Problem& p, const tessera_device& device, const core::Launch&) {
  const sm80::Config c = ladder::registers_config(padded_dim(p));
  const void* const function = ladder::persistent_function(element_of(p.dtype), padded_dim(p));
  runtime::Launch launch;
  launch.kernel = "persistent";
  launch.function = function;
  launch.threads = static_cast<unsigned>(c.threads());
  launch.shared_bytes = static_cast<unsigned>(c.shared_bytes());
  runtime::Function found;
  if (core::Status s = runtime::inspect(function, device, launch.threads, launch.shared_bytes, &found);
      !s.ok())
    return s;
  std::string why;
  const runtime::Gpu* const gpu = runtime::find_gpu(device.index, &why);
  if (gpu == nullptr) return {TESSERA_DEVICE_UNAVAILABLE, why};
  const std::int64_t work = tiles(p.queries, c.rows()) * p.heads * p.batch;
  const std::int64_t held = static_cast<std::int64_t>(gpu->sms) * std::max(found.blocks_per_sm, 1);
  launch.grid[0] = static_cast<unsigned>(std::min(work, held));
  Params params = translate(p, 1);
  return runtime::launch(launch, &params, device);
}

core::Kernel persistent_row() {
  core::Kernel row = rung_row(11, "persistent", "ladder::persistent<",
                              "as many blocks as the GPU holds, each with a list of tiles, longest first",
                              fragment_rung_supports);
  row.geometry = [](const core::Problem& p, const tessera_device&) {
    const sm80::Config c = ladder::registers_config(padded_dim(p));
    return plain_geometry(p, c.rows(), c.threads());
  };
  row.launch = launch_persistent;
  return row;
}

std::vector<core::Kernel> ladder_rows() {
  using ladder::pipelined_config;
  using ladder::registers_config;
  return {
      table_row<ladder::shared_padded>(2, "shared_padded", "ladder::shared_padded<",
                                       "K/V tiles in shared memory, rows padded by a word", rung_supports),
      table_row<ladder::shared>(2, "shared", "ladder::shared<", "K/V tiles in shared memory, swizzled",
                                rung_supports),
      table_row<ladder::async>(3, "async", "ladder::async<", "tiles copied by cp.async, two stages",
                               rung_supports),
      table_row<ladder::vector>(4, "vector", "ladder::vector<", "16-byte loads everywhere",
                                aligned_rung_supports),
      table_row<ladder::tensor_qk>(5, "tensor_qk", "ladder::tensor_qk<", "tensor cores for Q K",
                                   aligned_rung_supports),
      table_row<ladder::tensor_tiled>(6, "tensor_tiled", "ladder::tensor_tiled<",
                                      "each warp owns several 16x16 tiles", aligned_rung_supports),
      [] {
        core::Kernel row =
            table_row<ladder::tensor_tiled_f16>(6, "tensor_tiled_f16", "ladder::tensor_tiled_f16<",
                                                "the same with half accumulation of Q K", f16_rung_supports);
        row.tolerance = 2e-2;
        return row;
      }(),
      table_row<ladder::tensor_pv>(7, "tensor_pv", "ladder::tensor_pv<", "tensor cores for P V as well",
                                   aligned_rung_supports),
      fragment_row<ladder::registers_function, registers_config, false>(
          8, "registers", "ladder::registers<", "scores, softmax and P stay in registers"),
      fragment_row<ladder::pipelined_function, pipelined_config, false>(9, "pipelined", "ladder::pipelined<",
                                                                        "a ring of three stages"),
      fragment_row<ladder::pipelined_function, pipelined_config, true>(
          10, "l2_persistent", "ladder::pipelined<", "the same with an L2 window over the keys"),
      persistent_row(),
  };
}

}  // namespace

std::vector<core::Kernel> kernels() {
  std::vector<core::Kernel> rows = {sm90::production_row(), sm80::production_row(), scalar_row()};
  for (core::Kernel& row : ladder_rows()) rows.push_back(row);
  for (core::Kernel& row : rows) {
    row.device = TESSERA_CUDA;
    if (row.missing == nullptr) row.missing = missing;
    if (row.rung > 0) row.budget = kRungBudget;
    if (row.name == "registers") row.budget.spill_bytes = 48;  // docs/sm80.md, "Registers"
  }
  return rows;
}

}  // namespace tessera::cuda
