// A case as the interface sees it: every tensor's shape, strides and dtype, and the options. Instances give
// the tensors memory; what reads none (validation, plans, the cost of a case) does without.
#pragma once

#include <cstdint>

#include "cases/case.hpp"
#include "core/problem.hpp"

namespace tessera::cases {

inline constexpr std::uint64_t kDefaultSeed = 1;

// No tensor has an address yet. The seed also picks among the types and ranks that the interface takes.
tessera_attention tensors_of(const Case& c, std::uint64_t seed);

// With addresses that stand for no memory: aligned as those of an instance are, and far apart.
tessera_attention shape_only(const Case& c, std::uint64_t seed = kDefaultSeed);
// The same as the core sees it. On failure *problem stays as it was.
core::Status validated(const Case& c, core::Problem* problem);

}  // namespace tessera::cases
