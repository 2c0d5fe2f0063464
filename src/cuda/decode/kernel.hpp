// Attention for few rows over many keys, where reading K and V is what takes time. Persistent blocks take
// equal stretches of the line of pieces (pieces.hpp); what a block has of a sequence it streams through a
// ring of shared memory, 64 keys at a time:
//
//   copies  | Q | K0 V0 | K1 V1 | ...                cp.async, C.tile.stages tiles
//   tile i  | barrier; start K V(i + stages - 1)
//           | S = Q K, row max, P = exp2(S - row max), O += P V
//             (largest scores and P pass through shared memory, each behind a barrier)
//   a piece's end: its O and softmax state are merged into those of the sequence's pieces before it, or
//           written to the workspace, if another block has the first of them
//   a sequence's end: rows are divided and written, or, if another block has the rest, left in the workspace
//
// The second kernel (merge.hpp) ends the sequences that more than one block had a part of.
#pragma once

#include "cuda/decode/finish.hpp"
#include "cuda/decode/loads.hpp"
#include "cuda/decode/run.hpp"
#include "cuda/decode/softmax.hpp"
#include "cuda/tile/options.hpp"

namespace tessera::cuda::decode {

// What a block does of one sequence: pieces first ... end - 1.
struct Part {
  int batch, sequence;
  int first, end;
  bool begins, ends;  // it has the sequence's first piece, its last
};

template <Config C, class T>
struct Block {
  using Policy = tile::OptionScores;
  static constexpr int kThreads = C.tile.threads();
  static_assert(C.tile.row_tiles == 1);

  const DecodeParams& d;
  const Params& p;
  char* memory;
  unsigned shared;
  Warp<C> w;
  tile::MaskedFactor factor;

  __device__ Block(const DecodeParams& params, char* shared_memory)
      : d(params),
        p(params.problem),
        memory(shared_memory),
        shared(ptx::shared_address(shared_memory)),
        factor{Policy::factor(p)} {}

  __device__ float* stats() const { return reinterpret_cast<float*>(memory + C.stats_offset()); }

  __device__ void change(sm80::Scores<C.tile>& s, const tile::BlockView<T>& view, int first_row,
                         int t) const {
    const int key = t * C.keys() + w.split * C.tile.keys + sm80::thread_key(w.lane);
#pragma unroll
    for (int m = 0; m < C.tile.row_tiles; ++m) {
      tile::change_all<false>(s[m], p);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const tile::RowIndex at = view.index(min(first_row + w.row_of(m, r), view.rows - 1));
        tile::change_row(s[m], r, p, Policy(p, view, at), view.band, key);
      }
    }
  }

  // S = Q K. Tensor cores cut off what an accumulator cannot hold, always towards zero; with few rows that
  // would be most of what lse is off by. So sums of two steps each are added by plain additions, where there
  // are registers for them.
  __device__ static void multiply_key(sm80::Scores<C.tile>& s, const sm80::Query<C.tile>& q, unsigned query,
                                      unsigned key) {
    if constexpr (C.tile.query_in_registers) {
      tile::clear(s[0]);
#pragma unroll
      for (int k = 0; k < C.tile.dim / 16; k += 2) {
        sm80::Scores<C.tile> part;
        tile::clear(part[0]);
        sm80::add_query_key<C.tile, T>(part, q, query, key, k, k + 2);
        tile::add(s[0], part[0]);
      }
    } else {
      sm80::multiply_query_key<C.tile, T>(s, q, query, key);
    }
  }

  // O += P V of all keys for this warp's columns. P: in shared memory.
  __device__ void multiply_value(Output<C>& o, int slot) const {
    const tile::FragmentIndex a = tile::ldmatrix_a(w.lane), b = tile::ldmatrix_b_transposed(w.lane);
    const unsigned probs = shared + C.probs_offset() + tile::chunk_offset<kTileKeys>(a.row, a.column);
    const unsigned value = shared + C.tile.query_bytes() + C.tile.stages * C.tile.key_bytes() +
                           slot * C.tile.value_bytes() +
                           tile::chunk_offset<C.tile.value_dim>(b.row, b.column);
#pragma unroll
    for (int k = 0; k < C.keys() / 16; ++k) {
      unsigned prob[C.tile.row_tiles][4];
#pragma unroll
      for (int m = 0; m < C.tile.row_tiles; ++m) {
        ptx::load_matrix_x4(prob[m], tile::fragment_address<kTileKeys>(probs, 16 * m, k));
      }
#pragma unroll
      for (int n = 0; n < C.columns() / 16; ++n) {
        unsigned v[4];
        ptx::load_matrix_x4_transposed(
            v, tile::fragment_address<C.tile.value_dim>(value, 16 * k, w.split * (C.columns() / 16) + n));
#pragma unroll
        for (int m = 0; m < C.tile.row_tiles; ++m) {
          ptx::mma_f32<T>(o[m][2 * n], prob[m], v[0], v[1]);
          ptx::mma_f32<T>(o[m][2 * n + 1], prob[m], v[2], v[3]);
        }
      }
    }
  }

  __device__ void step(Rows<C>& rows, Output<C>& o, const sm80::Query<C.tile>& q,
                       const sm80::Lanes<C.tile>& lanes, const tile::BlockView<T>& view, int first_row,
                       const tile::KeyRange& seen, int t, int slot) const {
    sm80::Scores<C.tile> s;
    multiply_key(s, q, lanes.query, lanes.key_of(slot));
    // Nothing is to be done where all rows see all keys, if no option changes scores.
    if (d.changes_scores != 0 || t * C.keys() < seen.full_begin || (t + 1) * C.keys() > seen.full_end)
      change(s, view, first_row, t);
    float largest[C.tile.row_tiles][2], shrink[C.tile.row_tiles][2];
    find_largest<C>(s, stats(), w, largest);
    if (move_rows<C>(rows, largest, factor, shrink)) {
#pragma unroll
      for (int m = 0; m < C.tile.row_tiles; ++m) tile::scale_rows(o[m], shrink[m]);
    }
    sm80::Probs<C.tile> probs;
#pragma unroll
    for (int m = 0; m < C.tile.row_tiles; ++m) {
      float sum[2];
      tile::exponentiate<T>(probs[m], s[m], rows.tiles[m], factor, sum);
      tile::add_sums(rows.tiles[m], sum);
    }
    show_probs<C>(probs, memory + C.probs_offset(), w);
    __syncthreads();
    multiply_value(o, slot);
  }

  // `slots`: the first of this block in the workspace.
  __device__ void attend(const Part& part, const Entry& entry, int slots) const {
    const int pack_index = part.sequence / d.row_tiles;
    const tile::BlockView<T> view = tile::block_view<T>(p, part.batch, pack_index);
    const int first_row = part.sequence % d.row_tiles * C.rows();
    const tile::KeyRange seen = tile::key_range(view.band, view.query_of(first_row),
                                                view.query_of(min(first_row + C.rows(), view.rows) - 1));
    constexpr int kSteps = kTileKeys / C.keys();  // tiles of this block in one of pieces.hpp's
    const int piece_tiles = entry.cut.tiles() * kSteps;
    const int first = max(entry.first_tile * kSteps + part.first * piece_tiles, seen.begin / C.keys());
    const int end = min(entry.first_tile * kSteps + part.end * piece_tiles, ceil_divide(seen.end, C.keys()));

    const Loads<C, T> loads{{view.key, p.kv.key.strides.row, p.sizes.dim},
                            {view.value, p.kv.value.strides.row, p.sizes.value_dim},
                            seen,
                            d.whole_chunks != 0,
                            shared + C.tile.query_bytes()};

    __syncthreads();  // everyone is done with the sequence before
#pragma unroll
    for (int i = 0; i < C.tile.stages - 1; ++i) {
      if (first + i < end) loads.start(first + i, i);
      if (i == 0)
        sm80::load_rows<T, C.tile.dim, C.rows(), kThreads, sm80::Rows::of_any_alignment>(
            shared, p.sizes.dim, first_row, view.rows,
            [&](int row) { return tile::query_row(p, view, view.index(row)); });
      ptx::commit_copies();
    }
    ptx::wait_copies<C.tile.stages - 2>();
    __syncthreads();
    const sm80::Lanes<C.tile> lanes(shared);
    sm80::Query<C.tile> q;
    if constexpr (C.tile.query_in_registers) {
#pragma unroll
      for (int k = 0; k < C.tile.dim / 16; ++k)
        ptx::load_matrix_x4(q[0][k], sm80::fragment_address<C.tile.dim>(lanes.query, 0, k));
    }

    Sum<C> all(memory);
    int t = first, slot = 0, started = C.tile.stages - 1;  // slots of tile t, and of the next to be started
    for (int piece = part.first; piece < part.end; ++piece) {
      const int piece_end = min(entry.first_tile * kSteps + (piece + 1) * piece_tiles, end);
      Rows<C> rows;
      Output<C> o;
      rows.start();
      clear_output<C>(o);
      for (; t < piece_end; ++t) {
        ptx::wait_copies<C.tile.stages - 2>();
        __syncthreads();
        if (t + C.tile.stages - 1 < end) loads.start(t + C.tile.stages - 1, started);
        ptx::commit_copies();
        started = started + 1 == C.tile.stages ? 0 : started + 1;
        step(rows, o, q, lanes, view, first_row, seen, t, slot);
        slot = slot + 1 == C.tile.stages ? 0 : slot + 1;
      }
      join_sums<C>(rows, stats(), w);
      if (part.begins) {
        all.merge(rows, o);
      } else {
        store_partial<C>(
            d, slots + 1 + piece - part.first, rows, [&](int m, int n, int e) { return o[m][n][e]; },
            view.rows - first_row, w);
      }
    }
    ptx::wait_copies<0>();
    if (part.begins && part.ends) {
      finish_rows<C, T>(p, view, pack_index, all, factor, first_row, reinterpret_cast<unsigned*>(stats()), w);
    } else if (part.begins) {
      store_partial<C>(
          d, slots, all.rows, [&](int m, int n, int e) { return all.at(m, n, e); }, view.rows - first_row, w);
    }
  }
};

template <Config C, class T>
__device__ inline void attend_run(const DecodeParams& d, char* shared) {
  const int block = static_cast<int>(blockIdx.x);
  if (tile::reads_lengths(d.problem)) wait_for_kernels_before();
  Place place;
  const Line line = find_first<C.tile.threads()>(
      d, block, reinterpret_cast<long long*>(shared + C.search_offset()), &place);
  const long long begin = line.first_of(block), end = line.first_of(block + 1);
  if (begin == end) return;
  wait_for_kernels_before();
  const Block<C, T> body(d, shared);
  for (; place.start < end; ++place.batch) {
    const Entry entry = entry_of(d, place.batch);
    const int cost = entry.cut.cost(), pieces = entry.cut.pieces;
    const int units =
        static_cast<int>(min(first_from(end, place.start, cost), static_cast<long long>(entry.units())));
    int unit = static_cast<int>(first_from(begin, place.start, cost));
    while (unit < units) {
      const int sequence = unit / pieces, first = unit - sequence * pieces;
      const int last = min(pieces, units - sequence * pieces);
      body.attend({place.batch, sequence, first, last, first == 0, last == pieces}, entry, block * d.slots);
      unit = sequence * pieces + last;
    }
    place.start += entry.length();
  }
}

}  // namespace tessera::cuda::decode
