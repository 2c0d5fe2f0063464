// Attention over 8-bit keys and values with plain arithmetic: one warp, one query row, key by key. Every
// option, scale, layout and head dim, on every GPU: what no faster kernel takes ends here.
//
//   lane l    columns l, l + 32, ... of the dot product, then of the output
//
// Nothing is shared between warps, so a row's bits depend on the row alone.
#pragma once

#include "cuda/fp8_rows/dispatch.hpp"
#include "cuda/fp8_rows/params.hpp"
#include "cuda/ptx/codes.hpp"
#include "cuda/ptx/pdl.hpp"
#include "cuda/ptx/whole.hpp"
#include "cuda/sm80/configs.hpp"
#include "cuda/tile/careful.hpp"
#include "cuda/tile/coded_rows.hpp"

namespace tessera::cuda::fp8_rows {

static_assert(kColumns == tile::kCarefulColumns);

#if defined(__CUDA_ARCH__)
inline constexpr int kArch = __CUDA_ARCH__ / 10;
#else
inline constexpr int kArch = 80;
#endif

// The same beside a query of any kind: which one is asked for every element, so that the kernel exists once
// for all of them.
template <class Code>
struct Rows : tile::CodedRows<Code> {
  const char* query;
  QueryKind kind;

  template <class View>
  __device__ Rows(const RowsParams& params, const View& v, tile::RowIndex at)
      : tile::CodedRows<Code>(params.problem, params.coded, v, at), kind(params.query_kind) {
    const char* const data = static_cast<const char*>(params.problem.query.data);
    const long long elements = reinterpret_cast<const char*>(this->query_row) - data;
    query = data + elements * (kind == QueryKind::codes ? 1 : kind == QueryKind::f32 ? 4 : 2);
  }
  __device__ float query_at(int d) const {
    switch (kind) {
      case QueryKind::f16:
        return tile::to_float(reinterpret_cast<const __half*>(query)[d]);
      case QueryKind::bf16:
        return tile::to_float(reinterpret_cast<const __nv_bfloat16*>(query)[d]);
      case QueryKind::f32:
        return reinterpret_cast<const float*>(query)[d];
      default:
        return ptx::to_float(this->query_row[d]);
    }
  }
  __device__ float dot(int key, int lane) const {
    const Code* const row = this->row_of(this->p.kv.key, this->place(key));
    float sum = 0.0f;
    for (int d = lane; d < this->p.sizes.dim; d += 32) sum = fmaf(query_at(d), ptx::to_float(row[d]), sum);
    return sum;
  }
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
