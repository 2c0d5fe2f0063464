// Requests: what arrives, when, and how it is sampled.
#pragma once

#include <cstdint>
#include <vector>

namespace serving {

inline constexpr int kPageRows = 16;
inline constexpr int kPrefix = 40;     // tokens of a system prompt: no multiple of a page's rows
inline constexpr int kOwn = 60;        // at most so many tokens of a prompt's own follow it
inline constexpr int kGenerated = 48;  // at most so many tokens are generated
inline constexpr int kLongest = kPrefix + kOwn + kGenerated;

constexpr int pages_of(int rows) { return (rows + kPageRows - 1) / kPageRows; }

struct Request;

// One entry of one step: rows of a request's tokens that were computed together, and what was sampled from.
// `whose` is another request where the pages that hold the rows were taken over from it.
struct Segment {
  const Request* whose = nullptr;
  int first = 0, rows = 0;
  std::vector<float> logits = {};  // of the last row, if a token was sampled from it
};

// How the cache of a request came to be: the entries since its first page was taken.
using Life = std::vector<Segment>;

struct Request {
  int number = 0;
  int arrives = 0;  // before which step
  int prompt = 0;   // tokens of the prompt
  int wanted = 0;   // tokens in the end
  std::uint64_t seed = 0;
  std::vector<std::int32_t> tokens = {};  // the prompt and what was generated so far
  int computed = 0;                       // tokens whose keys and values lie in the pages
  std::vector<std::int32_t> pages = {};   // page n holds tokens n * kPageRows and the next ones
  std::vector<Life> lives = {};           // one, and one more after each preemption

  int size() const { return static_cast<int>(tokens.size()); }
  bool is_finished() const { return size() == wanted; }
};

std::vector<Request> make_requests(int count, std::uint64_t seed);

// The token that follows `position` tokens. Even requests take the likeliest one, odd ones draw; a request
// draws the same whenever it is asked, alone or in a batch. *gap: how far ahead of the next best it was.
std::int32_t sample(const Request& request, int position, const std::vector<float>& logits,
                    float* gap = nullptr);

// Uniform in [0, 1), and the same everywhere: standard distributions differ between libraries.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits();
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  int below(int end) { return static_cast<int>(uniform() * end); }

 private:
  std::uint64_t state_;
};

}  // namespace serving
