// The yardstick: what float32 arithmetic costs when nobody is clever. Scores, a softmax in two passes
// (largest score, then exponentials and their sum), P V, all summed one after the other in float32;
// the output is divided by the sum at the end and rounded to its storage type.
#include <algorithm>
#include <limits>

#include "oracle/oracle.hpp"
#include "oracle/reading.hpp"

namespace tessera::oracle {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Head {
  std::int64_t batch = -1, kv_head = -1;
  std::vector<float> key, value;
};

std::vector<float> score_row(const tessera_attention& p, const Sizes& n, const Head& head, const Row& row) {
  const float scale = scale_of<float>(p);
  const float slope = alibi_slope(p, row.batch, row.head);
  const std::int64_t position_of_query = position(p, row.batch, row.query);
  const std::int64_t query_start = row_start(p.query, row.batch, row.head, row.query);
  std::vector<float> query(static_cast<std::size_t>(n.dim));
  for (std::int64_t d = 0; d < n.dim; ++d) {
    query[static_cast<std::size_t>(d)] =
        static_cast<float>(load(p.query.data, p.query.dtype, query_start + d));
  }

  std::vector<float> scores(static_cast<std::size_t>(n.keys), -kInfinity);
  for (std::int64_t j = 0; j < n.keys; ++j) {
    if (!visible(p, row.batch, row.head, row.query, j)) continue;
    const float* key = head.key.data() + j * n.dim;
    float dot = 0;
    for (std::int64_t d = 0; d < n.dim; ++d) dot += query[static_cast<std::size_t>(d)] * key[d];
    float s = scale * dot;
    if (p.softcap > 0) s = p.softcap * std::tanh(s / p.softcap);
    if (p.alibi_slopes.data != nullptr) s -= slope * static_cast<float>(std::llabs(position_of_query - j));
    if (has_additive_mask(p)) {
      const tessera_tensor& t = p.mask.tensor;
      const std::int64_t at = broadcast_index(t, row.batch, row.head, row.query, j);
      s += static_cast<float>(load(t.data, t.dtype, at));
    }
    scores[static_cast<std::size_t>(j)] = s;
  }
  return scores;
}

// Returns the lse.
float weigh_row(const Sizes& n, const Head& head, const std::vector<float>& scores, float sink_score,
                std::vector<float>* output) {
  output->assign(static_cast<std::size_t>(n.value_dim), 0.0f);
  bool undefined = std::isnan(sink_score) || sink_score == kInfinity;
  float largest = sink_score;
  for (float score : scores) {
    undefined = undefined || std::isnan(score) || score == kInfinity;
    largest = std::max(largest, score);
  }
  if (undefined) {
    output->assign(static_cast<std::size_t>(n.value_dim), kNan);
    return kNan;
  }
  if (largest == -kInfinity) return -kInfinity;

  float sum = std::exp(sink_score - largest);
  for (std::int64_t j = 0; j < n.keys; ++j) {
    const float score = scores[static_cast<std::size_t>(j)];
    if (score == -kInfinity) continue;
    const float weight = std::exp(score - largest);
    sum += weight;
    const float* value = head.value.data() + j * n.value_dim;
    for (std::int64_t d = 0; d < n.value_dim; ++d)
      (*output)[static_cast<std::size_t>(d)] += weight * value[d];
  }
  for (float& o : *output) o /= sum;
  return largest + std::log(sum);
}

}  // namespace

Result plain(const tessera_attention& problem, std::span<const Row> rows) {
  const Sizes n(problem);
  Result result;
  result.output.reserve(rows.size() * static_cast<std::size_t>(n.value_dim));
  result.lse.reserve(rows.size());

  Head head;
  std::vector<float> output;
  for (const Row& row : rows) {
    const std::int64_t kv_head = row.head / (n.heads / n.kv_heads);
    if (head.batch != row.batch || head.kv_head != kv_head) {
      head = {row.batch, kv_head, matrix<float>(problem.key, row.batch, kv_head),
              matrix<float>(problem.value, row.batch, kv_head)};
    }
    const std::vector<float> scores = score_row(problem, n, head, row);
    const float lse = weigh_row(n, head, scores, sink(problem, row.head), &output);
    result.lse.push_back(static_cast<double>(lse));
    for (float o : output) result.output.push_back(round_to(problem.output.dtype, static_cast<double>(o)));
  }
  return result;
}

Result plain(const tessera_attention& problem) { return plain(problem, every_row(problem)); }

}  // namespace tessera::oracle
