// What an instance file compiles for keys and values of 8 bits: the kernels of one type of codes.
#pragma once

#include "cuda/serving/coded_dispatch.hpp"
#include "cuda/serving/coded_few.hpp"
#include "cuda/serving/coded_latent.hpp"
#include "cuda/serving/coded_wide.hpp"
#include "cuda/serving/instance.hpp"
#include "cuda/serving/merge_rows.hpp"
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

template <class Code, int kDim, int kValueDim, CodedVariant kVariant>
__global__ void __launch_bounds__(merge_threads(config_for_codes(kArch, kDim, kValueDim, kVariant)))
    merge_codes(const __grid_constant__ CodedParams d) {
  constexpr Config kConfig = config_for_codes(kArch, kDim, kValueDim, kVariant);
  let_next_start();
  merge_rows_of<kConfig, CodedOutput, true, Coded8<kConfig, Code>>(d);
}

template <class Code>
CodedFunctions coded_functions_of() {
  const auto address = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
  using enum CodedVariant;
  CodedFunctions f;
  f.attend[0][few] = address(attend_codes<Code, 64, 64, few>);
  f.attend[0][more] = address(attend_codes<Code, 64, 64, more>);
  f.merge[0][more] = address(merge_codes<Code, 64, 64, more>);
  f.attend[1][few] = address(attend_codes<Code, 128, 128, few>);
  f.attend[1][more] = address(attend_codes<Code, 128, 128, more>);
  f.merge[1][more] = address(merge_codes<Code, 128, 128, more>);
  f.attend[2][few] = address(attend_codes<Code, 256, 256, few>);
  f.attend[3][few] = address(attend_codes<Code, 640, 512, few>);
  f.merge[3][few] = address(merge_codes<Code, 640, 512, few>);
  return f;
}

}  // namespace tessera::cuda::serving
