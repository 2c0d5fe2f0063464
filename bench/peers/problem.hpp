// What is timed: shapes, their inputs and the contenders that compute them.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory.hpp"

namespace tessera::peers {

struct Shape {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, dim = 64;
  bool causal = false;

  std::int64_t group() const { return heads / kv_heads; }
  std::int64_t packed_rows() const { return group() * queries; }  // query rows that share one K/V head
  std::int64_t kv_count() const { return batch * kv_heads; }
  std::int64_t query_rows() const { return batch * heads * queries; }

  std::string label() const;                // "1,32/8,8x4096,128"
  double flops() const;                     // of the visible pairs: 4 * pairs * dim
  double bytes(tessera_dtype dtype) const;  // every tensor once
};

// Query, key and value of one dtype, contiguous [batch, heads, rows, dim].
struct Inputs {
  tessera_dtype dtype = TESSERA_F32;
  Buffer query, key, value;
};

// Standard normal f32 inputs, and the same numbers rounded to another dtype.
Inputs random_inputs(const Shape& shape, std::uint64_t seed, Pages pages);
Inputs rounded_inputs(const Inputs& from, tessera_dtype dtype, Pages pages);

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
  tessera_dtype dtype = TESSERA_F32;
  bool ours = false;
  Shape shape;
  Buffer output;
  std::vector<Way> ways;
};

struct Job {
  Shape shape;
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
