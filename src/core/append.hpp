// New keys and values, and RoPE: what a call does before its attention. No kernel knows of it. A problem with
// such a part is planned as if the new rows were in the cache already and the turned query were a tensor of
// its own, in the workspace; each backend has one piece of code that makes it so, which runs first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/kernel.hpp"
#include "core/problem.hpp"

namespace tessera::core {

// Fills out->append; the other parts of *out are settled.
Status check_append(const tessera_attention& given, Problem* out);
// Whether the values lie in the keys wherever new_value is left out, and only there: else nothing that is
// stored in one of them is an element of the other.
Status check_append_memory(const tessera_attention& given, const PerTensor<std::uint64_t>& span_bytes);
// Whether a call writes to the tensor, given how far its tensors reach.
bool is_written(const TensorField& field, const PerTensor<std::uint64_t>& span_bytes);
// What only host memory tells: where new rows stand, and which rows of rope's tables are asked for. Lengths
// and offsets have passed validate_contents().
Status validate_append_contents(const Problem& problem);

// What is left to compute. Its query is the turned one, if there is one: rows that begin at multiples of 16
// bytes, in the order of the query tensor, at a well aligned address.
Problem after_append(const Problem& problem);
// Of the turned query; 0 if it is not turned.
std::int64_t turned_query_bytes(const Problem& problem);

// The base of what backends make: the turned query stands first in the workspace, what attention needs
// follows.
class AppendFirst : public Prepared {
 public:
  std::string words() const final;

 protected:
  AppendFirst(const Problem& problem, std::shared_ptr<const Prepared> attend);

  struct Rest {
    Addresses at;
    tessera_device device;
  };
  // What the attention is called with; memory: the workspace, or the turned query alone.
  Rest rest_of(const Addresses& at, const tessera_device& device, void* memory) const;

  std::shared_ptr<const Prepared> attend_;
  bool stores_;
  std::int64_t own_bytes_;  // a multiple of 256
};

}  // namespace tessera::core
