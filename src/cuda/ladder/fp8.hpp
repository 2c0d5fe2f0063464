// Rung 12, fp8: Q, K and V are 8-bit floats, and Q K^T goes to tensor cores that take them as they are.
//
//                  16 bits                          8 bits
//   a register     x0 x1                            c0 c1 c2 c3           four neighbouring codes of a row
//   mma.sync       m16n8k16: 16 products deep       m16n8k32: 32 deep, in the time of 16
//   128 of a row   256 bytes                        128 bytes             half the copies, half the ldmatrix
//
//   Q, K (codes) -- ldmatrix ----------------> mma.sync m16n8k32 -- S * (scale * Q's * K's) -- softmax --+
//   V (codes)    -- ldmatrix.trans -- widen -> mma.sync m16n8k16 <-- P (f16) ----------------------------+
//                   {v0 v1 v2 v3} -> {v0 v2} {v1 v3}, f16      O += V's scale * P V
//
// P V stays at 16 bits, at half the rate. P in 8 bits would keep 4 of them, and its errors reach the output:
// docs/correctness.md has both beside each other. f16 keeps 11 bits of P, and holds every code of V exactly.
//
// Ada's 8-bit tensor cores add with 13 fraction bits, cut twice an instruction. Handed from instruction to
// instruction a score would lose bits each time, the more the larger it has grown. So each starts from 0, and
// floats add up what they return: four additions a thread.
//
// Blocks of scales are of 64 or 128 rows, and tiles begin at multiples of their length, so a tile has one
// scale of each tensor, but for V's by channel, which are multiplied at the end.
//
// Copies, P V, softmax and the end of a row are those of production (src/cuda/sm89), which widens Q and K as
// well: for sums of floats, and for GPUs without 8-bit tensor cores. This is their plainest arrangement: two
// slots, one barrier a tile.
#pragma once

#include "cuda/ladder/fp8_rung.hpp"
#include "cuda/ptx/matrix_codes.hpp"
#include "cuda/sm89/epilogue.hpp"
#include "cuda/sm89/products.hpp"

namespace tessera::cuda::ladder {

// A block's own: 64 rows of a head.
template <sm89::Config C>
struct Fp8Block {
  const Params& p;
  int kv_head;
  int first_key, end;  // of the first tile, and behind the last key that is seen

  __device__ explicit Fp8Block(const Params& params) : p(params) {
    const sm89::Place at = place();
    const tile::KeyRange seen = range(at);
    kv_head = at.kv_head;
    first_key = seen.begin / C.keys * C.keys;
    end = seen.end;
  }

  // Worked out anew where it is asked for: the loop over the tiles has no registers to keep it in.
  __device__ sm89::Place place() const {
    const int x = ptx::block_x(), tile = p.longest_first != 0 ? static_cast<int>(gridDim.x) - 1 - x : x;
    return {p, tile * C.rows()};
  }
  __device__ tile::KeyRange range(const sm89::Place& at) const {
    return tile::key_range(at.band(p), at.first_row, min(at.first_row + C.rows(), p.sizes.queries) - 1);
  }

  // Starts the copy of kRows rows from `row` on, of which those before `end` are there.
  template <int kRows>
  __device__ void start_rows(unsigned to, const Tensor& tensor, int head, int row, int end, int dim) const {
    using Copying = sm89::Copies<C.dim, C.threads()>;
    const Strides& strides = tensor.strides;
    const char* const from = static_cast<const char*>(tensor.data) + ptx::block_z() * strides.batch +
                             head * strides.head + row * strides.row;
    Copying::template start<kRows>(to, Copying::first_of(from, strides.row), strides.row, dim, end - row);
  }
  __device__ void start_query(unsigned shared) const {
    start_rows<C.rows()>(shared, p.query, ptx::block_y(), place().first_row, p.sizes.queries, p.sizes.dim);
  }
  // The tile that begins with `key`, if there is one.
  __device__ void start_tile(unsigned shared, int key) const {
    if (key < end) {
      const unsigned slot = shared + key / C.keys % C.stages * C.tile_bytes();
      start_rows<C.keys>(slot + C.keys_at(), p.kv.key, kv_head, key, end, p.sizes.dim);
      start_rows<C.keys>(slot + C.values_at(), p.kv.value, kv_head, key, end, p.sizes.value_dim);
    }
    ptx::commit_copies();
  }
};

// Dot products of codes: of the warp's 16 rows and a tile's keys.
template <sm89::Config C, class Code>
__device__ inline void multiply_codes(tile::Accumulator<C.keys>& s, unsigned query, unsigned key) {
  tile::clear(s);
#pragma unroll
  for (int k = 0; k < C.dim / 32; ++k) {
    unsigned a[4];
    ptx::load_matrix_x4(a, sm89::fragment_address<C.dim>(query, 0, k));
#pragma unroll
    for (int n = 0; n < C.keys / 16; ++n) {
      unsigned b[4];
      ptx::load_matrix_x4(b, sm89::fragment_address<C.dim>(key, 16 * n, k));
      tile::Accumulator<16> sums;
      tile::clear(sums);
      ptx::mma_codes<Code>(sums[0], a, b[0], b[1]);
      ptx::mma_codes<Code>(sums[1], a, b[2], b[3]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[2 * n][e] += sums[0][e];
        s[2 * n + 1][e] += sums[1][e];
      }
    }
  }
}

template <class Code, int kDim>
__global__ void __launch_bounds__(fp8_config(kDim).threads(), 4)
    fp8(const __grid_constant__ sm89::CodedParams params) {
  extern __shared__ __align__(128) char memory[];
  constexpr sm89::Config C = fp8_config(kDim);
  const Params& p = params.problem;
  const unsigned shared = ptx::shared_address(memory);
  const sm89::Lanes<C> lanes(shared);
  const Fp8Block<C> block(p);
  const float query_scale =
      tile::scale_at(params.coded.query, ptx::block_z(), ptx::block_y(), block.place().first_row);
  tile::RowState rows = tile::empty_rows();
  tile::Accumulator<C.dim> o;
  tile::clear(o);

  block.start_query(shared);
  block.start_tile(shared, block.first_key);
  for (int key = block.first_key; key < block.end; key += C.keys) {
    ptx::wait_copies<0>();
    __syncthreads();  // everybody's copies of this tile are here, and nobody reads the one before any more
    block.start_tile(shared, key + C.keys);

    tile::Accumulator<C.keys> s;
    multiply_codes<C, Code>(s, lanes.query, lanes.key_of(key / C.keys));
    const sm89::Place at = block.place();
    const tile::KeyRange seen = block.range(at);
    const bool some_hidden = key < seen.full_begin || key + C.keys > seen.full_end;
    const float key_scale = tile::scale_at(params.coded.key, at.batch(), block.kv_head, key);
    sm89::PlainFactor(p, query_scale).apply(s, p, at, key_scale, key, some_hidden);

    sm89::raise(s, rows, o);
    tile::ProbsTile<C.keys> probs;
    float sum[2];
    tile::exponentiate<__half>(probs, s, rows, 1.0f, sum);
    tile::add_sums(rows, sum);
    const Scales& of_value = params.coded.value;
    const float value_scale =
        of_value.by_block() ? tile::scale_at(of_value, at.batch(), block.kv_head, key) : 1.0f;
    sm89::multiply_probs_value<C, Code, true>(o, probs, lanes.value_of(key / C.keys), value_scale);
  }
  ptx::wait_copies<0>();
  tile::join_sums(rows);
  sm89::write_rows<Code>(params, block.place().first_row, rows, o);
}

}  // namespace tessera::cuda::ladder
