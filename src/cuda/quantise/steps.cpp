#include "cuda/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "cuda/quantise/dispatch.hpp"
#include "cuda/quantise/params.hpp"
#include "cuda/quantise/run.hpp"
#include "cuda/runtime/runtime.hpp"
#include "cuda/sm80/configs.hpp"
#include "cuda/translate.hpp"
#include "quantise/codes.hpp"
#include "quantise/quantise.hpp"

namespace tessera::cuda::quantise {
namespace {

using codes::Problem;

std::int64_t divided_up(std::int64_t x, std::int64_t by) { return x / by + (x % by != 0 ? 1 : 0); }

// Rows of which one number, or one for each channel, is kept: a block's where scales have blocks, else
// enough of them that what is kept stays short.
std::int64_t unit_rows(const Problem& p) {
  constexpr std::int64_t kMostParts = 1 << 11;
  if (p.scale_rows != 0) return p.scale_rows;
  std::int64_t rows = kTileRows;
  while (rows < codes::kChunkRows && p.outer * p.heads * divided_up(p.rows, rows) > kMostParts) rows *= 2;
  return rows;
}

// Of a tile: to begin one takes as long as some dozen rows, but there should be enough for all SMs.
std::int64_t tile_rows(const Problem& p) {
  constexpr std::int64_t kMostRows = 256, kEnough = 1 << 11;
  std::int64_t rows = kTileRows;
  if (p.output.strides[3] != 1) return rows;
  while (rows < kMostRows && (p.scale_rows == 0 || p.scale_rows % (2 * rows) == 0) &&
         p.outer * p.heads * divided_up(p.rows, 2 * rows) >= kEnough)
    rows *= 2;
  return rows;
}

// Every row begins at a multiple of so many bytes, and so does what follows in it by as many.
bool aligned(const void* data, std::initializer_list<std::int64_t> strides, std::int64_t size,
             std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0 &&
         std::all_of(strides.begin(), strides.end(),
                     [&](std::int64_t stride) { return stride % (bytes / size) == 0; });
}

float largest_of(Codes codes) {
  return codes == Codes::e4m3   ? codes::E4M3::kLargest
         : codes == Codes::e5m2 ? codes::E5M2::kLargest
                                : codes::I8::kLargest;
}

QuantiseParams params_of(const Problem& p) {
  const std::int64_t size = core::dtype_size(p.input.dtype), wide = wide_of(size);
  const std::int64_t *const in = p.input.strides, *const out = p.output.strides;
  QuantiseParams q{};
  q.input = p.input.data;
  q.output = static_cast<unsigned char*>(p.output.data);
  q.scales = p.scales;
  q.means = p.means;
  std::copy_n(in, 3, q.input_strides);
  std::copy_n(out, 4, q.output_strides);
  std::copy_n(p.scale_shape, 4, q.scale_shape);
  std::copy_n(p.scale_strides, 4, q.scale_strides);
  std::copy_n(p.mean_strides, 4, q.mean_strides);
  q.outer = p.outer;
  q.heads = p.heads;
  q.rows = p.rows;
  q.unit_rows = unit_rows(p);
  q.tile_rows = static_cast<int>(tile_rows(p));
  q.dim = static_cast<int>(p.dim);
  q.scale_rows = static_cast<int>(p.scale_rows);
  q.by_channel = p.by_channel ? 1 : 0;
  q.lanes = 1;
  while (q.lanes < kMostLanes && q.lanes * wide < p.dim) q.lanes *= 2;
  q.transposed = out[3] != 1 ? 1 : 0;
  q.whole_input = aligned(p.input.data, {in[0], in[1], in[2], p.dim}, size, 16) ? 1 : 0;
  q.whole_output = aligned(p.output.data, {out[0], out[1], out[2], p.dim}, 1, wide) ? 1 : 0;
  q.whole_columns = out[2] == 1 && aligned(p.output.data, {out[0], out[1], out[3]}, 1, 4) ? 1 : 0;
  q.rotate = p.hadamard ? 1 : 0;
  q.factor = codes::hadamard_factor(p.dim);
  q.format_largest = largest_of(codes_of(p.output.dtype));
  return q;
}

// Addresses are in the parameters already: a quantisation is planned for one call alone.
core::Status place(void* params, const core::Addresses&, void* workspace) {
  static_cast<QuantiseParams*>(params)->workspace = workspace;
  return {};
}

struct Launch {
  const char* kernel;
  const void* function;
  std::int64_t items;  // that blocks take one by one
  int threads = kThreads;
  std::int64_t shared_bytes = 0;
};

core::Status add(const Launch& launch, const QuantiseParams& params, int gpu, Steps* steps) {
  constexpr std::int64_t kMostBlocks = 1 << 30;  // what is beyond, the same blocks take after
  if (launch.items == 0) return {};
  int arch = 0;
  if (core::Status s = runtime::current().code_arch(launch.function, gpu, &arch); !s.ok()) return s;
  runtime::Step& step = steps->add();
  step.kernel = launch.kernel;
  step.function = launch.function;
  step.grid[0] = static_cast<unsigned>(std::min(launch.items, kMostBlocks));
  step.threads = static_cast<unsigned>(launch.threads);
  step.shared_bytes = static_cast<unsigned>(launch.shared_bytes);
  step.pdl = sm80::pdl(arch);
  step.set_params(params);
  step.place = place;
  return {};
}

// Sums make room for largest magnitudes: they have been read by then.
std::int64_t workspace_bytes(const Problem& p, const QuantiseParams& q) {
  const std::int64_t heads = p.outer * p.heads;
  const std::int64_t sums = p.means == nullptr ? 0
                                               : heads * divided_up(p.rows, codes::kChunkRows) * p.dim *
                                                     static_cast<std::int64_t>(sizeof(codes::Sum));
  const std::int64_t largest = heads * divided_up(p.rows, q.unit_rows) * (p.by_channel ? p.dim : 1) *
                               static_cast<std::int64_t>(sizeof(float));
  return std::max(sums, largest);
}

core::Status check_room(std::int64_t needed, const tessera_device& device) {
  if (device.workspace == nullptr || static_cast<std::size_t>(needed) <= device.workspace_bytes) return {};
  return core::invalid(
      fmt::format("device.workspace_bytes is {}; {} are needed", device.workspace_bytes, needed));
}

core::Status prepare(const Problem& p, int gpu, Steps* steps) {
  const QuantiseParams q = params_of(p);
  const Element input = element_of(p.input.dtype);
  const std::int64_t heads = p.outer * p.heads, columns = divided_up(p.dim, kColumns);
  const std::int64_t* const shape = p.scale_shape;
  const bool whole_rows = p.hadamard && p.dim > kMostLanes * wide_of(core::dtype_size(p.input.dtype));
  if (const std::int64_t bytes = workspace_bytes(p, q); bytes > 0) steps->add_workspace(bytes);
  std::vector<Launch> launches;
  if (p.means != nullptr) {
    launches.push_back({"quantise: sums", add_up_function(input),
                        heads * divided_up(p.rows, codes::kChunkRows) * columns, kSumThreads});
    launches.push_back({"quantise: means", finish_means_function(), divided_up(heads * p.dim, kThreads)});
  }
  launches.push_back({"quantise: magnitudes", find_largest_function(input, whole_rows),
                      heads * divided_up(p.rows, q.unit_rows)});
  launches.push_back({"quantise: scales", finish_scales_function(),
                      shape[0] * shape[1] * shape[2] * (p.by_channel ? columns : 1)});
  launches.push_back({"quantise: codes", write_codes_function(input, codes_of(p.output.dtype), whole_rows),
                      heads * divided_up(p.rows, q.tile_rows), kThreads,
                      q.transposed != 0 ? p.dim * kTilePitch : 0});
  for (const Launch& launch : launches)
    if (core::Status s = add(launch, q, gpu, steps); !s.ok()) return s;
  return steps->empty() ? core::Status{} : steps->finish(gpu, 1, [] { return std::string(); });
}

}  // namespace

core::Status run(const Problem& p, const tessera_device& device) {
  if (core::Status s = codes::check_workspace(p, device); !s.ok()) return s;
  std::array<runtime::Named, std::size(Problem{}.memory)> memory;
  std::transform(std::begin(p.memory), std::end(p.memory), memory.begin(), [](const codes::Piece& each) {
    return runtime::Named{each.name, each.bytes > 0 ? each.data : nullptr};
  });
  if (core::Status s = runtime::current().check_memory(memory, device); !s.ok()) return s;
  Steps steps;
  if (core::Status s = prepare(p, device.index, &steps); !s.ok()) return s;
  if (core::Status s = check_room(steps.workspace_bytes, device); !s.ok()) return s;
  return steps.submit({}, device);
}

}  // namespace tessera::cuda::quantise
