// What is timed: cases, their inputs and the contenders that compute them.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cases/case.hpp"
#include "memory.hpp"

namespace tessera::peers {

using cases::Case;

// What shares one K/V head: query heads, and their rows, which stand together as one matrix.
inline std::int64_t group(const Case& c) { return c.heads / c.kv_heads; }
inline std::int64_t packed_rows(const Case& c) { return group(c) * c.queries; }
inline std::int64_t kv_count(const Case& c) { return c.batch * c.kv_heads; }
std::string label(const Case& c);  // "1,32/8,8x4096,128"
Case in_dtype(Case c, tessera_dtype dtype);

// Query, key and value of a case, contiguous [batch, heads, rows, dim]: standard normal. The same seed makes
// the same numbers, rounded to the case's dtype.
struct Inputs {
  Buffer query, key, value;
};
Inputs make_inputs(const Case& c, std::uint64_t seed, Pages pages);
tessera_attention problem_of(const Case& c, const Inputs& inputs, void* output);

// One way of running a contender. enter() sets what is global in its library (thread counts) and is
// not timed; run() is one call.
struct Way {
  std::string how;
  std::function<void()> enter;
  std::function<void()> run;  // throws std::runtime_error if the library refuses
};

// Somebody who computes a shape. Where a library can go about it in several ways, the fastest way on
// this shape is the one that is timed.
struct Contender {
  std::string name;
  bool ours = false;
  Case shape;
  Buffer output;
  std::vector<Way> ways;
};

struct Job {
  Case shape;
  const Inputs* inputs = nullptr;
  int threads = 1;
};

std::unique_ptr<Contender> make_tessera(const Job& job);

// The peers compiled in, and for each the sentence that says what it is and its version.
struct Peer {
  std::string name;
  std::string version;
  std::unique_ptr<Contender> (*make)(const Job& job);
};
const std::vector<Peer>& peers();
// "oneDNN: libdnnl-dev was not found when this was built", one for each peer left out.
std::vector<std::string> left_out();

#if defined(TESSERA_PEER_ONEDNN)
std::unique_ptr<Contender> make_onednn(const Job& job);
std::string onednn_version();
#endif
#if defined(TESSERA_PEER_OPENBLAS)
std::unique_ptr<Contender> make_openblas(const Job& job);
std::unique_ptr<Contender> make_tiles(const Job& job);
std::string openblas_version();
#endif

}  // namespace tessera::peers
