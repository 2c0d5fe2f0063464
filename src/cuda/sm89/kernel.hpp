// 8-bit inputs by mma.sync of f16 (sm_80 and newer), which holds every code exactly. Ada's tensor cores take
// codes as they are, but their sums keep 13 fraction bits, cut twice an instruction: scores are then further
// off than Hopper's, whose arithmetic the bound is of.
//
//   block: 64 query rows of one head, a warp for every 16
//
//   copies   | Q K0 | K1 V0 | K2 V1 | ...          cp.async, two slots each for K and V
//   tile i   | barrier | start K(i+2) V(i+1) | P(i) = exp2(S(i)) | O += P(i) V(i) | S(i+1) = Q K(i+1)
//
// A tile's keys have one scale of K and one of V, and the block's rows one of Q.
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/sm89/epilogue.hpp"
#include "cuda/sm89/products.hpp"

namespace tessera::cuda::sm89 {

template <Config C, class Code, Variant kVariant>
struct Block {
  using Factor = typename FactorOf<kVariant>::Type;
  using Copying = Copies<C.dim, C.threads()>;
  static constexpr bool kScaled = kVariant != Variant::plain;  // V's scales may be by block

  const CodedParams& params;
  const Place& at;
  unsigned shared;
  Lanes<C> lanes;
  tile::KeyRange range;
  int first_key, length;      // of the first tile, and from there to the last key that is seen
  const char *keys, *values;  // what the thread copies next
  Factor scaling;

  __device__ Block(const CodedParams& all, const Place& place, const tile::KeyRange& seen, unsigned memory)
      : params(all),
        at(place),
        shared(memory),
        lanes(memory),
        range(seen),
        first_key(seen.begin / C.keys * C.keys),
        length(seen.end - first_key),
        keys(first_of(all.problem.kv.key)),
        values(first_of(all.problem.kv.value)),
        scaling(all.problem, tile::scale_at(all.coded.query, place.batch(), place.head(), place.first_row)) {}

  __device__ const char* first_of(const Tensor& tensor) const {
    return Copying::first_of(static_cast<const char*>(tensor.data) + at.batch() * tensor.strides.batch +
                                 at.kv_head * tensor.strides.head + first_key * tensor.strides.row,
                             tensor.strides.row);
  }
  // Tile t of K or V, the one behind that which was started before.
  __device__ void start_tile(int t, const char*& from, const Tensor& tensor, int dim, int slots_at) const {
    const int left = length - t * C.keys;
    if (left <= 0) return;
    Copying::template start<C.keys>(shared + slots_at + t % C.stages * C.tile_bytes(), from,
                                    tensor.strides.row, dim, left);
    from += C.keys * tensor.strides.row;
  }
  __device__ void start_key(int t) {
    start_tile(t, keys, params.problem.kv.key, params.problem.sizes.dim, C.keys_at());
  }
  __device__ void start_value(int t) {
    start_tile(t, values, params.problem.kv.value, params.problem.sizes.value_dim, C.values_at());
  }
  __device__ void start_query() const {
    const Params& p = params.problem;
    const Strides& strides = p.query.strides;
    const char* const rows = static_cast<const char*>(p.query.data) + at.batch() * strides.batch +
                             at.head() * strides.head + at.first_row * strides.row;
    Copying::template start<C.rows()>(shared, Copying::first_of(rows, strides.row), strides.row, p.sizes.dim,
                                      p.sizes.queries - at.first_row);
  }

  __device__ void make_scores(tile::Accumulator<C.keys>& s, int t) {
    const int key = first_key + t * C.keys;
    const float key_scale = tile::scale_at(params.coded.key, at.batch(), at.kv_head, key);
    multiply_query_key<C, Code>(s, lanes.query, lanes.key_of(t));
    const bool partly = key < range.full_begin || key + C.keys > range.full_end;
    scaling.apply(s, params.problem, at, key_scale, key, partly);
  }
  __device__ void add_tile(const tile::Accumulator<C.keys>& s, tile::RowState& rows,
                           tile::Accumulator<C.dim>& o, int t) const {
    const Scales& scales = params.coded.value;
    const float scale = kScaled && scales.by_block()
                            ? tile::scale_at(scales, at.batch(), at.kv_head, first_key + t * C.keys)
                            : 1.0f;
    raise(s, rows, o);
    tile::ProbsTile<C.keys> probs;
    float sum[2];
    tile::exponentiate<__half>(probs, s, rows, 1.0f, sum);
    tile::add_sums(rows, sum);
    multiply_probs_value<C, Code, kScaled>(o, probs, lanes.value_of(t), scale);
  }

  __device__ void attend(tile::RowState& rows, tile::Accumulator<C.dim>& o) {
    static_assert(C.stages == 2);
    start_query();
    start_key(0);
    ptx::commit_copies();
    start_key(1);
    start_value(0);
    ptx::commit_copies();
    ptx::wait_copies<1>();
    __syncthreads();
    tile::Accumulator<C.keys> s;
    make_scores(s, 0);
#pragma unroll 1
    for (int t = 0;; ++t) {
      ptx::wait_copies<0>();
      __syncthreads();
      start_key(t + 2);
      start_value(t + 1);
      ptx::commit_copies();
      add_tile(s, rows, o, t);
      if ((t + 1) * C.keys >= length) return;
      make_scores(s, t + 1);
    }
  }
};

// Grid: row tiles, heads, batch entries. The row tiles of a head run side by side and share its K and V in
// L2; where the last of them sees most keys it comes first.
__device__ inline int row_tile(const Params& p) {
  return p.longest_first != 0 ? static_cast<int>(gridDim.x) - 1 - ptx::block_x() : ptx::block_x();
}

template <Config C, class Code, Variant kVariant>
__device__ inline void attend_block(const CodedParams& params, char* shared) {
  const Params& p = params.problem;
  tile::RowState rows = tile::empty_rows();
  tile::Accumulator<C.dim> o;
  tile::clear(o);
  {
    const Place at(p, row_tile(p) * C.rows());
    const int last_row = min(at.first_row + C.rows(), p.sizes.queries) - 1;
    Block<C, Code, kVariant> block(params, at, tile::key_range(at.band(p), at.first_row, last_row),
                                   ptx::shared_address(shared));
    if (block.length > 0) block.attend(rows, o);
  }
  tile::join_sums(rows);
  write_rows<Code>(params, row_tile(p) * C.rows(), rows, o);
}

}  // namespace tessera::cuda::sm89
