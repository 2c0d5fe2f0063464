// The yardstick: what float32 arithmetic costs when nobody is clever. Scores, a softmax in two passes
// (largest score, then exponentials and their sum), P V, all summed one after the other in float32;
// the output is divided by the sum at the end and rounded to its storage type. Where that is f32 beside
// inputs of 16 bits, P V is of weights rounded to these: so tensor cores take them, and the output's own
// rounding no longer hides it.
//
// Of keys and values of 8 bits beside a wider query all this is so, too: they are codes times scale,
// converted exactly. Of a query of 8 bits the products may instead be summed as 8-bit tensor cores do
// (plain_fp8.hpp).
#include <algorithm>
#include <limits>

#include "oracle/oracle.hpp"
#include "oracle/plain_fp8.hpp"
#include "oracle/reading.hpp"

namespace tessera::oracle {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A row's prior parts, then the keys it sees.
struct Terms {
  std::vector<float> score;
  std::vector<const float*> value;
  std::vector<std::int64_t> key;  // behind the priors: which key it is
  std::vector<PriorRow<float>> priors;
};

bool is_8_bit(tessera_dtype dtype) { return dtype == TESSERA_F8E4M3 || dtype == TESSERA_F8E5M2; }

// How a row is computed. `codes`: of its head, where products are those of codes.
struct Way {
  Arithmetic arithmetic = Arithmetic::f32;
  tessera_dtype of_keys = TESSERA_F32;  // what weights of keys are rounded to before they meet V
  Codes codes;

  Way(const tessera_attention& p, Arithmetic asked) {
    const tessera_dtype dtype = p.query.dtype;
    if (is_8_bit(dtype)) {
      arithmetic = asked;
      if (asked == Arithmetic::fp8_accurate || asked == Arithmetic::fp8_ada) of_keys = TESSERA_F16;
    } else if (p.output.dtype != dtype) {
      of_keys = dtype;
    }
  }
  bool short_products() const { return arithmetic != Arithmetic::f32; }
};

void add_keys(const tessera_attention& p, const Sizes& n, const Head<float>& head, const Way& way,
              const Row& row, Terms* out) {
  const float scale = scale_of<float>(p);
  const float slope = alibi_slope(p, row.batch, row.head);
  const std::int64_t keys = key_length(p, row.batch);
  const std::int64_t position_of_query = position(p, row.batch, row.query);
  const std::vector<float> query = way.short_products() ? codes_of_query(p, row) : query_row<float>(p, row);

  for (std::int64_t j = 0; j < keys; ++j) {
    if (!visible(p, row.batch, row.head, row.query, j)) continue;
    const float* key = head.key.data() + j * n.dim;
    float dot = 0;
    if (way.short_products()) {
      dot = short_score(p, way.codes, query, row, j, way.arithmetic == Arithmetic::fp8_ada);
    } else {
      for (std::int64_t d = 0; d < n.dim; ++d) dot += query[static_cast<std::size_t>(d)] * key[d];
    }
    float s = scale * dot;
    if (p.softcap > 0) s = p.softcap * std::tanh(s / p.softcap);
    if (p.alibi_slopes.data != nullptr) s -= slope * static_cast<float>(std::llabs(position_of_query - j));
    if (has_additive_mask(p)) s += static_cast<float>(mask_bias(p, row, j));
    out->score.push_back(s);
    out->value.push_back(head.value.data() + j * n.value_dim);
    out->key.push_back(j);
  }
}

Terms terms_of(const tessera_attention& p, const Sizes& n, const Head<float>& head, const Way& way,
               const Row& row) {
  Terms out;
  for (std::int64_t part = 0; part < n.parts; ++part) out.priors.emplace_back(p, n, part, row);
  for (const PriorRow<float>& prior : out.priors) {
    out.score.push_back(prior.lse);
    out.value.push_back(prior.value.data());
  }
  add_keys(p, n, head, way, row, &out);
  return out;
}

// Returns the lse.
float weigh_row(const tessera_attention& p, const Sizes& n, const Terms& t, const Way& way, const Row& row,
                std::vector<float>* output) {
  const float sink_score = sink(p, row.head);
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
  std::vector<Weighted> fast;
  for (std::size_t j = 0; j < t.score.size(); ++j) {
    if (t.score[j] == -kInfinity) continue;
    const float weight = std::exp(t.score[j] - largest);
    sum += weight;
    const bool of_key = j >= t.priors.size();
    if (of_key && way.arithmetic == Arithmetic::fp8_fast) {
      fast.push_back({t.key[j - t.priors.size()], weight});
      continue;
    }
    const float taken =
        of_key ? static_cast<float>(round_to(way.of_keys, static_cast<double>(weight))) : weight;
    for (std::int64_t d = 0; d < n.value_dim; ++d)
      (*output)[static_cast<std::size_t>(d)] += taken * t.value[j][d];
  }
  add_fast(p, n, way.codes, row, fast, output);
  for (float& o : *output) o /= sum;
  return largest + std::log(sum);
}

}  // namespace

Result plain(const tessera_attention& problem, std::span<const Row> rows, Arithmetic arithmetic) {
  const Sizes n(problem);
  Way way(problem, arithmetic);
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
      if (way.short_products()) way.codes.load_for(problem, n, row);
      lse = weigh_row(problem, n, terms_of(problem, n, head, way, row), way, row, &output);
    }
    result.lse.push_back(static_cast<double>(lse));
    for (float o : output) result.output.push_back(round_to(problem.output.dtype, static_cast<double>(o)));
  }
  return result;
}

Result plain(const tessera_attention& problem, Arithmetic arithmetic) {
  return plain(problem, every_row(problem), arithmetic);
}

}  // namespace tessera::oracle
