// f32 attention by tensor cores, as accurate as f32: every number is three bf16 parts (parts.hpp). sm_80 and
// newer.
//
//   block: one tile of query rows of one (batch, pack of heads)
//
//   K slot    K0           |            K1 |               |            K2 |
//   V slot       V0        |               |   V1          |               |
//   tile 0      S = Q K0   |  O += P V0    |
//   tile 1                                 |   S = Q K1    |  O += P V1    |
//                      barrier         barrier         barrier
//
// K and V have a slot each. While one is read by the products, the other is filled: numbers that were loaded
// to registers a phase before are split and stored, and the loads of the next are started.
#pragma once

#include "cuda/sm80/kernel.hpp"
#include "cuda/sm80_f32/epilogue.hpp"
#include "cuda/sm80_f32/loads.hpp"
#include "cuda/sm80_f32/mainloop.hpp"
#include "cuda/tile/score.hpp"

namespace tessera::cuda::sm80_f32 {

// Scores are only scaled and hidden by position. The maximum is taken before they are scaled.
__device__ inline bool plain_scores(const Params& p) {
  return p.scoring.softcap == 0.0f && p.per_head.alibi_slopes == nullptr &&
         p.visibility.mask_kind == MaskTensorKind::none && p.scoring.scale > 0.0f;
}

__device__ inline float factor_of_scores(const Params& p) {
  return plain_scores(p) ? tile::PlainScores::factor(p) : tile::OptionScores::factor(p);
}

// Where a block is, asked again whenever it is needed: the loop has no registers to keep it in.
struct Place {
  sm80::GridTile tile;

  __device__ int pack_index(const Params& p) const { return tile.pack_index(p); }
  __device__ tile::BlockView<float> view(const Params& p) const {
    return tile::block_view<float>(p, tile.batch(p), tile.pack_index(p));
  }
  template <Config C>
  __device__ int first_row(const Params& p) const {
    return tile.row_tile(p) * C.rows();
  }
};

template <Config C>
struct Block {
  static_assert(C.row_tiles == 1 && C.stages == 1 && C.element_bytes == 2 * kParts && !C.lazy);
  using Keys = NextTile<C.dim, C.tile_keys(), C.threads()>;
  using Values = NextTile<C.value_dim, C.tile_keys(), C.threads()>;

  const Params& p;
  unsigned shared;  // the query tile's address; K and V follow
  sm80::Lanes<C> lanes;
  const float *key, *value;  // of the next tile, this thread's
  int length;                // keys from the first tile's start to the last one seen
  bool key_quads, value_quads;
  bool plain, busy;  // busy: the warp has rows
  tile::MaskedFactor factor;
  Seen scored, values;

  __device__ Block(const Params& params, const tile::BlockView<float>& view, const tile::KeyRange& range,
                   int first_row, unsigned memory)
      : p(params),
        shared(memory),
        lanes(memory),
        key(Keys::start(view.key, p.kv.key.strides.row, sm80::first_tile_key<C>(range))),
        value(Values::start(view.value, p.kv.value.strides.row, sm80::first_tile_key<C>(range))),
        length(range.end - sm80::first_tile_key<C>(range)),
        key_quads(in_quads(view.key, p.kv.key.strides.row, p.sizes.dim)),
        value_quads(in_quads(view.value, p.kv.value.strides.row, p.sizes.value_dim)),
        plain(plain_scores(p)),
        busy(first_row + static_cast<int>(threadIdx.x) / 32 % C.row_warps * 16 < view.rows),
        factor{factor_of_scores(p)} {}

  __device__ void store_query(const tile::BlockView<float>& view, int first_row) {
    const bool quads = in_quads(view.query, p.query.strides.row | p.query.strides.head, p.sizes.dim);
    load_query<C.dim, C.rows(), C.threads()>(
        shared, p.sizes.dim, first_row, view.rows, quads, scored,
        [&](int row) { return tile::query_row(p, view, view.index(row)); });
  }
  __device__ void load_keys(Keys& next, int t) {
    next.load(key, p.kv.key.strides.row, p.sizes.dim, length - t * C.tile_keys(), key_quads);
  }
  __device__ void load_values(Values& next, int t) {
    next.load(value, p.kv.value.strides.row, p.sizes.value_dim, length - t * C.tile_keys(), value_quads);
  }
  __device__ void store_keys(const Keys& next) {
    next.store(shared + C.query_bytes(), [&](float x) { scored.look_at_both_ends(x); });
  }
  __device__ void store_values(const Values& next) {
    next.store(shared + C.query_bytes() + C.key_bytes(), [&](float x) { values.look_at(x); });
  }

  __device__ void mask(sm80::Scores<C>& s, int t) const {
    const Place place;
    if (!plain) {
      sm80::mask_scores<C, tile::OptionScores>(s, p, place.view(p), shared, place.first_row<C>(p), t);
    } else if (sm80::partly_visible(t, ptx::load_shared_8(shared + C.unmasked_offset()))) {
      sm80::hide_scores<C, tile::PlainScores>(s, shared, t);
    }
  }

  // The first tile of K, and the values that loop() begins with.
  __device__ void start(const tile::BlockView<float>& view, const tile::KeyRange& range, int first_row,
                        Values& next_values) {
    Keys first;
    load_keys(first, 0);
    store_query(view, first_row);
    store_keys(first);
    load_values(next_values, 0);
    sm80::write_visible<C>(shared, view, range, first_row);
    __syncthreads();
  }

  __device__ void loop(Values& next_values, sm80::RowState<C>& rows, sm80::Output<C>& o) {
#pragma unroll 1
    for (int i = 0; i * C.tile_keys() < length; ++i) {
      Keys next_keys;
      store_values(next_values);
      load_keys(next_keys, i + 1);
      sm80::Scores<C> s;
      bool grew = false;
      if (busy) {
        multiply_query_key<C>(s, lanes.query, lanes.key);
        mask(s, i);
        grew = sm80::look_at<C>(s, rows, factor);
      }
      __syncthreads();
      store_keys(next_keys);
      load_values(next_values, i + 1);
      if (busy) {
        if (grew) sm80::rescale<C>(rows, o, factor);
        Probs<C> probs;
        take_probs<C>(probs, s, rows.tiles[0], factor);
        multiply_probs_value<C>(o, probs, lanes.value);
      }
      __syncthreads();
    }
  }
};

// The products of all keys that the block's rows see.
template <Config C>
__device__ inline Doubts sum_up(const Params& p, unsigned shared, sm80::RowState<C>& rows,
                                sm80::Output<C>& o) {
  const Place place;
  const tile::BlockView<float> view = place.view(p);
  const int first_row = place.first_row<C>(p), last_row = min(first_row + C.rows(), view.rows) - 1;
  const tile::KeyRange range = tile::key_range(view.band, view.query_of(first_row), view.query_of(last_row));
  Block<C> block(p, view, range, first_row, shared);
  typename Block<C>::Values next_values;
  block.start(view, range, first_row, next_values);
  sm80::start_rows<C>(rows, o);
  block.loop(next_values, rows, o);
  return join_doubts(block.scored, block.values);
}

template <Config C>
__device__ inline void attend_tile(const Params& p, char* shared) {
  sm80::RowState<C> rows;
  sm80::Output<C> o;
  const Doubts doubts = sum_up<C>(p, ptx::shared_address(shared), rows, o);
  tile::join_sums(rows.tiles[0]);
  if constexpr (C.key_splits > 1) {
    sm80::merge_splits<C>(rows, o, reinterpret_cast<float*>(shared + C.query_bytes()));
    if (ptx::thread_x() / 32 >= C.row_warps) return;
  }
  tile::end_row_max(rows.tiles[0], {factor_of_scores(p)});
  const Place place;
  write_rows<C>(p, place.view(p), place.pack_index(p), rows, o, doubts, place.first_row<C>(p));
}

}  // namespace tessera::cuda::sm80_f32
