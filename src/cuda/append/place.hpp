// Where a row of the query tensor stands, and where its new key and value go. By whole warps.
#pragma once

#include "cuda/append/params.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::append {

// Of rows that lie one behind the other, whose `row` is; -1 where no entry has it. Offsets are looked at 32
// at a time, equally far apart, until two neighbours have the row between them. (Where they fall, several
// entries may have it, and any of those is right, or none.)
__device__ inline int entry_of(const Params& p, int row) {
  const auto begins = [&](int n) { return tile::AnySequence{p, n}.first_query() <= row; };
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int first = 0, end = p.sizes.batch;  // it begins at or behind `first`, and before `end`
  if (end == 0 || !begins(0)) return -1;
  do {
    const int step = (end - first + 31) / 32;
    const int mine = min(first + (lane + 1) * step, end);
    const int last = 32 - __clz(static_cast<int>(__ballot_sync(0xffffffffu, begins(mine))));
    end = min(first + (last + 1) * step, end);
    first = min(first + last * step, end);
  } while (end - first > 1);
  return first < end ? first : -1;
}

// What memory says of one row.
struct Place {
  bool stored;
  long long outer, row;  // of key and value: batch entry or page, and the row there
  long long position;    // in rope's tables
};

// Keys of an entry, as memory says it; between offsets, which rope alone may have beside it, clamped.
__device__ inline long long length_of(const Params& p, int batch) {
  const KeysAndValues& kv = p.kv;
  const int keys = p.sizes.keys;
  if (kv.offsets.data != nullptr) return tile::AnySequence{p, batch}.keys();
  if (kv.lengths_i32 != nullptr) return kv.lengths_i32[batch * kv.lengths_stride];
  return kv.lengths_i64 != nullptr ? kv.lengths_i64[batch * kv.lengths_stride] : keys;
}

__device__ inline long long position_of(const Positions& p, int outer, int row, int key) {
  const long long at = outer * p.batch_stride + row * p.stride;
  if (p.data == nullptr) return key;
  return p.wide != 0 ? static_cast<const long long*>(p.data)[at] : static_cast<const int*>(p.data)[at];
}

// outer: the entry of a dense batch, else 0.
__device__ inline Place place_of(const AppendParams& params, int outer, int row) {
  const Params& p = params.problem;
  const bool one_behind_the_other = p.query_offsets.data != nullptr;
  const int batch = one_behind_the_other ? entry_of(p, row) : outer;
  int key = -1;
  bool fits = false;
  if (batch >= 0) {
    const int end = one_behind_the_other ? tile::AnySequence{p, batch + 1}.first_query() : p.sizes.queries;
    const long long length = length_of(p, batch);
    fits = length >= 0 && length <= p.sizes.keys;
    key = static_cast<int>(min(max(length, 0ll), static_cast<long long>(p.sizes.keys))) - (end - row);
  }
  Place place{fits && key >= 0, batch, key, 0};
  if (params.rope.positions > 0)
    place.position =
        min(max(position_of(params.positions, outer, row, key), 0ll), params.rope.positions - 1ll);
  const Pages& pages = p.kv.pages;
  if (place.stored && pages.table != nullptr) {
    const int page = pages.table[batch * pages.batch_stride + pages.rows.divide(key) * pages.stride];
    place.stored = page >= 0 && page < pages.count;
    place.outer = page;
    place.row = tile::row_in_page(p, key);
  }
  return place;
}

}  // namespace tessera::cuda::append
