// Ragged and paged batches by the wgmma kernels: the entries that have rows enough. And dense ones whose K
// and V alone are of 8 bits.
#pragma once

#include "core/problem.hpp"
#include "cuda/runtime/runtime.hpp"
#include "cuda/sm90/configs.hpp"
#include "cuda/steps.hpp"

namespace tessera::cuda::sm90 {

// Whether they take entries of such a batch, on this GPU. What is asked does not depend on how many entries,
// rows or keys there are: an entry goes the same way alone and in company.
bool takes_entries(const core::Problem& problem, const runtime::Gpu& gpu);

// Appends the steps that compute all entries with at least so many query rows. Entries with fewer and rows of
// no entry are left alone.
core::Status add_entries(const core::Problem& problem, const runtime::Gpu& gpu, int least_queries,
                         Steps* steps);

// How those entries are cut up.
Tiling entries_tiling(const core::Problem& problem);
// Keys of a box of K and V, of which a key tile has several where pages are shorter.
int entry_box_rows(const core::Problem& problem, int tile_keys);

}  // namespace tessera::cuda::sm90
