#include "problem.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <random>

#include "oracle/oracle.hpp"

namespace tessera::peers {
namespace {

// Chunks have generators of their own, so that filling is threaded and the numbers still depend on the
// seed alone.
constexpr std::int64_t kChunk = 1 << 16;

void fill_normal(float* x, std::int64_t n, std::uint64_t seed, std::uint64_t tensor) {
#pragma omp parallel for schedule(static)
  for (std::int64_t start = 0; start < n; start += kChunk) {
    std::seed_seq words{seed & 0xffffffffu, seed >> 32, tensor, static_cast<std::uint64_t>(start / kChunk)};
    std::mt19937 generator(words);
    std::normal_distribution<float> normal;
    const std::int64_t end = std::min(n, start + kChunk);
    for (std::int64_t i = start; i < end; ++i) x[i] = normal(generator);
  }
}

Buffer rounded(const Buffer& from, tessera_dtype dtype, Pages pages) {
  const auto n = static_cast<std::int64_t>(from.bytes() / sizeof(float));
  Buffer to(static_cast<std::size_t>(n) * tessera_dtype_size(dtype), pages);
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < n; ++i) oracle::store(to.data(), dtype, i, from.floats()[i]);
  return to;
}

}  // namespace

std::string Shape::label() const {
  const std::string h = heads == kv_heads ? fmt::format("{}", heads) : fmt::format("{}/{}", heads, kv_heads);
  return fmt::format("{},{},{}x{},{}{}", batch, h, queries, keys, dim, causal ? " causal" : "");
}

double Shape::flops() const {
  double pairs = static_cast<double>(queries) * static_cast<double>(keys);
  // Bottom-right: the last query sees every key, each one before it sees one key less.
  if (causal) pairs -= 0.5 * static_cast<double>(queries) * static_cast<double>(queries - 1);
  return 4.0 * static_cast<double>(batch * heads * dim) * pairs;
}

double Shape::bytes(tessera_dtype dtype) const {
  const std::int64_t elements = 2 * query_rows() * dim + 2 * kv_count() * keys * dim;
  return static_cast<double>(elements) * static_cast<double>(tessera_dtype_size(dtype));
}

Inputs random_inputs(const Shape& shape, std::uint64_t seed, Pages pages) {
  const std::int64_t q = shape.query_rows() * shape.dim;
  const std::int64_t kv = shape.kv_count() * shape.keys * shape.dim;
  Inputs in{TESSERA_F32, Buffer(static_cast<std::size_t>(q) * sizeof(float), pages),
            Buffer(static_cast<std::size_t>(kv) * sizeof(float), pages),
            Buffer(static_cast<std::size_t>(kv) * sizeof(float), pages)};
  fill_normal(in.query.floats(), q, seed, 1);
  fill_normal(in.key.floats(), kv, seed, 2);
  fill_normal(in.value.floats(), kv, seed, 3);
  return in;
}

Inputs rounded_inputs(const Inputs& from, tessera_dtype dtype, Pages pages) {
  return {dtype, rounded(from.query, dtype, pages), rounded(from.key, dtype, pages),
          rounded(from.value, dtype, pages)};
}

const std::vector<Peer>& peers() {
  static const std::vector<Peer> all = {
#if defined(TESSERA_PEER_ONEDNN)
    {"oneDNN", onednn_version(), make_onednn},
#endif
#if defined(TESSERA_PEER_OPENBLAS)
    {"OpenBLAS", openblas_version(), make_openblas},
    {"tiles on OpenBLAS", openblas_version(), make_tiles},
#endif
  };
  return all;
}

std::vector<std::string> left_out() {
  std::vector<std::string> missing;
#if !defined(TESSERA_PEER_ONEDNN)
  missing.emplace_back("oneDNN: libdnnl-dev was not found when this was built");
#endif
#if !defined(TESSERA_PEER_OPENBLAS)
  missing.emplace_back("OpenBLAS and tiles on OpenBLAS: libopenblas-dev was not found when this was built");
#endif
  return missing;
}

}  // namespace tessera::peers
