#include "problem.hpp"

#include <fmt/core.h>

#include "cases/fill.hpp"
#include "cases/tensors.hpp"

namespace tessera::peers {

std::string label(const Case& c) {
  const std::string heads =
      c.heads == c.kv_heads ? fmt::format("{}", c.heads) : fmt::format("{}/{}", c.heads, c.kv_heads);
  const bool causal = c.align != TESSERA_ALIGN_NONE;
  return fmt::format("{},{},{}x{},{}{}", c.batch, heads, c.queries, c.keys, c.dim, causal ? " causal" : "");
}

Case in_dtype(Case c, tessera_dtype dtype) {
  c.dtype = dtype;
  return c;
}

tessera_attention problem_of(const Case& c, const Inputs& inputs, void* output) {
  tessera_attention p = cases::tensors_of(c, 0);
  p.query.data = inputs.query.data();
  p.key.data = inputs.key.data();
  p.value.data = inputs.value.data();
  p.output.data = output;
  p.lse = TESSERA_TENSOR_NONE;
  return p;
}

Inputs make_inputs(const Case& c, std::uint64_t seed, Pages pages) {
  const std::size_t size = tessera_dtype_size(c.dtype);
  const auto query_bytes = static_cast<std::size_t>(c.batch * c.heads * c.queries * c.dim) * size;
  const auto key_bytes = static_cast<std::size_t>(kv_count(c) * c.keys * c.dim) * size;
  Inputs inputs{Buffer(query_bytes, pages), Buffer(key_bytes, pages), Buffer(key_bytes, pages)};
  const tessera_attention p = problem_of(c, inputs, nullptr);
  cases::fill_normal(p.query, cases::Random(seed, 1), 1.0);
  cases::fill_normal(p.key, cases::Random(seed, 2), 1.0);
  cases::fill_normal(p.value, cases::Random(seed, 3), 1.0);
  return inputs;
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
