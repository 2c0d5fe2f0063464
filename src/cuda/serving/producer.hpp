// The producers: a warp that finds what the block has to do, tells the others, and fills the ring with K and
// V. It waits for nothing but empty slots, so it is as many tiles ahead as there is room for.
//
// By TMA, in boxes that lie in one page each: a lane knows the page of one box and hands the number around.
// Or, where rows do not lie as TMA wants them or pages are too small, by cp.async: of a tile's rows a lane
// looks up some, and each copies chunks of 16 bytes. That takes a second warp, for V.
#pragma once

#include "cuda/ptx/cache_policy.hpp"
#include "cuda/ptx/tma.hpp"
#include "cuda/serving/shared.hpp"
#include "cuda/sm80/loads.hpp"

namespace tessera::cuda::serving {

// Element: of K and V. kAnyRows: rows need not be whole chunks of 16 bytes.
template <Config C, class Element, bool kAnyRows>
struct Producer {
  static constexpr unsigned kAll = 0xffffffffu;

  const ServingParams& d;
  Shared<C>& shared;
  unsigned count = 0;  // tiles asked for so far
  // K and V, of which each call reads more than L2 holds, must not drive out what every call reads again: the
  // kernel's instructions above all, which come from memory otherwise while it is busiest.
  unsigned long long policy = ptx::evict_first_policy();

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ const Params& p() const { return d.problem; }

  // What there is of a task to be copied.
  struct Source {
    const Task& task;
    const int* pages;  // the entry's part of the table, or null
    int batch;         // of a dense batch; 0 where keys of all entries lie one behind the other
  };
  __device__ Source source_of(const Task& task) const {
    const KeysAndValues& kv = p().kv;
    return {task, kv.pages.table == nullptr ? nullptr : kv.pages.table + task.batch * kv.pages.batch_stride,
            kv.offsets.data == nullptr ? task.batch : 0};
  }

  // Past L1, as numbers are (run.hpp).
  __device__ int page_of(const Source& s, int key) const {
    const Pages& pages = p().kv.pages;
    return min(max(__ldcg(s.pages + pages.rows.divide(key) * pages.stride), 0), pages.count - 1);
  }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  static constexpr int kKeyBlocks = C.key_blocks(), kBlocks = kKeyBlocks + C.value_blocks();

  // A box of a task's tiles.
  struct Box {
    int block;             // of columns, K's and then V's
    int row, head, outer;  // outer: page or batch entry
  };
  // The page of box `box` of a sequence, if some row sees a key of it: no others are looked up.
  __device__ int page_of_box(const Source& s, int box) const {
    const int key = box << d.box_shift;
    const bool seen = key < s.task.seen.end && key + (1 << d.box_shift) > s.task.seen.begin;
    return s.pages != nullptr && seen ? page_of(s, key) : 0;
  }
  __device__ static int in_tile_bits(const ServingParams& d) { return (C.keys == 64 ? 6 : 5) - d.box_shift; }
  // f(tile, boxes of it that some row sees [begin, end), the lane's box, whether it is one of them). Lane n
  // has box n % in_tile of a tile, block of columns n / in_tile, and looks up the page of one of 32 boxes.
  template <class F>
  __device__ void for_each_tile(const Task& task, int end_tile, const F& f) const {
    const Source s = source_of(task);
    const int shift = d.box_shift, bits = in_tile_bits(d), in_tile = 1 << bits;
    int group = (task.first << bits) / 32 - 1;
    int pages = 0, next = page_of_box(s, 32 * group + 32 + lane());
#pragma unroll 1
    for (int t = task.first; t < end_tile; ++t) {
      if ((t << bits) / 32 != group) {
        ++group;
        pages = next;
        next = page_of_box(s, 32 * group + 32 + lane());
      }
      const int first = t << bits, box = first + (lane() & (in_tile - 1)), key = box << shift;
      const int begin = max(task.seen.begin >> shift, first);
      const int end = min(((task.seen.end - 1) >> shift) + 1, first + in_tile);
      const int page = __shfl_sync(kAll, pages, box & 31);
      const Box mine = {lane() >> bits,
                        s.pages != nullptr ? tile::row_in_page(p(), key) : task.first_key + key,
                        task.pack_index, s.pages != nullptr ? page : s.batch};
      f(end - begin, key % C.keys, mine, mine.block < kBlocks && box >= begin && box < end);
    }
  }
  // A tile may have more than 32 boxes: of the lane's second one, the block, if there is one.
  static constexpr bool kTwoBoxes = kBlocks * (C.keys / 16) > 32;
  __device__ int second_block(const Box& box) const { return box.block + (32 >> in_tile_bits(d)); }
  __device__ bool is_key(int block) const { return C.latent ? block != d.tail_block : block < kKeyBlocks; }
  __device__ const TensorMap* map_of(int block) const { return is_key(block) ? &d.key : &d.value; }
  __device__ int column_of(int block) const {
    return is_key(block) ? C.block() * block : C.latent ? 0 : C.block() * (block - kKeyBlocks);
  }

  __device__ void ask_all(const Task& task) {
    for_each_tile(task, task.end, [&](int boxes, int key, const Box& box, bool seen) {
      tile::Barrier& full = shared.full[count % C.stages];
      shared.wait_empty(count);
      if (lane() == 0) full.expect(static_cast<unsigned>(boxes * (kBlocks * 128)) << d.box_shift);
      __syncwarp();
      if (seen)
        ptx::tma_load(shared.key(count) + static_cast<unsigned>(box.block * (C.keys * 128) + key * 128),
                      map_of(box.block), full.address(), column_of(box.block), box.row, box.head, box.outer,
                      policy);
      if constexpr (kTwoBoxes)
        if (const int block = second_block(box); seen && block < kBlocks)
          ptx::tma_load(shared.key(count) + static_cast<unsigned>(block * (C.keys * 128) + key * 128),
                        map_of(block), full.address(), column_of(block), box.row, box.head, box.outer,
                        policy);
      ++count;
    });
  }
  // The first tiles, as many as the ring has room for, to L2.
  __device__ void prefetch(const Task& task) const {
    for_each_tile(task, min(task.end, task.first + C.stages), [&](int, int, const Box& box, bool seen) {
      if (seen)
        ptx::tma_prefetch(map_of(box.block), column_of(box.block), box.row, box.head, box.outer, policy);
      if constexpr (kTwoBoxes)
        if (const int block = second_block(box); seen && block < kBlocks)
          ptx::tma_prefetch(map_of(block), column_of(block), box.row, box.head, box.outer, policy);
    });
  }
#else
  __device__ void ask_all(const Task&) {}
  __device__ void prefetch(const Task&) const {}
#endif

  // By threads. Tiles are handed over when they have landed, after the next has been asked for.
  static constexpr unsigned kLag = 1;
  __device__ void hand_over(unsigned n) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    ptx::fence_for_tensor_cores();
#endif
    shared.full[n % C.stages].arrive();
  }
  // Of key n of a tile: which row of which page or batch entry it is. Row -1: no row of the task sees it.
  struct Where {
    int outer, row;
  };
  __device__ Where where(const Source& s, int t, int n) const {
    const int key = t * C.keys + n;
    if (n >= C.keys || key < s.task.seen.begin || key >= s.task.seen.end) return {0, -1};
    if (s.pages == nullptr) return {s.batch, s.task.first_key + key};
    return {page_of(s, key), tile::row_in_page(p(), key)};
  }
  // Of every 32 keys of a tile a lane looks one up.
  using Rows = Where[C.keys / 32];
  __device__ void look_up(const Source& s, int t, Rows& rows) const {
#pragma unroll
    for (int i = 0; i < C.keys / 32; ++i) rows[i] = where(s, t, 32 * i + lane());
  }
  // kFrom: the first of kDim columns.
  template <int kDim, int kFrom = 0>
  __device__ void copy(unsigned to, const Tensor& tensor, int head, int dim, const Rows& rows) {
    constexpr int kChunks = kDim / C.chunk();
    const Element* const first = static_cast<const Element*>(tensor.data) + head * tensor.strides.head;
    const Strides strides = tensor.strides;
#pragma unroll
    for (int i = 0; i < C.keys / 32; ++i)
#pragma unroll(kAnyRows ? 1 : 4)
      for (int n = lane(); n < 32 * kChunks; n += 32) {
        const int row = n / kChunks, chunk = kFrom / C.chunk() + n % kChunks;
        const Where at = {__shfl_sync(kAll, rows[i].outer, row), __shfl_sync(kAll, rows[i].row, row)};
        if (C.latent && chunk / 8 == d.tail_block) continue;
        const bool there = at.row >= 0 && chunk * C.chunk() < dim;
        const Element* const from =
            there ? first + at.outer * strides.batch + at.row * strides.row + chunk * C.chunk() : first;
        const unsigned slot = to + chunk_at<C>(32 * i + row, chunk);
        if (!kAnyRows || d.whole_chunks != 0) {
          ptx::copy_async_16(slot, from, there, policy);
        } else {
          sm80::copy_elements(slot, from, there ? dim - chunk * 8 : 0);
        }
      }
  }
  // Of keys in two tensors.
  __device__ void copy_tail(unsigned to, int head, const Rows& rows) const {
    if (d.tail_block < 0) return;
    const Tensor& tail = d.tail.keys;
    const auto* const first = static_cast<const unsigned short*>(tail.data) + head * tail.strides.head;
    const int columns = p().sizes.dim - d.tail.key_dim;
#pragma unroll
    for (int i = 0; i < C.keys / 32; ++i)
#pragma unroll 1
      for (int n = lane(); n < 32 * 8; n += 32) {
        const int row = n / 8, chunk = n % 8;
        const Where at = {__shfl_sync(kAll, rows[i].outer, row), __shfl_sync(kAll, rows[i].row, row)};
        const bool there = at.row >= 0 && chunk * 8 < columns;
        const auto* const from =
            there ? first + at.outer * tail.strides.batch + at.row * tail.strides.row + chunk * 8 : first;
        ptx::copy_async_16(to + chunk_at<C>(32 * i + row, 8 * d.tail_block + chunk), from, there, policy);
      }
  }
  // Scales that differ from key to key, beside the tile.
  __device__ void copy_scales(const Task& task, bool value, const Rows& rows) {
    if constexpr (C.coded()) {
      const auto& c = static_cast<const CodedParams&>(d);
      if ((value ? c.value_by_key : c.key_by_key) == 0) return;
      const Scales& scales = value ? c.mixed.coded.value : c.mixed.coded.key;
      float* const to = (value ? shared.scales.value : shared.scales.key)[count % C.stages];
#pragma unroll
      for (int i = 0; i < C.keys / 32; ++i) {
        const bool there = rows[i].row >= 0;
        const long long at = there ? scales.at(rows[i].outer, task.pack_index, rows[i].row) : 0;
        ptx::copy_async_4(ptx::shared_address(to + 32 * i + lane()), scales.data + at, there);
      }
    }
  }
  __device__ void copy_all(const Task& task, bool value) {
    const Source s = source_of(task);
    Rows next;
    look_up(s, task.first, next);
#pragma unroll 1
    for (int t = task.first; t < task.end; ++t) {
      Rows rows;
#pragma unroll
      for (int i = 0; i < C.keys / 32; ++i) rows[i] = next[i];
      look_up(s, t + 1, next);
      shared.wait_empty(count);
      if constexpr (C.latent) {  // half of the columns each
        constexpr int kHalf = C.dim / 2;
        const int dim = d.tail_block < 0 ? p().sizes.dim : d.tail.key_dim;
        if (value) {
          copy<kHalf, kHalf>(shared.key(count), p().kv.key, task.pack_index, dim, rows);
          copy_tail(shared.key(count), task.pack_index, rows);
        } else {
          copy<kHalf>(shared.key(count), p().kv.key, task.pack_index, dim, rows);
        }
      } else if (value) {
        copy<C.value_dim>(shared.value(count), p().kv.value, task.pack_index, p().sizes.value_dim, rows);
      } else {
        copy<C.dim>(shared.key(count), p().kv.key, task.pack_index, p().sizes.dim, rows);
      }
      copy_scales(task, value, rows);
      ptx::commit_copies();
      if (count >= kLag) {
        ptx::wait_copies<static_cast<int>(kLag)>();
        hand_over(count - kLag);
      }
      ++count;
    }
  }
  __device__ void end_copies() {
    ptx::wait_copies<0>();
    for (unsigned n = count > kLag ? count - kLag : 0; n < count; ++n) hand_over(n);
  }
};

// Goes along the block's stretch of the line.
template <int kKeys>
struct Scheduler {
  const ServingParams& d;
  Line line = {};
  Place place = {};
  Entry entry = {};
  int begin = 0, end = 0;
  bool others = false;                      // there are entries with more rows than these kernels take
  int first_unit = 0, unit = 0, units = 0;  // of the entry

  // At the beginning of the stretch.
  __device__ void start() {
    const int block = static_cast<int>(blockIdx.x);
    others = false;
    line = find_first(d, block, &place, &entry, &others);
    begin = line.first_of(block);
    end = line.first_of(block + 1);
    unit = units = 0;
    if (begin < end) enter();
  }
  __device__ void enter() {
    units = min(first_from(end, place.start, entry.cost), entry.units());
    unit = first_unit = first_from(begin, place.start, entry.cost);
  }
  // Where there are no more, its batch is -1.
  __device__ Task next() {
#pragma unroll 1
    while (unit >= units) {
      if (begin == end) return {.batch = -1};
      place.start += entry.length();
      ++place.n;
      if (place.start >= end) return {.batch = -1};
      if (!alike(d)) entry = entry_of(d, place.n);
      enter();
    }
    const int pieces = entry.cut.pieces, sequence = alike(d) ? d.alike.by_pieces.divide(unit) : unit / pieces;
    const int before = sequence * pieces;
    Task task = task_of<kKeys>(d, place.n, entry, place.start, sequence, unit - before,
                               {max(first_unit - before, 0), min(pieces, units - before)});
    task.slot = Slots{d, line, task}.of_task(static_cast<int>(blockIdx.x));
    unit = before + task.end_piece;
    return task;
  }
};

}  // namespace tessera::cuda::serving
