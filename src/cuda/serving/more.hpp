// A consumer of up to 64 packed rows: a warp has 16 of them, and all keys and columns.
#pragma once

#include "cuda/serving/few.hpp"
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#include "cuda/sm90/products.hpp"
#endif

namespace tessera::cuda::serving {

// The two products of a warp's rows. By mma.sync:
template <Config C, class T>
struct WarpProducts {
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  __device__ static void key(float (&s)[C.keys / 8][4], const unsigned (&q)[C.dim / 16][4], unsigned tile) {
    const tile::FragmentIndex b = tile::ldmatrix_b(lane());
    tile::clear(s);
#pragma unroll
    for (int g = 0; g < C.keys / 16; ++g) {
      const unsigned first = tile + chunk_at<C>(16 * g + b.row, b.column);
#pragma unroll
      for (int k = 0; k < C.dim / 16; ++k) {
        unsigned keys[4];
        ptx::load_matrix_x4(keys, step_at<C>(first, k));
        ptx::mma_f32<T>(s[2 * g], q[k], keys[0], keys[1]);
        ptx::mma_f32<T>(s[2 * g + 1], q[k], keys[2], keys[3]);
      }
    }
  }
  // Of the columns from chunk `from` on.
  __device__ static void value(Output<C>& o, const unsigned (&probs)[C.keys / 16][4], unsigned tile,
                               int from = 0) {
    const tile::FragmentIndex b = tile::ldmatrix_b_transposed(thread<C>() % 32);
#pragma unroll
    for (int g = 0; g < C.keys / 16; ++g) {
      const unsigned first = tile + chunk_at<C>(16 * g + b.row, b.column + from);
#pragma unroll
      for (int n = 0; n < C.columns() / 16; ++n) {
        unsigned values[4];
        ptx::load_matrix_x4_transposed(values, step_at<C>(first, n));
        ptx::mma_f32<T>(o[2 * n], probs[g], values[0], values[1]);
        ptx::mma_f32<T>(o[2 * n + 1], probs[g], values[2], values[3]);
      }
    }
  }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// By wgmma, the four warps together.
template <Config C, class T>
struct WarpgroupProducts {
  static constexpr sm90::Config kTile = {
      .dim = C.dim, .value_dim = C.value_dim, .consumers = 1, .keys = C.keys};

  __device__ static void key(float (&s)[C.keys / 8][4], const unsigned (&q)[C.dim / 16][4], unsigned tile) {
    const ptx::MatrixDescriptor keys{tile, C.keys * 128};
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C.dim / 16; ++k)
      ptx::Wgmma<T, C.keys>::rows_from_registers(s, q[k], keys.at(k / 4 * C.keys * 128 + k % 4 * 32), k > 0);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::pin(s);
  }
  __device__ static void value(tile::Accumulator<C.value_dim>& o, const unsigned (&probs)[C.keys / 16][4],
                               unsigned tile) {
    sm90::start_output<kTile, T>(o, probs, {tile, C.keys * 128});
    ptx::wgmma_wait<0>();
    ptx::pin(o);
  }
};
#endif

template <Config C, class T, bool kWgmma>
struct ProductsOf {
  using Type = WarpProducts<C, T>;
};
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
template <Config C, class T>
struct ProductsOf<C, T, true> {
  using Type = WarpgroupProducts<C, T>;
};
#endif

template <Config C, class T, bool kOptions>
struct More {
  using Factor = typename Rules<kOptions>::Factor;
  using Products = typename ProductsOf<C, T, C.wgmma>::Type;

  const ServingParams& d;
  Shared<C>& shared;
  unsigned q[C.dim / 16][4];
  Output<C> o;
  tile::RowState rows;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int row() { return 16 * warp() + lane() / 4; }

  __device__ void enter(const Task& task) {
    load_query_rows<T, kOptions>(q, d, task, row(), 2 * (lane() % 4));
  }
  __device__ void start_piece() {
    rows = tile::empty_rows();
    tile::clear(o);
  }
  // By all warps together: each reads all keys.
  __device__ static void clear_unseen(unsigned tile, int first_key, const tile::KeyRange& seen) {
    constexpr int kChunks = C.value_dim / C.chunk();
#pragma unroll 1
    for (int n = static_cast<int>(threadIdx.x); n < C.keys * kChunks; n += C.consumers()) {
      const int key = first_key + n / kChunks;
      if (key < seen.begin || key >= seen.end)
        ptx::store_shared_16(tile + chunk_at<C>(n / kChunks, n % kChunks), make_uint4(0, 0, 0, 0));
    }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    ptx::fence_for_tensor_cores();
#endif
    meet<C>();
  }
  __device__ bool step(const Task& task, int t, unsigned n) {
    const int first_key = t * C.keys;
    float s[C.keys / 8][4];
    Products::key(s, q, shared.key(n));
    const WarpRows<T, kOptions> mine{d.problem, task, task.first_row + row()};
    mine.change(s, first_key, first_key + 2 * (lane() % 4));
    unsigned probs[C.keys / 16][4];
    soften<T>(probs, s, rows, o, Rules<kOptions>::factor(d.problem), d.problem);
    const bool clears = first_key < task.seen.begin || first_key + C.keys > task.seen.end;
    if (clears) clear_unseen(shared.value(n), first_key, task.seen);
    Products::value(o, probs, shared.value(n));
    return clears;
  }
  __device__ void end_piece() { tile::join_sums(rows); }
};

}  // namespace tessera::cuda::serving
