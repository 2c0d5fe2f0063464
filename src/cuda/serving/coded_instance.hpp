// What an instance file compiles for keys and values of 8 bits: the kernels of one type of codes.
#pragma once

#include "cuda/serving/coded_dispatch.hpp"
#include "cuda/serving/coded_few.hpp"
#include "cuda/serving/coded_latent.hpp"
#include "cuda/serving/coded_wide.hpp"
#include "cuda/serving/instance.hpp"
#include "cuda/tile/tail_rows.hpp"

namespace tessera::cuda::serving {

// In place of Wide. The output's type is asked for when a row is written (put_pair); priors are of bf16 or
// f32.
using CodedOutput = __nv_bfloat16;
template <Config C, class Code>
struct Coded8 {
  using Params = CodedParams;
  using Element = Code;
  static constexpr bool kAnyRows = false;
  template <int kHalves>
  using FewBody = CodedFew<C, Code, kHalves>;
  using MoreBody = typename CodedMoreOf<C, Code, C.wgmma>::Type;
  using LatentBody = CodedLatent<C, Code>;

  __device__ static void widen(Shared<C>& shared) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    if constexpr (C.wideners() > 0) TileWidener<C, Code>(shared).run();
#endif
  }

  __device__ static void compute_carefully(const Params* d, int batch, int pack_index, int row) {
#pragma unroll 1
    for (int column = 0; column < C.value_dim; column += tile::kCarefulColumns) {
      if (!C.latent || d->tail_block < 0) {
        tile::careful_mixed_row<Code, CodedOutput>(d->problem, d->mixed, batch, pack_index, row, column);
      } else {
        tile::careful_row_of<CodedOutput, true, true>(
            d->problem, batch, pack_index, row, column, [&](const auto& v, tile::RowIndex at) {
              return tile::TailRows<Code>(d->problem, d->mixed.coded, d->mixed.query, d->tail, v, at);
            });
      }
    }
  }
};

template <class Code, int kDim, int kValueDim, CodedVariant kVariant>
__global__ void __launch_bounds__(config_for_codes(kArch, kDim, kValueDim, kVariant).threads(),
                                  config_for_codes(kArch, kDim, kValueDim, kVariant).min_blocks)
    attend_codes(const __grid_constant__ CodedParams d) {
  constexpr Config kConfig = config_for_codes(kArch, kDim, kValueDim, kVariant);
  static_assert(sizeof(Shared<kConfig>) <= kConfig.shared_bytes());
  extern __shared__ __align__(1024) char shared[];
  let_next_start();
  attend_block<kConfig, CodedOutput, true, Coded8<kConfig, Code>>(d, shared);
}

template <class Code>
CodedFunctions coded_functions_of() {
  const auto address = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
  CodedFunctions f;
  f.row[0][CodedVariant::few] = address(attend_codes<Code, 64, 64, CodedVariant::few>);
  f.row[0][CodedVariant::more] = address(attend_codes<Code, 64, 64, CodedVariant::more>);
  f.row[1][CodedVariant::few] = address(attend_codes<Code, 128, 128, CodedVariant::few>);
  f.row[1][CodedVariant::more] = address(attend_codes<Code, 128, 128, CodedVariant::more>);
  f.row[2][CodedVariant::few] = address(attend_codes<Code, 256, 256, CodedVariant::few>);
  f.row[3][CodedVariant::few] = address(attend_codes<Code, 640, 512, CodedVariant::few>);
  return f;
}

}  // namespace tessera::cuda::serving
