// The end of a row tile: rows are divided by their sums, scaled by what V's scales have left to do, and
// written in the output's type; rows that a hidden value spoiled are computed again.
#pragma once

#include "cuda/sm89/scores.hpp"
#include "cuda/tile/careful.hpp"

namespace tessera::cuda::sm89 {

// Four neighbouring columns of a row.
__device__ inline void put_four(OutputKind kind, void* row, int d, const float (&x)[4]) {
  const bool wide = kind == OutputKind::f32;
  char* const to = static_cast<char*>(row) + d * (wide ? 4 : 2);
  const auto address = reinterpret_cast<unsigned long long>(to);
  if (wide && address % 16 == 0) {
    *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
  } else if (!wide && address % 8 == 0) {
    const bool f16 = kind == OutputKind::f16;
    *reinterpret_cast<uint2*>(to) =
        make_uint2(f16 ? tile::pack<__half>(x[0], x[1]) : tile::pack<__nv_bfloat16>(x[0], x[1]),
                   f16 ? tile::pack<__half>(x[2], x[3]) : tile::pack<__nv_bfloat16>(x[2], x[3]));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) tile::put(kind, row, d + i, x[i]);
  }
}

// What is left for V's scales at the end: nothing where they are by block.
struct ValueScales {
  const float* first;  // of column 0, or null
  long long channel;

  __device__ ValueScales(const Scales& scales, int batch, int kv_head)
      : first(scales.data == nullptr || scales.by_block() ? nullptr
                                                          : scales.data + scales.at(batch, kv_head, 0)),
        channel(scales.channel) {}
  __device__ float of(int column) const { return first == nullptr ? 1.0f : first[column * channel]; }
};

// Row r of the thread's two. Returns whether something that is not finite came out of finite sums.
template <int kGroups, class Code>
__device__ inline bool finish_row(const CodedParams& params, const tile::BlockView<Code>& view,
                                  tile::RowIndex at, tile::SoftmaxState state, int r,
                                  const float (&o)[kGroups][4]) {
  const Params& p = params.problem;
  const int lane = ptx::thread_x() % 32;
  if (at.query >= view.rows) return false;
  const float keep = tile::join_sink(p, at.head, state), inverse = tile::inverse_sum(state) * keep;
  if (lane % 4 == 0) tile::write_lse(p, view, at, tile::log_sum_exp(p, view, at, state));
  const ValueScales scales(params.coded.value, view.batch, at.head / p.sizes.group);
  const OutputKind kind = params.coded.output;
  const long long offset =
      view.batch * p.output.strides.batch + at.head * p.output.strides.head + at.query * p.output.strides.row;
  char* const out = static_cast<char*>(p.output.data) + offset * (kind == OutputKind::f32 ? 4 : 2);
  float check = 0.0f;
#pragma unroll
  for (int j = 0; j < kGroups / 2; ++j) {
    const int d = 16 * j + 4 * (lane % 4);
    if (d >= p.sizes.value_dim) continue;
    float x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = o[2 * j + i % 2][2 * r + i / 2] * inverse * scales.of(d + i);
      check = fmaf(x[i], 0.0f, check);  // NaN where x is not finite
    }
    put_four(kind, out, d, x);
  }
  return check != check && state.sum == state.sum;
}

template <class Code, int kGroups>
__device__ inline void write_rows(const CodedParams& params, int first_row, const tile::RowState& rows,
                                  const float (&o)[kGroups][4]) {
  const Params& p = params.problem;
  const int head = Place::head(), batch = Place::batch(), thread = ptx::thread_x(),
            warp_row = first_row + thread / 32 * 16;
  const tile::BlockView<Code> view = tile::block_view<Code>(p, batch, head);
  unsigned suspects = 0;  // of the warp's rows, a bit each
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const tile::RowIndex at = {warp_row + thread % 32 / 4 + 8 * r, head};
    const unsigned ballot = __ballot_sync(0xffffffffu, finish_row(params, view, at, rows.of(r), r, o));
#pragma unroll
    for (int g = 0; g < 8; ++g)
      if ((ballot >> (4 * g) & 15u) != 0) suspects |= 1u << (8 * r + g);
  }
  __syncwarp();
#pragma unroll 1
  for (; suspects != 0; suspects &= suspects - 1)
    tile::careful_row_of<__half, false, true>(
        p, batch, head, warp_row + __ffs(static_cast<int>(suspects)) - 1, 0,
        [&](const auto& v, tile::RowIndex at) { return tile::CodedRows<Code>(p, params.coded, v, at); });
}

}  // namespace tessera::cuda::sm89
