// The production kernel's row of the table: which variant and tile sizes a problem gets.
#pragma once

#include "core/kernel.hpp"
#include "cuda/sm80/configs.hpp"

namespace tessera::cuda::sm80 {

core::Kernel production_row();

// For tests and other kernels' cost models: the head dims a problem is padded to, and the variant it gets on
// a GPU of so many SMs.
HeadDims padded_dims(const core::Problem& problem);
Variant variant_for(const core::Problem& problem, int arch, int sms);
// Of that variant: rows a block, and how many blocks.
struct Tiling {
  int rows;
  std::int64_t blocks;
};
Tiling tiling_for(const core::Problem& problem, int arch, Variant variant);

}  // namespace tessera::cuda::sm80
