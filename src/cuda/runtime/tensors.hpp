// The tensors of a problem, one by one, by the names that users know them by.
#pragma once

#include <string_view>

#include "core/problem.hpp"

namespace tessera::cuda::runtime {

// check(name, pointer) for every tensor that is there, until one returns a status that is not OK.
template <class Check>
core::Status for_each_tensor(const core::Problem& p, Check check) {
  const struct {
    std::string_view name;
    const void* data;
  } tensors[] = {{"query", p.query.data},
                 {"key", p.key.data},
                 {"value", p.value.data},
                 {"output", p.output.data},
                 {"lse", p.lse},
                 {"mask.tensor", p.mask.data},
                 {"key_lengths", p.key_lengths},
                 {"alibi_slopes", p.alibi_slopes},
                 {"sinks", p.sinks}};
  for (const auto& tensor : tensors) {
    if (tensor.data == nullptr) continue;
    if (core::Status s = check(tensor.name, tensor.data); !s.ok()) return s;
  }
  return {};
}

}  // namespace tessera::cuda::runtime
