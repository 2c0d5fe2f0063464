// Q from global memory straight to the registers that the products want it in.
#pragma once

#include "cuda/serving/run.hpp"

namespace tessera::cuda::serving {

// Where in global memory a packed row of Q lies, or null where there is none.
template <class T>
__device__ inline const T* query_row(const Params& p, const Task& task, int row) {
  if (row >= task.rows) return nullptr;
  const int query = p.pack.divide(row), head = task.pack_index * p.sizes.group + row - query * p.sizes.group;
  return static_cast<const T*>(p.query.data) + task.batch * p.query.strides.batch +
         (task.first_query + query) * p.query.strides.row + head * p.query.strides.head;
}

// Of every kApart columns of a row, those from `column` on and those 8 behind them, two each. kAnyRows: rows
// need not be whole pairs of elements.
template <class T, bool kAnyRows, int kApart = 16, int kSteps>
__device__ inline void load_query(unsigned (&q)[kSteps][2], const T* row, int dim, int column, bool pairs) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int c = column + kApart * k + 8 * i;
      q[k][i] = 0;
      if (row == nullptr || c >= dim) continue;
      if (!kAnyRows || pairs) {
        q[k][i] = *reinterpret_cast<const unsigned*>(row + c);
      } else {
        const auto* const elements = reinterpret_cast<const unsigned short*>(row + c);
        q[k][i] = elements[0] | (c + 1 < dim ? static_cast<unsigned>(elements[1]) << 16 : 0u);
      }
    }
}
// The same of the tile's row `row` and the one 8 behind it: a product's first operand.
template <class T, bool kAnyRows, int kApart = 16, int kSteps>
__device__ inline void load_query_rows(unsigned (&q)[kSteps][4], const ServingParams& d, const Task& task,
                                       int row, int column) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    unsigned words[kSteps][2];
    load_query<T, kAnyRows, kApart>(words, query_row<T>(d.problem, task, row + task.first_row + 8 * r),
                                    d.problem.sizes.dim, column, d.query_pairs != 0);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) q[k][r] = words[k][0], q[k][2 + r] = words[k][1];
  }
}

}  // namespace tessera::cuda::serving
