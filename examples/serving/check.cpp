#include "check.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace serving {
namespace {

// Logits of about 1 to 10, f32 and three layers: roundings are some 1e-6. A token whose logit is ahead by
// less than this may be another one when rows are computed in other numbers, and is counted as a tie.
constexpr float kTie = 1e-4f;

const std::vector<std::int32_t> kPage = {0};

std::string where(const Request& request, int position) {
  return "request " + std::to_string(request.number) + ", token " + std::to_string(position);
}

// The logits of each generated token, those of its last life; where a token was generated in an earlier life,
// they come from that one.
std::vector<const std::vector<float>*> logits_by_position(const Request& request) {
  std::vector<const std::vector<float>*> at(request.tokens.size(), nullptr);
  for (const Life& life : request.lives)
    for (const Segment& s : life)
      if (!s.logits.empty()) at[static_cast<std::size_t>(s.first + s.rows)] = &s.logits;
  return at;
}

}  // namespace

Check::Check(Model& model) : model_(model), cache_(model.machine(), 1, pages_of(kLongest) * kPageRows) {}

std::string Check::same_bits(const Request& request) {
  for (const Life& life : request.lives) {
    ++counts_.lives;
    for (const Segment& s : life) {
      Step step;
      step.add(s.whose->tokens, s.first, s.rows, kPage);
      if (!s.logits.empty()) step.logits_of = {s.rows - 1};
      const auto alone = model_.compute(step, cache_);
      if (s.logits.empty()) continue;
      ++counts_.tokens;
      if (std::memcmp(alone[0].data(), s.logits.data(), s.logits.size() * sizeof(float)) != 0)
        return where(request, s.first + s.rows) + ": its logits have other bits than alone";
    }
  }
  return "";
}

std::string Check::same_tokens(const Request& request) {
  Step step;
  step.add(request.tokens, 0, request.size() - 1, kPage);
  for (int n = request.prompt; n < request.size(); ++n) step.logits_of.push_back(n - 1);
  const auto whole = model_.compute(step, cache_);
  const auto served = logits_by_position(request);
  for (int n = request.prompt; n < request.size(); ++n) {
    const auto& logits = whole[static_cast<std::size_t>(n - request.prompt)];
    const auto* const ours = served[static_cast<std::size_t>(n)];
    if (ours == nullptr) return where(request, n) + " was never sampled";
    for (std::size_t t = 0; t < logits.size(); ++t)
      counts_.difference = std::max(counts_.difference, std::fabs(logits[t] - (*ours)[t]));
    float gap = 0;
    const std::int32_t token = sample(request, n, logits, &gap);
    if (token == request.tokens[static_cast<std::size_t>(n)]) continue;
    if (gap > kTie) {
      return where(request, n) + " is " + std::to_string(request.tokens[static_cast<std::size_t>(n)]) +
             ", but " + std::to_string(token) + " in one call over the whole request, ahead by " +
             std::to_string(gap);
    }
    ++counts_.ties;
  }
  return "";
}

}  // namespace serving
