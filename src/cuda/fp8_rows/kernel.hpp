// Attention over 8-bit keys and values with plain arithmetic: one warp, one query row, key by key. Every
// option, scale, layout and head dim, on every GPU: what no faster kernel takes ends here.
//
//   lane l    columns l, l + 32, ... of the dot product, then of the output
//
// Nothing is shared between warps, so a row's bits depend on the row alone.
#pragma once

#include "cuda/fp8_rows/dispatch.hpp"
#include "cuda/fp8_rows/params.hpp"
#include "cuda/ptx/pdl.hpp"
#include "cuda/sm80/configs.hpp"
#include "cuda/tile/mixed_rows.hpp"

namespace tessera::cuda::fp8_rows {

static_assert(kColumns == tile::kCarefulColumns);

#if defined(__CUDA_ARCH__)
inline constexpr int kArch = __CUDA_ARCH__ / 10;
#else
inline constexpr int kArch = 80;
#endif

template <class Code>
struct Rows : tile::MixedRows<Code> {
  template <class View>
  __device__ Rows(const RowsParams& params, const View& v, tile::RowIndex at)
      : tile::MixedRows<Code>(params.problem, params.mixed, v, at) {}
};

struct Owner {
  int batch, query;  // batch: -1 where no entry has the row
};

// Whose row `row` is of those that lie one behind the other: all lanes look, each at its own entries.
__device__ inline Owner owner_of(const Params& p, int row) {
  for (int first = 0; first < p.sizes.batch; first += 32) {
    const int entry = first + static_cast<int>(threadIdx.x) % 32;
    const tile::AnySequence sequence{p, min(entry, p.sizes.batch - 1)};
    const int query = row - sequence.first_query();
    const bool mine = entry < p.sizes.batch && query >= 0 && query < sequence.queries();
    const unsigned found = __ballot_sync(0xffffffffu, mine);
    if (found == 0) continue;
    const int lane = __ffs(static_cast<int>(found)) - 1;
    return {first + lane, __shfl_sync(0xffffffffu, query, lane)};
  }
  return {-1, 0};
}

// Rows of a head side by side, so that they share its keys in the caches; the last ones first where they see
// most of them. RowsOf: Rows, or what stands for it (tail.hpp).
template <class RowsOf, class T, class Given>
__device__ inline void attend_rows(const Given& params) {
  const Params& p = params.problem;
  const bool one_behind_the_other = p.query_offsets.data != nullptr;
  const long long rows = p.sizes.queries, outer = one_behind_the_other ? 1 : p.sizes.batch,
                  items = outer * p.sizes.heads * params.parts * rows;
  const long long warps = static_cast<long long>(gridDim.x) * kWarps;
#pragma unroll 1
  for (long long item = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32; item < items;
       item += warps) {
    const long long above = item / rows;
    int row = static_cast<int>(item - above * rows);
    if (p.longest_first != 0) row = p.sizes.queries - 1 - row;
    const int part = static_cast<int>(above % params.parts);
    const long long head_of_all = above / params.parts;
    const int head = static_cast<int>(head_of_all % p.sizes.heads);
    Owner owner{static_cast<int>(head_of_all / p.sizes.heads), row};
    if (one_behind_the_other) owner = owner_of(p, row);
    if (owner.batch < 0) continue;
    tile::careful_row_of<T, true, true>(
        p, owner.batch, head, owner.query, part * kColumns,
        [&](const auto& v, tile::RowIndex at) { return RowsOf(params, v, at); });
  }
}

template <class Code, class T>
__global__ void __launch_bounds__(kThreads) attend(const __grid_constant__ RowsParams params) {
  if constexpr (sm80::pdl(kArch)) {
    ptx::launch_dependents();
    ptx::wait_for_dependencies();
  }
  tile::clear_unowned_rows<T>(params.problem);
  attend_rows<Rows<Code>, T>(params);
}

}  // namespace tessera::cuda::fp8_rows
