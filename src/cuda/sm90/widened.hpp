// What consumers do in their own way where K and V were of 8 bits: scales, and rows that are computed again.
#pragma once

#include "cuda/sm90/consumer.hpp"
#include "cuda/sm90/epilogue.hpp"
#include "cuda/sm90/narrow.hpp"
#include "cuda/sm90/sequence_scales.hpp"
#include "cuda/tile/coded_rows.hpp"
#include "cuda/tile/mixed_rows.hpp"

namespace tessera::cuda::sm90 {

// See coded_factor (sm90_fp8/coded.hpp).
template <Config C>
__device__ inline float widened_factor(const Sm90Params& p, const EntryTask& task) {
  const Scales& scales = static_cast<const WidenedParams&>(p).mixed.coded.key;
  return exponent_factor(p.problem.scoring.scale_log2 *
                         tile::scale_at(scales, task.at.batch, task.kv_head, 0));
}

template <Config C>
struct OutputElement {
  using Type = __half;
};
template <Config C>
requires(C.codes == Codes::beside_bf16) struct OutputElement<C> {
  using Type = __nv_bfloat16;
};

template <Config C>
__device__ inline bool write_widened(const Sm90Params& p, const EntryTask& task, int first_row,
                                     RowState& rows, const Output<C>& o) {
  using Out = typename OutputElement<C>::Type;
  const ValueScales scales(p, static_cast<const WidenedParams&>(p).mixed.coded.value, task.at,
                           ptx::thread_x() % 32);
  return write_entry<C, Out>(p.problem, task, first_row, rows, o, scales);
}

template <class Code, class Out>
__device__ inline void careful_widened(const WidenedParams& p, const TileIndex& at, int row) {
#pragma unroll 1
  for (int column = 0; column < p.problem.sizes.value_dim; column += tile::kCarefulColumns)
    tile::careful_mixed_row<Code, Out>(p.problem, p.mixed, at.batch, at.head, row, column);
}

// Rows [first, end) again, by one warp, where a NaN was written: see tile/careful.hpp.
template <Config C>
__device__ inline void recompute_widened(const Sm90Params& params, const TileIndex& at, int first, int end) {
  using Out = typename OutputElement<C>::Type;
  const auto& p = static_cast<const WidenedParams&>(params);
  for_suspects<Out, true>(p.problem, at, first, end, [&](int row) {
    switch (p.codes) {
      case cuda::Codes::e4m3:
        return careful_widened<ptx::E4m3, Out>(p, at, row);
      case cuda::Codes::e5m2:
        return careful_widened<ptx::E5m2, Out>(p, at, row);
      case cuda::Codes::i8:
        return careful_widened<ptx::I8, Out>(p, at, row);
    }
  });
}

}  // namespace tessera::cuda::sm90
