// The truth: attention in float64, a row at a time, every score kept. Nothing clever, on purpose.
#include <algorithm>
#include <limits>

#include "oracle/oracle.hpp"
#include "oracle/reading.hpp"

namespace tessera::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Keys and values of one batch entry and key/value head.
struct Head {
  std::int64_t batch = -1, kv_head = -1;
  std::vector<double> key, value;
};

struct Scores {
  std::vector<double> score;      // -inf where hidden
  std::vector<double> magnitude;  // sum of the absolute terms a score is made of
};

Scores score_row(const tessera_attention& p, const Sizes& n, const Head& head, const Row& row) {
  const double scale = scale_of<double>(p);
  const double softcap = static_cast<double>(p.softcap);
  const double slope = static_cast<double>(alibi_slope(p, row.batch, row.head));
  const std::int64_t position_of_query = position(p, row.batch, row.query);
  const std::int64_t query_start = row_start(p.query, row.batch, row.head, row.query);
  std::vector<double> query(static_cast<std::size_t>(n.dim));
  for (std::int64_t d = 0; d < n.dim; ++d) {
    query[static_cast<std::size_t>(d)] = load(p.query.data, p.query.dtype, query_start + d);
  }

  Scores out;
  out.score.assign(static_cast<std::size_t>(n.keys), -kInfinity);
  out.magnitude.assign(static_cast<std::size_t>(n.keys), 0.0);
  for (std::int64_t j = 0; j < n.keys; ++j) {
    if (!visible(p, row.batch, row.head, row.query, j)) continue;
    const double* key = head.key.data() + j * n.dim;
    double dot = 0, absolute = 0;
    for (std::int64_t d = 0; d < n.dim; ++d) {
      const double term = query[static_cast<std::size_t>(d)] * key[d];
      dot += term;
      absolute += std::fabs(term);
    }
    double s = scale * dot;
    double magnitude = std::fabs(scale) * absolute;
    if (softcap > 0) {
      const double t = std::tanh(s / softcap);
      s = softcap * t;
      magnitude = (1 - t * t) * magnitude + std::fabs(s);  // d tanh(x) / dx = 1 - tanh(x)^2
    }
    if (p.alibi_slopes.data != nullptr) {
      const double bias = slope * std::fabs(static_cast<double>(position_of_query - j));
      s -= bias;
      magnitude += std::fabs(bias);
    }
    if (has_additive_mask(p)) {
      const tessera_tensor& t = p.mask.tensor;
      const double bias = load(t.data, t.dtype, broadcast_index(t, row.batch, row.head, row.query, j));
      s += bias;
      magnitude += std::fabs(bias);
    }
    out.score[static_cast<std::size_t>(j)] = s;
    out.magnitude[static_cast<std::size_t>(j)] = magnitude;
  }
  return out;
}

struct RowResult {
  double* output;
  double* output_sensitivity;
  double lse = 0, lse_sensitivity = 0;
};

// Output and lse of a row whose scores are known. The sink is one more score that has no value row.
void weigh_row(const Sizes& n, const Head& head, const Scores& s, double sink_score, RowResult* out) {
  std::fill_n(out->output, n.value_dim, 0.0);
  std::fill_n(out->output_sensitivity, n.value_dim, 0.0);
  out->lse_sensitivity = 0;

  bool undefined = std::isnan(sink_score) || sink_score == kInfinity;
  double largest = sink_score;
  for (double score : s.score) {
    undefined = undefined || std::isnan(score) || score == kInfinity;
    largest = std::max(largest, score);
  }
  if (undefined) {
    std::fill_n(out->output, n.value_dim, kNan);
    out->lse = kNan;
    return;
  }
  if (largest == -kInfinity) {  // nothing visible
    out->lse = -kInfinity;
    return;
  }

  double sum = std::exp(sink_score - largest);
  for (double score : s.score) sum += std::exp(score - largest);
  out->lse = largest + std::log(sum);
  // Not exp(score - lse): beside the lowest finite score a sum of several keys is lost in lse.
  const auto weight_of = [=](double score) { return std::exp(score - largest) / sum; };

  for (std::int64_t j = 0; j < n.keys; ++j) {
    const double score = s.score[static_cast<std::size_t>(j)];
    if (score == -kInfinity) continue;
    const double weight = weight_of(score);
    const double* value = head.value.data() + j * n.value_dim;
    for (std::int64_t d = 0; d < n.value_dim; ++d) out->output[d] += weight * value[d];
  }

  // A relative error e in score j's terms moves the score by magnitude * e, the output by
  // weight * (value - output) times that, and the lse by weight times that.
  const double sink_weight = weight_of(sink_score);
  out->lse_sensitivity = sink_weight > 0 ? sink_weight * (1 + std::fabs(sink_score)) : 0.0;
  for (std::int64_t d = 0; d < n.value_dim; ++d) {
    out->output_sensitivity[d] = out->lse_sensitivity * std::fabs(out->output[d]);
  }
  for (std::int64_t j = 0; j < n.keys; ++j) {
    const double score = s.score[static_cast<std::size_t>(j)];
    if (score == -kInfinity) continue;
    const double weight = weight_of(score);
    const double movable = weight * (1 + s.magnitude[static_cast<std::size_t>(j)]);
    const double* value = head.value.data() + j * n.value_dim;
    out->lse_sensitivity += movable;
    for (std::int64_t d = 0; d < n.value_dim; ++d) {
      out->output_sensitivity[d] +=
          movable * std::fabs(value[d] - out->output[d]) + weight * std::fabs(value[d]);
    }
  }
}

}  // namespace

std::vector<Row> every_row(const tessera_attention& problem) {
  const Sizes n(problem);
  std::vector<Row> rows;
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t h = 0; h < n.heads; ++h) {
      for (std::int64_t i = 0; i < n.queries; ++i) rows.push_back({b, h, i});
    }
  }
  return rows;
}

Result attend(const tessera_attention& problem, std::span<const Row> rows) {
  const Sizes n(problem);
  const std::size_t elements = rows.size() * static_cast<std::size_t>(n.value_dim);
  Result result;
  result.output.resize(elements);
  result.output_sensitivity.resize(elements);
  result.lse.resize(rows.size());
  result.lse_sensitivity.resize(rows.size());

  Head head;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    const std::int64_t kv_head = row.head / (n.heads / n.kv_heads);
    if (head.batch != row.batch || head.kv_head != kv_head) {
      head = {row.batch, kv_head, matrix<double>(problem.key, row.batch, kv_head),
              matrix<double>(problem.value, row.batch, kv_head)};
    }
    const std::size_t start = r * static_cast<std::size_t>(n.value_dim);
    RowResult out{result.output.data() + start, result.output_sensitivity.data() + start};
    weigh_row(n, head, score_row(problem, n, head, row), static_cast<double>(sink(problem, row.head)), &out);
    result.lse[r] = out.lse;
    result.lse_sensitivity[r] = out.lse_sensitivity;
  }
  return result;
}

Result attend(const tessera_attention& problem) { return attend(problem, every_row(problem)); }

}  // namespace tessera::oracle
