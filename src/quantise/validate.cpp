#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/problem.hpp"
#include "core/tensor_checks.hpp"
#include "quantise/quantise.hpp"

namespace tessera::codes {
namespace {

using core::invalid;
using core::Status;
using core::TensorRule;

constexpr tessera_dtype kWide[] = {TESSERA_F32, TESSERA_F16, TESSERA_BF16};
constexpr tessera_dtype kCodes[] = {TESSERA_F8E4M3, TESSERA_F8E5M2, TESSERA_I8};
constexpr tessera_dtype kScales[] = {TESSERA_F32};

// A tensor of the call, where it lies and how far it reaches.
struct Named {
  std::string_view name;
  const tessera_tensor& tensor;
  TensorRule rule;
  bool written = true;
  std::uint64_t bytes = 0;
};

Status check_size(std::string_view name, const tessera_tensor& t, int dimension, std::int64_t full,
                  std::string_view meaning) {
  const std::int64_t size = t.shape[dimension];
  if (size == 1 || size == full) return {};
  const std::string accepted = full == 1 ? "1" : fmt::format("1 or {}", full);
  return invalid(
      fmt::format("{}.shape[{}] is {}; {} ({}) is accepted", name, dimension, size, accepted, meaning));
}

Status check_scale_shape(const tessera_quantisation& q) {
  const tessera_tensor& scales = q.scales;
  const std::int64_t* const shape = q.input.shape;
  const std::int64_t rows = q.scale_rows;
  const std::int64_t blocks = rows == 0 ? 1 : shape[2] / rows + (shape[2] % rows != 0 ? 1 : 0);
  const std::string counted =
      rows == 0 ? "scale_rows is 0: there are no blocks" : fmt::format("blocks of {} rows", rows);
  if (Status s = check_size("scales", scales, 0, shape[0], "input.shape[0]"); !s.ok()) return s;
  if (Status s = check_size("scales", scales, 1, shape[1], "input.shape[1]"); !s.ok()) return s;
  if (Status s = check_size("scales", scales, 2, blocks, counted); !s.ok()) return s;
  if (Status s = check_size("scales", scales, 3, shape[3], "input.shape[3]"); !s.ok()) return s;
  if (scales.shape[2] <= 1 || scales.shape[3] <= 1) return {};
  return invalid(
      fmt::format("scales.shape[2] is {} and shape[3] is {}; scales for each block or for each channel are "
                  "accepted, not both",
                  scales.shape[2], scales.shape[3]));
}

Status check_shapes(const tessera_quantisation& q) {
  const std::int64_t* const shape = q.input.shape;
  if (shape[3] < 1 || shape[3] > TESSERA_MAX_HEAD_DIM) {
    return invalid(fmt::format("input.shape[3] is {}; a head dimension from 1 to {} is accepted", shape[3],
                               TESSERA_MAX_HEAD_DIM));
  }
  for (int d = 0; d < 4; ++d) {
    if (Status s = core::agree({{q.output, "output", d, shape[d], fmt::format("input.shape[{}]", d)}});
        !s.ok())
      return s;
  }
  if (!core::is_absent(q.means)) {
    if (Status s = core::agree({{q.means, "means", 0, shape[0], "input.shape[0]"},
                                {q.means, "means", 1, shape[1], "input.shape[1]"},
                                {q.means, "means", 2, 1, "the number of means of a channel"},
                                {q.means, "means", 3, shape[3], "input.shape[3]"}});
        !s.ok())
      return s;
  }
  return check_scale_shape(q);
}

Status check_options(const tessera_quantisation& q) {
  if (q.scale_rows != 0 && q.scale_rows != 64 && q.scale_rows != 128)
    return invalid(fmt::format("scale_rows is {}; accepted: 0 (no blocks), 64, 128", q.scale_rows));
  const std::int64_t dim = q.input.shape[3];
  if (q.hadamard != 0 && !std::has_single_bit(static_cast<std::uint64_t>(dim))) {
    return invalid(
        fmt::format("hadamard is set, but input.shape[3] is {}; with it, powers of two are accepted", dim));
  }
  return {};
}

Status check_overlap(const Named& a, const Named& b) {
  if (a.bytes == 0 || b.bytes == 0 || !(a.written || b.written)) return {};
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a.tensor.data);
  const auto begin_b = reinterpret_cast<std::uintptr_t>(b.tensor.data);
  if (begin_a >= begin_b + b.bytes || begin_b >= begin_a + a.bytes) return {};
  return invalid(fmt::format("{} overlaps {} in memory; results need memory of their own", b.name, a.name));
}

Status check_tensors(const tessera_quantisation& q, Piece (&memory)[4]) {
  Named all[] = {{"input", q.input, {"[outer, heads, rows, dim]", 4, 4, kWide}, false},
                 {"output", q.output, {"[outer, heads, rows, dim]", 4, 4, kCodes, true, true}},
                 {"scales",
                  q.scales,
                  {"[outer or 1, heads or 1, blocks or 1, 1] or [outer or 1, heads or 1, 1, dim]", 4, 4,
                   kScales, false}},
                 {"means", q.means, {"[outer, heads, 1, dim]", 4, 4, kScales, false}}};
  for (Named& each : all) {
    if (each.name == "means" && core::is_absent(each.tensor)) continue;
    if (Status s = core::check_tensor(each.name, each.rule, each.tensor, &each.bytes); !s.ok()) return s;
    if (!each.written) continue;
    if (Status s = core::check_written_once(each.name, each.tensor); !s.ok()) return s;
  }
  for (std::size_t b = 1; b < std::size(all); ++b) {
    for (std::size_t a = 0; a < b; ++a)
      if (Status s = check_overlap(all[a], all[b]); !s.ok()) return s;
  }
  static_assert(std::extent_v<decltype(all)> == std::extent_v<decltype(Problem::memory)>);
  for (std::size_t n = 0; n < std::size(all); ++n)
    memory[n] = {all[n].name, all[n].tensor.data, all[n].bytes};
  return {};
}

}  // namespace

Status validate(const tessera_quantisation& q, Problem* out) {
  if (Status s = check_tensors(q, out->memory); !s.ok()) return s;
  if (Status s = check_options(q); !s.ok()) return s;
  if (Status s = check_shapes(q); !s.ok()) return s;
  out->outer = q.input.shape[0];
  out->heads = q.input.shape[1];
  out->rows = q.input.shape[2];
  out->dim = q.input.shape[3];
  out->input = q.input;
  out->output = q.output;
  out->scales = static_cast<float*>(q.scales.data);
  for (int d = 0; d < 4; ++d) {
    out->scale_shape[d] = q.scales.shape[d];
    out->scale_strides[d] = q.scales.shape[d] == 1 ? 0 : q.scales.strides[d];
    out->mean_strides[d] = q.means.strides[d];
  }
  out->means = core::is_absent(q.means) ? nullptr : static_cast<float*>(q.means.data);
  out->scale_rows = q.scales.shape[2] > 1 ? q.scale_rows : 0;
  out->by_channel = q.scales.shape[3] > 1;
  out->hadamard = q.hadamard != 0;
  return {};
}

Status check_workspace(const Problem& problem, const tessera_device& device) {
  if (device.workspace == nullptr) {
    if (device.workspace_bytes == 0) return {};
    return invalid(
        fmt::format("device.workspace is null, but device.workspace_bytes is {}", device.workspace_bytes));
  }
  constexpr std::uintptr_t kAlignment = 256;
  const auto begin = reinterpret_cast<std::uintptr_t>(device.workspace);
  if (begin % kAlignment != 0) {
    return invalid(fmt::format("device.workspace is {}; a multiple of {} is accepted",
                               fmt::ptr(device.workspace), kAlignment));
  }
  for (const Piece& each : problem.memory) {
    const auto tensor = reinterpret_cast<std::uintptr_t>(each.data);
    if (begin < tensor + each.bytes && tensor < begin + device.workspace_bytes)
      return invalid(fmt::format("device.workspace overlaps {} in memory", each.name));
  }
  return {};
}

}  // namespace tessera::codes
