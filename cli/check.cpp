// Affordable correctness checks; see check.hpp.
#include "cli/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "oracle/oracle.hpp"

namespace tessera::cli {
namespace {

constexpr double kRowsFlops = 2e8;
constexpr int kMostRows = 64;
constexpr int kFewestRows = 4;

struct Row {
  std::int64_t b, h, i;
};

tessera_tensor shifted(tessera_tensor t, std::int64_t elements) {
  t.data =
      static_cast<unsigned char*>(t.data) + elements * static_cast<std::int64_t>(tessera_dtype_size(t.dtype));
  return t;
}

// [b, h, first ..., :] of a rank-4 tensor as [1, 1, rows, dim].
tessera_tensor slice(const tessera_tensor& t, std::int64_t b, std::int64_t h, std::int64_t first,
                     std::int64_t rows) {
  tessera_tensor part = shifted(t, b * t.strides[0] + h * t.strides[1] + first * t.strides[2]);
  part.shape[0] = part.shape[1] = 1;
  part.shape[2] = rows;
  return part;
}

std::int64_t key_length(const tessera_attention& p, std::int64_t b) {
  if (p.key_lengths.rank == 0) return p.key.shape[2];
  const std::int64_t at = b * p.key_lengths.strides[0];
  return p.key_lengths.dtype == TESSERA_I32 ? static_cast<const std::int32_t*>(p.key_lengths.data)[at]
                                            : static_cast<const std::int64_t*>(p.key_lengths.data)[at];
}

// The mask's element [b, h, i, first ...] as a [1, 1, 1, keys] tensor; broadcasting dimensions stay where
// they are.
tessera_tensor mask_slice(const tessera_tensor& mask, Row row, std::int64_t first, std::int64_t keys) {
  const std::int64_t index[4] = {row.b, row.h, row.i, first};
  tessera_tensor part = TESSERA_TENSOR_NONE;
  part.data = mask.data;
  part.dtype = mask.dtype;
  part.rank = 4;
  std::int64_t offset = 0;
  const int missing = 4 - mask.rank;
  for (int d = 0; d < 4; ++d) {
    const bool broadcasts = d < missing || mask.shape[d - missing] == 1;
    part.shape[d] = d == 3 && !broadcasts ? keys : 1;
    part.strides[d] = broadcasts ? 0 : mask.strides[d - missing];
    if (!broadcasts) offset += index[d] * mask.strides[d - missing];
  }
  return shifted(part, offset);
}

// One output row as a problem with one query and no band: the band and the key length only choose which
// keys there are, and those are one run of neighbours. Needs a problem without ALiBi, whose bias depends
// on where the query stands.
tessera_attention row_problem(const tessera_attention& p, Row row) {
  const std::int64_t length = key_length(p, row.b);
  std::int64_t first = 0, last = length - 1;
  if (p.mask.align != TESSERA_ALIGN_NONE) {
    const std::int64_t queries = p.query.shape[2];
    const std::int64_t at = p.mask.align == TESSERA_ALIGN_TOP_LEFT ? row.i : row.i + length - queries;
    if (p.mask.left != TESSERA_UNBOUNDED) first = std::max(first, at - p.mask.left);
    if (p.mask.right != TESSERA_UNBOUNDED) last = std::min(last, at + p.mask.right);
  }
  const std::int64_t keys = std::max<std::int64_t>(0, last - first + 1);
  if (keys == 0) first = 0;  // keep the address inside the tensor
  const std::int64_t kv = row.h / (p.query.shape[1] / p.key.shape[1]);

  tessera_attention one = TESSERA_ATTENTION_INIT;
  one.scale = p.scale;
  one.softcap = p.softcap;
  one.query = slice(p.query, row.b, row.h, row.i, 1);
  one.key = slice(p.key, row.b, kv, first, keys);
  one.value = slice(p.value, row.b, kv, first, keys);
  one.output = slice(p.output, row.b, row.h, row.i, 1);
  if (p.mask.tensor.rank != 0) one.mask.tensor = mask_slice(p.mask.tensor, row, first, keys);
  if (p.sinks.rank != 0) {
    one.sinks = shifted(p.sinks, row.h * p.sinks.strides[0]);
    one.sinks.shape[0] = 1;
  }
  return one;
}

// The corners, where masks and tile edges meet, then rows at random.
std::vector<Row> choose_rows(const cases::Case& c, std::uint64_t seed) {
  const double row_flops = 2.0 * static_cast<double>(c.keys) * static_cast<double>(c.dim + c.value_dim);
  const int wanted =
      std::clamp(static_cast<int>(kRowsFlops / std::max(row_flops, 1.0)), kFewestRows, kMostRows);
  std::vector<Row> rows = {{0, 0, 0}, {c.batch - 1, c.heads - 1, c.queries - 1}};
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  while (static_cast<int>(rows.size()) < wanted)
    rows.push_back({below(c.batch), below(c.heads), below(c.queries)});
  return rows;
}

// Every element must have been written: the poison is a NaN, and normal inputs give none.
std::string unwritten(const cases::Instance& instance) {
  const std::vector<double> output = instance.output();
  const auto found = std::find_if(output.begin(), output.end(), [](double v) { return std::isnan(v); });
  if (found == output.end()) return "";
  return fmt::format("output element {} of {} is NaN on finite inputs: wrong or never written",
                     found - output.begin(), output.size());
}

struct RowDistance {
  std::vector<double> error, step;  // per element
  double plain_error = 0;
};

RowDistance measure_row(const tessera_attention& one) {
  const oracle::Result truth = oracle::attend(one);
  const oracle::Result plain = oracle::plain(one);
  RowDistance distance;
  for (std::size_t d = 0; d < truth.output.size(); ++d) {
    const double got = oracle::load(one.output.data, one.output.dtype, static_cast<std::int64_t>(d));
    distance.error.push_back(std::abs(got - truth.output[d]));
    distance.step.push_back(oracle::rounding_step(one.output.dtype, truth.output[d]));
    distance.plain_error = std::max(distance.plain_error, std::abs(plain.output[d] - truth.output[d]));
  }
  return distance;
}

}  // namespace

double oracle_flops(const cases::Case& c) {
  return 2.0 * static_cast<double>(c.batch) * static_cast<double>(c.heads) * static_cast<double>(c.queries) *
         static_cast<double>(c.keys) * static_cast<double>(c.dim + c.value_dim);
}

cases::Case reduced(const cases::Case& c, double most_flops) {
  const auto half = [](std::int64_t n) { return (n + 1) / 2; };
  const std::int64_t group = c.kv_heads > 0 ? c.heads / c.kv_heads : 1;
  cases::Case small = c;
  while (oracle_flops(small) > most_flops) {
    if (small.batch > 2) {
      small.batch = half(small.batch);
    } else if (small.kv_heads > 1) {
      small.kv_heads = half(small.kv_heads);
      small.heads = small.kv_heads * group;
    } else if (std::max(small.queries, small.keys) > 64) {
      // Both, so that the shape and where a causal band lies in it stay alike.
      if (small.queries > 64) small.queries = half(small.queries);
      if (small.keys > 64) small.keys = half(small.keys);
    } else if (small.batch > 1) {
      small.batch = 1;
    } else {
      break;
    }
  }
  if (!(small == c)) small.name = cases::words(small);
  return small;
}

RowCheck check_rows(cases::Instance& instance, const tessera_device& device, std::uint64_t seed) {
  RowCheck check;
  instance.poison_outputs();
  const tessera_attention& problem = instance.problem();
  if (tessera_attend(&problem, &device) != TESSERA_OK) {
    check.why = tessera_last_error();
    return check;
  }
  check.why = instance.damage();
  if (check.why.empty()) check.why = unwritten(instance);
  if (!check.why.empty() || instance.shape().alibi) {
    check.passed = check.why.empty();
    return check;
  }
  const std::vector<Row> rows = choose_rows(instance.shape(), seed);
  std::vector<RowDistance> distances;
  double plain_error = 0;
  for (const Row& row : rows) {
    distances.push_back(measure_row(row_problem(problem, row)));
    plain_error = std::max(plain_error, distances.back().plain_error);
  }
  check.rows = static_cast<int>(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t d = 0; d < distances[r].error.size(); ++d) {
      const double ratio = distances[r].error[d] / (2 * plain_error + distances[r].step[d]);
      check.worst_error = std::max(check.worst_error, distances[r].error[d]);
      if (ratio > 1 && check.why.empty())
        check.why = fmt::format("output[{},{},{},{}] is off by {:.3g}, {:.2f} × its bound", rows[r].b,
                                rows[r].h, rows[r].i, d, distances[r].error[d], ratio);
      check.worst_ratio = std::max(check.worst_ratio, ratio);
    }
  }
  check.passed = check.why.empty();
  return check;
}

Check check_before_timing(const cases::Case& c, cases::Instance& instance, const tessera_device& device,
                          std::uint64_t seed) {
  const cases::Case small = reduced(c, kJudgeFlops);
  const cases::Verdict verdict = cases::judge(small, cases::Input::normal, seed, device);
  Check check{verdict.passed,      verdict.why,         "every row",
              verdict.worst_error, verdict.worst_ratio, verdict.reproduce};
  if (small == c || !verdict.passed) return check;

  const RowCheck rows = check_rows(instance, device, seed);
  check.passed = rows.passed;
  check.why = rows.why;
  check.worst_error = std::max(check.worst_error, rows.worst_error);
  check.worst_ratio = std::max(check.worst_ratio, rows.worst_ratio);
  check.what = rows.rows > 0
                   ? fmt::format("{} rows of it, and every row of {}", rows.rows, small.name)
                   : fmt::format("every row of {}; at full size only that it is finite", small.name);
  check.reproduce = fmt::format("tessera bench --case '{}' --kernel {} --seed {} --threads {}",
                                cases::words(c), device.kernel, seed, device.threads);
  return check;
}

}  // namespace tessera::cli
