// The yardstick: what float32 arithmetic costs when nobody is clever. Scores, a softmax in two passes
// (largest score, then exponentials and their sum), P V, all summed one after the other in float32;
// the output is divided by the sum at the end and rounded to its storage type. Where that is f32 beside
// inputs of 16 bits, P V is of weights rounded to these: so tensor cores take them, and the output's own
// rounding no longer hides it.
#include <algorithm>
#include <limits>

#include "oracle/oracle.hpp"
#include "oracle/reading.hpp"

namespace tessera::oracle {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A row's prior parts, then the keys it sees.
struct Terms {
  std::vector<float> score;
  std::vector<const float*> value;
  std::vector<PriorRow<float>> priors;
};

void add_keys(const tessera_attention& p, const Sizes& n, const Head<float>& head, const Row& row,
              Terms* out) {
  const float scale = scale_of<float>(p);
  const float slope = alibi_slope(p, row.batch, row.head);
  const std::int64_t keys = key_length(p, row.batch);
  const std::int64_t position_of_query = position(p, row.batch, row.query);
  const std::int64_t query_start = row_offset(p, p.query, row);
  std::vector<float> query(static_cast<std::size_t>(n.dim));
  for (std::int64_t d = 0; d < n.dim; ++d) {
    query[static_cast<std::size_t>(d)] =
        static_cast<float>(load(p.query.data, p.query.dtype, query_start + d));
  }

  for (std::int64_t j = 0; j < keys; ++j) {
    if (!visible(p, row.batch, row.head, row.query, j)) continue;
    const float* key = head.key.data() + j * n.dim;
    float dot = 0;
    for (std::int64_t d = 0; d < n.dim; ++d) dot += query[static_cast<std::size_t>(d)] * key[d];
    float s = scale * dot;
    if (p.softcap > 0) s = p.softcap * std::tanh(s / p.softcap);
    if (p.alibi_slopes.data != nullptr) s -= slope * static_cast<float>(std::llabs(position_of_query - j));
    if (has_additive_mask(p)) s += static_cast<float>(mask_bias(p, row, j));
    out->score.push_back(s);
    out->value.push_back(head.value.data() + j * n.value_dim);
  }
}

Terms terms_of(const tessera_attention& p, const Sizes& n, const Head<float>& head, const Row& row) {
  Terms out;
  for (std::int64_t part = 0; part < n.parts; ++part) out.priors.emplace_back(p, n, part, row);
  for (const PriorRow<float>& prior : out.priors) {
    out.score.push_back(prior.lse);
    out.value.push_back(prior.value.data());
  }
  add_keys(p, n, head, row, &out);
  return out;
}

// Returns the lse. `of_keys`: the type that weights of keys are rounded to.
float weigh_row(const Sizes& n, const Terms& t, float sink_score, tessera_dtype of_keys,
                std::vector<float>* output) {
  output->assign(static_cast<std::size_t>(n.value_dim), 0.0f);
  bool undefined = std::isnan(sink_score) || sink_score == kInfinity;
  float largest = sink_score;
  for (float score : t.score) {
    undefined = undefined || std::isnan(score) || score == kInfinity;
    largest = std::max(largest, score);
  }
  if (undefined) {
    output->assign(static_cast<std::size_t>(n.value_dim), kNan);
    return kNan;
  }
  if (largest == -kInfinity) return -kInfinity;

  float sum = std::exp(sink_score - largest);
  for (std::size_t j = 0; j < t.score.size(); ++j) {
    if (t.score[j] == -kInfinity) continue;
    const float weight = std::exp(t.score[j] - largest);
    sum += weight;
    const float taken =
        j < t.priors.size() ? weight : static_cast<float>(round_to(of_keys, static_cast<double>(weight)));
    for (std::int64_t d = 0; d < n.value_dim; ++d)
      (*output)[static_cast<std::size_t>(d)] += taken * t.value[j][d];
  }
  for (float& o : *output) o /= sum;
  return largest + std::log(sum);
}

}  // namespace

Result plain(const tessera_attention& problem, std::span<const Row> rows) {
  const Sizes n(problem);
  const tessera_dtype of_keys =
      problem.output.dtype == problem.query.dtype ? TESSERA_F32 : problem.query.dtype;
  Result result;
  result.output.reserve(rows.size() * static_cast<std::size_t>(n.value_dim));
  result.lse.reserve(rows.size());

  Head<float> head;
  std::vector<float> output;
  for (const Row& row : rows) {
    float lse = -kInfinity;
    if (row.batch == kNoEntry) {
      output.assign(static_cast<std::size_t>(n.value_dim), 0.0f);
    } else {
      head.load_for(problem, n, row);
      lse = weigh_row(n, terms_of(problem, n, head, row), sink(problem, row.head), of_keys, &output);
    }
    result.lse.push_back(static_cast<double>(lse));
    for (float o : output) result.output.push_back(round_to(problem.output.dtype, static_cast<double>(o)));
  }
  return result;
}

Result plain(const tessera_attention& problem) { return plain(problem, every_row(problem)); }

}  // namespace tessera::oracle
