// The serving kernels' row of the table: batches whose entries differ in rows, keys and where they lie.
#pragma once

#include <limits>

#include "core/kernel.hpp"
#include "cuda/serving/configs.hpp"
#include "cuda/steps.hpp"

namespace tessera::cuda::serving {

core::Kernel production_row();

// What a problem gets on a GPU of this arch.
struct Choice {
  HeadDims dims;
  Variant variant;
  Config config;
  std::int64_t row_tiles;  // of a K/V head
};
Choice choice_for(const core::Problem& problem, int code_arch);

// Which entries the kernels take: those with so many packed rows. Others are somebody else's.
struct Route {
  int least_rows, most_rows;
  bool clears;  // and the rows that no entry owns
};
inline constexpr Route kEveryEntry{1, std::numeric_limits<int>::max(), true};

// What was added, for people.
struct Added {
  Choice choice;
  std::int64_t pieces = 1, blocks = 1;
};
core::Status add_steps(const core::Problem& problem, const runtime::Gpu& gpu, const Route& route,
                       Steps* steps, Added* added);

}  // namespace tessera::cuda::serving
