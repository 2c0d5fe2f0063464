// The truth: attention in float64, a row at a time, every score kept. Nothing clever, on purpose.
#include <algorithm>
#include <limits>

#include "oracle/oracle.hpp"
#include "oracle/reading.hpp"

namespace tessera::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// What a row is summed from, in this order: its prior parts, then its keys.
struct Terms {
  std::vector<double> score;      // -inf where hidden
  std::vector<double> magnitude;  // sum of the absolute terms a score is made of
  std::vector<const double*> value;
  std::vector<PriorRow<double>> priors;

  void add(double s, double absolute, const double* row) {
    score.push_back(s);
    magnitude.push_back(absolute);
    value.push_back(row);
  }
};

void add_keys(const tessera_attention& p, const Sizes& n, const Head<double>& head, const Row& row,
              Terms* out) {
  const double scale = scale_of<double>(p);
  const double softcap = static_cast<double>(p.softcap);
  const double slope = static_cast<double>(alibi_slope(p, row.batch, row.head));
  const std::int64_t keys = key_length(p, row.batch);
  const std::int64_t position_of_query = position(p, row.batch, row.query);
  const std::vector<double> query = query_row<double>(p, row);

  for (std::int64_t j = 0; j < keys; ++j) {
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
      const double bias = mask_bias(p, row, j);
      s += bias;
      magnitude += std::fabs(bias);
    }
    out->add(s, magnitude, head.value.data() + j * n.value_dim);
  }
}

Terms terms_of(const tessera_attention& p, const Sizes& n, const Head<double>& head, const Row& row) {
  Terms out;
  for (std::int64_t part = 0; part < n.parts; ++part) out.priors.emplace_back(p, n, part, row);
  for (const PriorRow<double>& prior : out.priors) {
    const double magnitude = prior.lse == -kInfinity ? 0.0 : std::fabs(prior.lse);
    out.add(prior.lse, magnitude, prior.value.data());
  }
  add_keys(p, n, head, row, &out);
  return out;
}

struct RowResult {
  double* output;
  double* output_sensitivity;
  double lse = 0, lse_sensitivity = 0;
};

// Nothing visible; also what a row of no entry gives.
void empty_row(const Sizes& n, RowResult* out) {
  std::fill_n(out->output, n.value_dim, 0.0);
  std::fill_n(out->output_sensitivity, n.value_dim, 0.0);
  out->lse = -kInfinity;
  out->lse_sensitivity = 0;
}

// Output and lse of a row whose terms are known. The sink is one more score that has no value row.
void weigh_row(const Sizes& n, const Terms& t, double sink_score, RowResult* out) {
  empty_row(n, out);
  bool undefined = std::isnan(sink_score) || sink_score == kInfinity;
  double largest = sink_score;
  for (double score : t.score) {
    undefined = undefined || std::isnan(score) || score == kInfinity;
    largest = std::max(largest, score);
  }
  if (undefined) {
    std::fill_n(out->output, n.value_dim, kNan);
    out->lse = kNan;
    return;
  }
  if (largest == -kInfinity) return;

  double sum = std::exp(sink_score - largest);
  for (double score : t.score) sum += std::exp(score - largest);
  out->lse = largest + std::log(sum);
  // Not exp(score - lse): beside the lowest finite score a sum of several keys is lost in lse.
  const auto weight_of = [=](double score) { return std::exp(score - largest) / sum; };

  for (std::size_t j = 0; j < t.score.size(); ++j) {
    if (t.score[j] == -kInfinity) continue;
    const double weight = weight_of(t.score[j]);
    for (std::int64_t d = 0; d < n.value_dim; ++d) out->output[d] += weight * t.value[j][d];
  }

  // A relative error e in score j's terms moves the score by magnitude * e, the output by
  // weight * (value - output) times that, and the lse by weight times that.
  const double sink_weight = weight_of(sink_score);
  out->lse_sensitivity = sink_weight > 0 ? sink_weight * (1 + std::fabs(sink_score)) : 0.0;
  for (std::int64_t d = 0; d < n.value_dim; ++d) {
    out->output_sensitivity[d] = out->lse_sensitivity * std::fabs(out->output[d]);
  }
  for (std::size_t j = 0; j < t.score.size(); ++j) {
    if (t.score[j] == -kInfinity) continue;
    const double weight = weight_of(t.score[j]);
    const double movable = weight * (1 + t.magnitude[j]);
    out->lse_sensitivity += movable;
    for (std::int64_t d = 0; d < n.value_dim; ++d) {
      out->output_sensitivity[d] +=
          movable * std::fabs(t.value[j][d] - out->output[d]) + weight * std::fabs(t.value[j][d]);
    }
  }
}

}  // namespace

std::int64_t row_offset(const tessera_attention& p, const tessera_tensor& t, const Row& row) {
  const std::int64_t entry = p.query_offsets.data != nullptr ? 0 : row.batch;
  return row_start(t, entry, row.head, first_row(p, row.batch) + row.query);
}

std::vector<Row> every_row(const tessera_attention& problem) {
  const Sizes n(problem);
  std::vector<Row> rows;
  if (problem.query_offsets.data == nullptr) {
    for (std::int64_t b = 0; b < n.batch; ++b) {
      for (std::int64_t h = 0; h < n.heads; ++h) {
        for (std::int64_t i = 0; i < n.queries; ++i) rows.push_back({b, h, i});
      }
    }
    return rows;
  }
  for (std::int64_t h = 0; h < n.heads; ++h) {
    std::int64_t at = 0;
    for (std::int64_t b = 0; b < n.batch; ++b) {
      for (; at < first_row(problem, b); ++at) rows.push_back({kNoEntry, h, at});
      for (std::int64_t i = 0; i < rows_of(problem, b); ++i, ++at) rows.push_back({b, h, i});
    }
    for (; at < n.queries; ++at) rows.push_back({kNoEntry, h, at});
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

  Head<double> head;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    const std::size_t start = r * static_cast<std::size_t>(n.value_dim);
    RowResult out{result.output.data() + start, result.output_sensitivity.data() + start};
    if (row.batch == kNoEntry) {
      empty_row(n, &out);
    } else {
      head.load_for(problem, n, row);
      weigh_row(n, terms_of(problem, n, head, row), static_cast<double>(sink(problem, row.head)), &out);
    }
    result.lse[r] = out.lse;
    result.lse_sensitivity[r] = out.lse_sensitivity;
  }
  return result;
}

Result attend(const tessera_attention& problem) { return attend(problem, every_row(problem)); }

}  // namespace tessera::oracle
