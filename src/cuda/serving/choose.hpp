// The serving kernels' row of the table: few rows over many keys; and what the serving row launches of them.
#pragma once

#include <string>

#include "core/kernel.hpp"
#include "cuda/serving/configs.hpp"
#include "cuda/steps.hpp"

namespace tessera::cuda::serving {

core::Kernel production_row();
// The same kernels for keys and values of 8 bits.
core::Kernel codes_row();

// What a problem gets on a GPU of this arch.
struct Choice {
  HeadDims dims;
  Variant variant;
  Config config;
  const void* function;
  const void* merge = nullptr;  // the second kernel, where it has one
  std::int64_t row_tiles;       // of a K/V head
};
Choice choice_for(const core::Problem& problem, int code_arch);

// OK, or why these kernels do not take it.
core::Status takes(const core::Problem& problem);
// What was launched, for people.
struct Launched {
  Choice choice;
  std::int64_t pieces = 1, blocks = 1;
  bool prompts = false;  // entries of many rows, by sm90
};
std::string words(const core::Sizes& sizes, const Launched& launched);

// Adds the launches for all entries of up to `most_queries` rows; with query_offsets also those that clear
// rows of no entry.
core::Status add_steps(const core::Problem& problem, const runtime::Gpu& gpu, std::int64_t most_queries,
                       Steps* steps, Launched* launched);

}  // namespace tessera::cuda::serving
