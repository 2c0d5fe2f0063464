// The gates, in the order in which they are asked. docs/correctness.md says why each is there and where
// the bound comes from.
#include "cases/gates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>

#include "cases/gpu_gates.hpp"
#include "cases/random.hpp"
#include "core/kernel.hpp"
#include "core/plan.hpp"
#include "oracle/append.hpp"

namespace tessera::cases {
namespace {

// One rounding step of float32, relative: what two roundings to nearest can add up to.
constexpr double kFloatStep = 0x1p-23;

// Beyond this many multiply-adds for the oracle, rows are drawn instead of all being judged.
constexpr double kJudgedMultiplyAdds = 6e8;
constexpr std::int64_t kFewestRows = 16;

// The gates of the seed shapes, kept beside the derived bound.
constexpr double kSeedTolerance = 1e-2;

std::vector<oracle::Row> rows_to_judge(const Instance& instance) {
  const Case& c = instance.shape();
  const std::int64_t total = c.batch * c.heads * c.queries;
  const double row_cost = static_cast<double>(c.keys + 1) * static_cast<double>(c.dim + c.value_dim);
  const std::int64_t wanted =
      std::max(kFewestRows, static_cast<std::int64_t>(std::min(kJudgedMultiplyAdds / row_cost, 1e9)));
  if (total <= wanted) return oracle::every_row(instance.problem());

  std::set<std::int64_t> chosen = {0, c.queries - 1, total - c.queries, total - 1};
  const Random draw(instance.seed(), 77);
  for (std::uint64_t n = 0; static_cast<std::int64_t>(chosen.size()) < wanted; ++n) {
    chosen.insert(draw.below(n, total));
  }
  std::vector<oracle::Row> rows;
  rows.reserve(chosen.size());
  const std::vector<oracle::Row> every =
      c.ragged ? oracle::every_row(instance.problem()) : std::vector<oracle::Row>();
  for (std::int64_t r : chosen)
    rows.push_back(c.ragged ? every[static_cast<std::size_t>(r)]
                            : oracle::Row{r / c.queries / c.heads, r / c.queries % c.heads, r % c.queries});
  return rows;
}

struct Judges {
  oracle::Result truth;
  std::vector<oracle::Result> plain;  // one for each arithmetic
};

void append(std::vector<double>* to, const std::vector<double>& more) {
  to->insert(to->end(), more.begin(), more.end());
}

// All judges over the rows, several threads side by side.
Judges ask_judges(const tessera_attention& problem, const std::vector<oracle::Row>& rows,
                  const std::vector<oracle::Arithmetic>& arithmetics) {
  const std::size_t cores = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
  const std::size_t parts = rows.size() < 64 ? 1 : cores;
  std::vector<Judges> part(parts);
  const auto work = [&](std::size_t n) {
    const std::size_t first = rows.size() * n / parts, last = rows.size() * (n + 1) / parts;
    const std::span<const oracle::Row> mine(rows.data() + first, last - first);
    part[n].truth = oracle::attend(problem, mine);
    for (const oracle::Arithmetic arithmetic : arithmetics)
      part[n].plain.push_back(oracle::plain(problem, mine, arithmetic));
  };
  std::vector<std::thread> threads;
  for (std::size_t n = 1; n < parts; ++n) threads.emplace_back(work, n);
  work(0);
  for (std::thread& t : threads) t.join();

  Judges all = std::move(part[0]);
  for (std::size_t n = 1; n < parts; ++n) {
    append(&all.truth.output, part[n].truth.output);
    append(&all.truth.lse, part[n].truth.lse);
    append(&all.truth.output_sensitivity, part[n].truth.output_sensitivity);
    append(&all.truth.lse_sensitivity, part[n].truth.lse_sensitivity);
    for (std::size_t a = 0; a < arithmetics.size(); ++a) {
      append(&all.plain[a].output, part[n].plain[a].output);
      append(&all.plain[a].lse, part[n].plain[a].lse);
    }
  }
  return all;
}

double largest_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t n = 0; n < a.size(); ++n) {
    if (std::isfinite(a[n]) && std::isfinite(b[n])) largest = std::max(largest, std::fabs(a[n] - b[n]));
  }
  return largest;
}

std::vector<double> bounds(tessera_dtype dtype, double plain_error, const std::vector<double>& truth,
                           const std::vector<double>& sensitivity) {
  std::vector<double> out(truth.size());
  for (std::size_t n = 0; n < truth.size(); ++n) {
    out[n] = 2 * plain_error + oracle::rounding_step(dtype, truth[n]) + kFloatStep * sensitivity[n];
  }
  return out;
}

// What one judged tensor says; the row and column of an element make its place.
struct Comparison {
  std::string_view tensor;
  tessera_dtype dtype;
  std::int64_t columns;
  const std::vector<double>& got;  // of the judged rows
  const std::vector<double>& truth;
  const std::vector<double>& derived;  // bounds
  double tolerance;                    // atol = rtol in place of them; 0 = none

  [[nodiscard]] double bound(std::size_t n) const {
    return tolerance > 0 ? tolerance + tolerance * std::fabs(truth[n]) : derived[n];
  }
};

// The kernel that was asked for, or that the plan takes; null if it cannot be told.
const core::Kernel* kernel_of(const tessera_attention& problem, const tessera_device& device) {
  for (const core::Kernel& kernel : core::kernels())
    if (device.kernel != nullptr && kernel.device == device.kind && kernel.name == device.kernel)
      return &kernel;
  core::Problem valid;
  core::Plan plan;
  const bool planned = device.kernel == nullptr && core::validate(problem, &valid).ok() &&
                       core::check_device(device).ok() && core::plan(valid, device, &plan).ok();
  return planned ? plan.kernel : nullptr;
}

oracle::Arithmetic oracle_arithmetic(core::Arithmetic arithmetic) {
  switch (arithmetic) {
    case core::Arithmetic::fp8_accurate:
      return oracle::Arithmetic::fp8_accurate;
    case core::Arithmetic::fp8_ada:
      return oracle::Arithmetic::fp8_ada;
    case core::Arithmetic::fp8_fast:
      return oracle::Arithmetic::fp8_fast;
    default:
      return oracle::Arithmetic::f32;
  }
}

// How a result of this device is judged.
struct Ruler {
  double tolerance = 0;
  oracle::Arithmetic arithmetic = oracle::Arithmetic::f32;

  Ruler(const tessera_attention& problem, const tessera_device& device) {
    const core::Kernel* const kernel = kernel_of(problem, device);
    core::Problem valid;
    if (kernel == nullptr) return;
    if (device.kernel != nullptr) tolerance = kernel->tolerance;
    if (core::validate(problem, &valid).ok()) arithmetic = oracle_arithmetic(kernel->arithmetic_of(valid));
  }
};

// Float arithmetic, and what else kernels of the library have on the problem.
std::vector<oracle::Arithmetic> arithmetics_of(const tessera_attention& problem) {
  std::vector<oracle::Arithmetic> all = {oracle::Arithmetic::f32};
  core::Problem valid;
  if (!core::validate(problem, &valid).ok()) return all;
  for (const core::Kernel& kernel : core::kernels()) {
    const oracle::Arithmetic one = oracle_arithmetic(kernel.arithmetic_of(valid));
    const bool known = std::find(all.begin(), all.end(), one) != all.end();
    if (!known && core::takes(kernel, valid).ok()) all.push_back(one);
  }
  return all;
}

Bounds bounds_of(tessera_dtype dtype, const oracle::Result& plain, const oracle::Result& truth) {
  Bounds b;
  b.plain_output_error = largest_distance(plain.output, truth.output);
  b.plain_lse_error = largest_distance(plain.lse, truth.lse);
  b.output_bound = bounds(dtype, b.plain_output_error, truth.output, truth.output_sensitivity);
  b.lse_bound = bounds(TESSERA_F32, b.plain_lse_error, truth.lse, truth.lse_sensitivity);
  return b;
}

std::string place(const Comparison& c, const Expected& e, std::size_t n) {
  const oracle::Row& row = e.rows[n / static_cast<std::size_t>(c.columns)];
  std::string out = fmt::format("{}[{},{},{}", c.tensor, row.batch, row.head, row.query);
  if (c.columns > 1 || c.tensor == "output")
    out += fmt::format(",{}", n % static_cast<std::size_t>(c.columns));
  return out + "]";
}

std::string check_nonfinite(const Comparison& c, const Expected& e) {
  for (std::size_t n = 0; n < c.truth.size(); ++n) {
    const double want = oracle::round_to(c.dtype, c.truth[n]);
    const bool same = std::isfinite(want) ? std::isfinite(c.got[n])
                      : std::isnan(want)  ? std::isnan(c.got[n])
                                          : c.got[n] == want;
    if (!same) {
      return fmt::format("NaN and inf positions: {} is {}, the oracle says {}", place(c, e, n), c.got[n],
                         c.truth[n]);
    }
  }
  return "";
}

std::string check_bound(const Comparison& c, const Expected& e, Verdict* verdict) {
  std::string why;
  double worst = 0;
  for (std::size_t n = 0; n < c.truth.size(); ++n) {
    if (!std::isfinite(c.truth[n]) || !std::isfinite(c.got[n])) continue;
    const double error = std::fabs(c.got[n] - c.truth[n]);
    const double ratio = error / c.bound(n);
    if (c.tensor == "output") verdict->worst_error = std::max(verdict->worst_error, error);
    verdict->worst_ratio = std::max(verdict->worst_ratio, ratio);
    if (ratio > std::max(1.0, worst)) {
      worst = ratio;
      why = fmt::format(
          "bound: {} is {:.9g}, the oracle says {:.9g}; off by {:.3g}, {:.2f} times the bound {:.3g}",
          place(c, e, n), c.got[n], c.truth[n], error, ratio, c.bound(n));
    }
  }
  return why;
}

// A row that sees nothing is exactly 0, not merely small.
std::string check_empty_rows(const Comparison& c, const Expected& e) {
  for (std::size_t n = 0; n < c.truth.size(); ++n) {
    const bool empty = e.truth.lse[n / static_cast<std::size_t>(c.columns)] == -INFINITY;
    if (empty && c.got[n] != 0) {
      return fmt::format("empty row: {} is {:.9g}, but nothing is visible there and the output must be 0",
                         place(c, e, n), c.got[n]);
    }
  }
  return "";
}

std::string check_seed_tolerance(const Comparison& c, const Expected& e) {
  for (std::size_t n = 0; n < c.truth.size(); ++n) {
    const double error = std::fabs(c.got[n] - c.truth[n]);
    if (std::isfinite(c.truth[n]) && !(error <= kSeedTolerance + kSeedTolerance * std::fabs(c.truth[n]))) {
      return fmt::format("atol = rtol = 1e-2: {} is {:.9g}, the oracle says {:.9g}", place(c, e, n), c.got[n],
                         c.truth[n]);
    }
  }
  return "";
}

// The elements of the judged rows, of output or lse.
std::vector<double> of_rows(const tessera_attention& p, const tessera_tensor& t, const Expected& e) {
  const std::int64_t columns = t.rank == 4 ? t.shape[3] : 1;
  std::vector<double> out;
  out.reserve(e.rows.size() * static_cast<std::size_t>(columns));
  for (const oracle::Row& row : e.rows) {
    const std::int64_t at = oracle::row_offset(p, t, row);
    for (std::int64_t d = 0; d < columns; ++d) out.push_back(oracle::load(t.data, t.dtype, at + d));
  }
  return out;
}

std::string check_values(const Instance& instance, const Expected& e, const Ruler& ruler, Verdict* verdict) {
  const Case& c = instance.shape();
  const tessera_attention& p = instance.problem();
  const double tolerance = ruler.tolerance;
  const Bounds& held_to = e.bounds(ruler.arithmetic);
  const std::vector<double> output = of_rows(p, p.output, e);
  const Comparison outputs{"output",       p.output.dtype,       c.value_dim, output,
                           e.truth.output, held_to.output_bound, tolerance};
  const std::vector<double> lse = p.lse.data != nullptr ? of_rows(p, p.lse, e) : e.truth.lse;
  const Comparison lses{"lse", TESSERA_F32, 1, lse, e.truth.lse, held_to.lse_bound, tolerance};

  if (std::string why = check_nonfinite(outputs, e); !why.empty()) return why;
  if (std::string why = check_nonfinite(lses, e); !why.empty()) return why;
  std::string why = check_bound(outputs, e, verdict);
  const std::string lse_why = check_bound(lses, e, verdict);
  if (why.empty()) why = lse_why;
  if (why.empty()) why = check_empty_rows(outputs, e);
  const bool seed_shape = c.group == "mission" || c.group == "canonical";
  if (why.empty() && seed_shape && tolerance == 0) why = check_seed_tolerance(outputs, e);
  return why;
}

std::string run(Instance& instance, const tessera_device& device, const Attend& attend) {
  instance.poison_outputs();
  std::string why = attend(instance.problem(), device);
  if (!why.empty()) return fmt::format("no result: {}", why);
  if (why = instance.damage(); !why.empty()) return fmt::format("guard bands: {}", why);
  if (why = instance.misplaced(); !why.empty()) return fmt::format("new rows: {}", why);
  if (why = instance.unwritten(); !why.empty()) return fmt::format("poison: {}", why);
  return "";
}

std::string all_gates(Instance& instance, const Expected& expected, const tessera_device& device,
                      const Attend& attend, Verdict* verdict) {
  if (std::string why = run(instance, device, attend); !why.empty()) return why;
  const Ruler ruler(instance.problem(), device);
  if (std::string why = check_values(instance, expected, ruler, verdict); !why.empty()) return why;

  const std::vector<unsigned char> first = instance.output_bytes();
  if (std::string why = run(instance, device, attend); !why.empty()) return "second run: " + why;
  if (instance.output_bytes() != first) return "repeat: a second run gave other bits";

  if (device.kind != TESSERA_CPU) return "";
  tessera_device other = device;
  other.threads = device.threads == 1 ? 3 : 1;
  if (std::string why = run(instance, other, attend); !why.empty())
    return fmt::format("{} threads: {}", other.threads, why);
  if (instance.output_bytes() != first) {
    return fmt::format("threads: {} threads gave other bits than {}", other.threads, device.threads);
  }
  return "";
}

std::string reproduce_command(const Instance& instance, const tessera_device& device) {
  const Case& c = instance.shape();
  const std::optional<Case> named = find(c.name);
  std::string out =
      fmt::format("tessera verify --case \"{}\" --input {} --seed {}",
                  named && *named == c ? c.name : words(c), name(instance.input()), instance.seed());
  if (device.kernel != nullptr) out += fmt::format(" --kernel {}", device.kernel);
  if (device.kind == TESSERA_CUDA) out += " --device cuda";
  if (device.kind == TESSERA_CUDA && device.index != 0) out += fmt::format(" --gpu {}", device.index);
  if (device.threads != 0) out += fmt::format(" --threads {}", device.threads);
  return out;
}

}  // namespace

Expected expect(const tessera_attention& problem, std::vector<oracle::Row> rows) {
  Expected e;
  e.rows = std::move(rows);
  const std::vector<oracle::Arithmetic> arithmetics = arithmetics_of(problem);
  Judges judges;
  if (oracle::has_append(problem))
    judges = ask_judges(oracle::Rest(problem).problem(), e.rows, arithmetics);
  else
    judges = ask_judges(problem, e.rows, arithmetics);
  e.truth = std::move(judges.truth);
  for (std::size_t a = 0; a < arithmetics.size(); ++a) {
    Bounds bounds = bounds_of(problem.output.dtype, judges.plain[a], e.truth);
    if (arithmetics[a] == oracle::Arithmetic::f32)
      static_cast<Bounds&>(e) = std::move(bounds);
    else
      e.others.emplace_back(arithmetics[a], std::move(bounds));
  }
  return e;
}

const Bounds& Expected::bounds(oracle::Arithmetic arithmetic) const {
  for (const auto& [other, its_bounds] : others)
    if (other == arithmetic) return its_bounds;
  return *this;
}

oracle::Arithmetic arithmetic_of(const tessera_attention& problem, const tessera_device& device) {
  return Ruler(problem, device).arithmetic;
}

Expected expect(const Instance& instance) { return expect(instance.problem(), rows_to_judge(instance)); }

std::string attend_with_library(const tessera_attention& problem, const tessera_device& device) {
  if (device.kind == TESSERA_CUDA) return attend_on_gpu(problem, device).message;
  if (tessera_attend(&problem, &device) == TESSERA_OK) return "";
  return tessera_last_error();
}

Verdict judge(Instance& instance, const Expected& expected, const tessera_device& device,
              const Attend& attend) {
  const Case& c = instance.shape();
  Verdict verdict;
  verdict.rows = c.batch * c.heads * c.queries;
  verdict.rows_judged = static_cast<std::int64_t>(expected.rows.size());
  verdict.reproduce = reproduce_command(instance, device);
  verdict.why = all_gates(instance, expected, device, attend, &verdict);
  verdict.passed = verdict.why.empty();
  return verdict;
}

Verdict judge(Instance& instance, const Expected& expected, const tessera_device& device) {
  if (device.kind != TESSERA_CUDA) return judge(instance, expected, device, attend_with_library);
  Mirror* mirror = nullptr;
  const core::Status there = instance.mirror(device.index, &mirror);
  Verdict verdict =
      judge(instance, expected, device, [&](const tessera_attention& problem, const tessera_device& d) {
        return there.ok() ? mirror->attend(problem, d).message : there.message;
      });
  if (verdict.passed) verdict.why = gpu_gates(instance, *mirror, device);
  // A written input explains whatever else went wrong, and must not be the next kernel's trouble.
  if (there.ok() && !verdict.why.empty())
    if (const std::string name = mirror->changed_input(); !name.empty())
      verdict.why = fmt::format("guard bands: {}, an input, was written to; then {}", name, verdict.why);
  verdict.passed = verdict.why.empty();
  return verdict;
}

Verdict judge(const Case& c, Input input, std::uint64_t seed, const tessera_device& device) {
  Instance instance(c, input, seed);
  return judge(instance, expect(instance), device);
}

}  // namespace tessera::cases
