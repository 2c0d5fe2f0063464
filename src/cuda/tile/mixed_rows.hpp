// Rows of codes beside a query of any type, element by element: which type it is, is asked for every one, so
// that who computes with plain arithmetic exists once for all of them.
#pragma once

#include "cuda/mixed.hpp"
#include "cuda/ptx/codes.hpp"
#include "cuda/ptx/whole.hpp"
#include "cuda/tile/careful.hpp"
#include "cuda/tile/coded_rows.hpp"

namespace tessera::cuda::tile {

template <class Code>
struct MixedRows : CodedRows<Code> {
  const char* query;
  QueryKind kind;

  template <class View>
  __device__ MixedRows(const Params& params, const Mixed& mixed, const View& v, RowIndex at)
      : CodedRows<Code>(params, mixed.coded, v, at), kind(mixed.query) {
    const char* const data = static_cast<const char*>(params.query.data);
    const long long elements = reinterpret_cast<const char*>(this->query_row) - data;
    query = data + elements * (kind == QueryKind::codes ? 1 : kind == QueryKind::f32 ? 4 : 2);
  }
  __device__ float query_at(int d) const {
    switch (kind) {
      case QueryKind::f16:
        return to_float(reinterpret_cast<const __half*>(query)[d]);
      case QueryKind::bf16:
        return to_float(reinterpret_cast<const __nv_bfloat16*>(query)[d]);
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

// A row's output and lse, of columns from `first_column` on. T: of 16 bits, as priors are that are not f32.
template <class Code, class T>
__device__ inline void careful_mixed_row(const Params& p, const Mixed& mixed, int batch, int pack_index,
                                         int row, int first_column) {
  careful_row_of<T, true, true>(p, batch, pack_index, row, first_column,
                                [&](const auto& v, RowIndex at) { return MixedRows<Code>(p, mixed, v, at); });
}

}  // namespace tessera::cuda::tile
