#include "workload.hpp"

#include <cmath>
#include <cstddef>
#include <limits>

#include "model.hpp"

namespace serving {

std::uint64_t Random::bits() {  // splitmix64
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::vector<Request> make_requests(int count, std::uint64_t seed) {
  Random random(seed + 1);
  std::vector<std::vector<std::int32_t>> prefixes(2);
  for (auto& prefix : prefixes)
    for (int i = 0; i < kPrefix; ++i) prefix.push_back(random.below(kVocabulary));
  std::vector<Request> requests;
  int now = 0;
  for (int n = 0; n < count; ++n) {
    Request r;
    r.number = n;
    r.arrives = now;
    now += random.below(6);
    r.seed = random.bits();
    const int kind = random.below(4);  // one in four has no system prompt
    if (kind < 3) r.tokens = prefixes[kind == 0 ? 0 : 1];
    for (int own = 4 + random.below(kOwn - 3); own > 0; --own) r.tokens.push_back(random.below(kVocabulary));
    r.prompt = r.size();
    r.wanted = r.prompt + 8 + random.below(kGenerated - 7);
    requests.push_back(r);
  }
  return requests;
}

std::int32_t sample(const Request& request, int position, const std::vector<float>& logits, float* gap) {
  // Gumbel's trick: the largest of logit / temperature + noise is a draw from the softmax.
  constexpr double kTemperature = 0.8;
  Random noise(request.seed + 0x2545f4914f6cdd1du * static_cast<std::uint64_t>(position));
  const bool draws = request.number % 2 == 1;
  double best = -std::numeric_limits<double>::infinity(), second = best;
  std::int32_t token = -1;
  for (std::size_t t = 0; t < logits.size(); ++t) {
    double score = logits[t];
    if (draws) score -= kTemperature * std::log(-std::log(noise.uniform() + 0x1p-60));
    if (score > best) {
      second = best;
      best = score;
      token = static_cast<std::int32_t>(t);
    } else if (score > second) {
      second = score;
    }
  }
  if (gap != nullptr) *gap = static_cast<float>(best - second);
  return token;
}

}  // namespace serving
