// The producer of a ragged or paged batch: four warps, so that none waits for what another is there for.
//
//   keys      tells the consumers of the next row tile, asks TMA for its Q and K
//   values    asks TMA for V. To ask takes a warp a hundred cycles a box, and a key tile of small pages has
//             many: one warp for K and V does not keep up
//   cutter    clears the rows of V that no row of Q sees, in the few key tiles that have such
//   scout     takes the next row tile from the list, shortly before it is needed
//
// Codes of 8 bits land where those wait for them who widen them (widen.hpp), and leave out what nobody sees.
//
// Rows that nobody sees may belong to another entry, or to nobody, and hold anything: 0 * NaN would come into
// sums. In K they do no harm, because their scores are replaced.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/global_atomic.hpp"
#include "cuda/ptx/pdl.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/shared.hpp"
#include "cuda/sm90/strips.hpp"
#include "cuda/sm90/walk.hpp"

namespace tessera::cuda::sm90 {

// One thread. Each block starts with the tile of its own number.
template <Config C>
struct Scout {
  const EntriesParams& p;
  Shared<C>& shared;
  unsigned count = 0;

  // Written in place: the thread has few registers.
  __device__ EntryTask& next_plan() const {
    const auto ring = shared.entry.plan_ring();
    ring.wait_empty(count);
    return shared.entry.plan[ring.slot(count)];
  }
  __device__ void hand_over() {
    shared.entry.plan_full[shared.entry.plan_ring().slot(count)].arrive();
    ++count;
  }
  __device__ void plan(const ListedTile& tile) {
    EntryTask& task = next_plan();
    const ListedLengths& of = tile.of;
    task.at = {tile.row_tile, tile.head, of.batch};
    task.rotation = 0;
    task.queries = of.queries;
    task.all_keys = of.keys;
    task.first_query = of.first_query;
    task.first_key = of.first_key;
    task.kv_head = p.group.divide(tile.head);
    task.offset = p.problem.visibility.align_bottom_right != 0 ? of.keys - of.queries : 0;
    const int first = tile.row_tile * C.rows(), last = min(first + C.rows(), of.queries) - 1;
    const tile::KeyRange range = tile::key_range(task.band(p.problem), first, last);
    const bool any = range.end > range.begin;
    task.seen_begin = any ? range.begin : 0;
    task.seen_end = any ? range.end : 0;
    task.keys = tiles_of<C>(range, {0, 1});
    hand_over();
  }
  __device__ void run() {
    ptx::wait_for_dependencies();
    for (int n = static_cast<int>(blockIdx.x);;) {
      const ListedTile tile = p.list.tiles[n];
      if (tile.row_tile < 0) break;
      p.list.tiles[n].block = static_cast<int>(blockIdx.x);
      plan(tile);
      // Whoever takes one too early keeps it from others, which may have nothing left to do.
      shared.entry.wanted.wait((count - 1) & 1);
      n = static_cast<int>(gridDim.x) + ptx::fetch_add(p.list.taken, 1);
    }
    next_plan().at.row_tile = -1;
    hand_over();
  }
};

// One warp.
template <Config C>
struct Cutter {
  Shared<C>& shared;

  static constexpr int kCuts = decltype(shared.entry)::kCuts;

  __device__ static void clear(char* tile, int from, int to) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const unsigned first = ptx::shared_address(tile);
#pragma unroll 1
    for (int row = from + lane / 8; row < to; row += 4)
#pragma unroll
      for (int b = 0; b < C.value_blocks(); ++b)
        ptx::store_shared_16(first + (b * C.keys + row) * 128 + lane % 8 * 16, uint4{});
    if constexpr (C.strips) {
      const unsigned strips = first + C.value_blocks() * C.keys * 128;
#pragma unroll 1
      for (int row = from + lane / 2; row < to; row += 16)
        ptx::store_shared_16(strips + (lane % 2 * C.keys + row) * 16, uint4{});
    }
  }
  __device__ void run() {
    using Ring = tile::RingIndex<kCuts>;
    for (unsigned n = 0;; ++n) {
      Ring::wait(shared.entry.cut_full, n);
      const Cut cut = shared.entry.cut[Ring::slot(n)];
      if (cut.slot < 0) return;
      clear(shared.value[cut.slot], 0, min(cut.low, C.keys));
      clear(shared.value[cut.slot], max(cut.high, 0), C.keys);
      ptx::fence_for_tensor_cores();
      __syncwarp();
      if (threadIdx.x % 32 == 0)
        (C.joint() ? shared.key_full[cut.slot] : shared.value_full[cut.slot]).arrive();
    }
  }
};

// What the two warps that ask for K and V share. Of a key tile every lane has a box of its own.
template <Config C>
struct EntryBoxes {
  const EntriesParams& p;
  Shared<C>& shared;
  int lane;
  int box_row, column_block;  // of a key tile, the lane's box
  // Of the task at hand.
  int first_key, batch, kv_head;
  int seen_begin, seen_end;

  using Ring = tile::Ring<C.stages>;
  // Of a box; blocks of so many, of K and V.
  static constexpr int kColumns = C.widens() ? 128 : 64;
  static constexpr int kKeyBlocks = C.widens() ? C.code_blocks() : C.blocks(),
                       kValueBlocks = C.widens() ? C.value_code_blocks() : C.value_blocks();

  __device__ EntryBoxes(const EntriesParams& params, Shared<C>& memory)
      : p(params), shared(memory), lane(static_cast<int>(threadIdx.x) % 32) {
    column_block = lane / p.boxes;
    box_row = (lane - column_block * p.boxes) * p.box_rows;
  }
  __device__ void enter(const EntryTask& task) {
    first_key = task.first_key + box_row;
    batch = task.at.batch;
    kv_head = task.kv_head;
    seen_begin = task.seen_begin;
    seen_end = task.seen_end;
  }

  // Where the lane's box of a key tile lies: a row of a page, or of an entry, or of all keys. Row -1: nobody
  // sees any of it, and the page table is not asked.
  struct Box {
    int row, outer;
  };
  __device__ Box box_of(int tile) const {
    const Pages& pages = p.problem.kv.pages;
    if (pages.table == nullptr) return {tile * C.keys + first_key, batch * p.key_batch};
    const int key =
        tile * C.keys + box_row;  // of the tile before the first, too: one is asked for in advance
    if (key >= seen_end || key + p.box_rows <= seen_begin) return {-1, 0};
    const int n = pages.rows.divide(key);
    return {key - n * static_cast<int>(pages.rows.divisor),
            pages.table[batch * pages.batch_stride + n * pages.stride]};
  }
  // Whether the lane's box is one of the first so many blocks of columns.
  __device__ bool in_block(int blocks) const {
    if (kKeyBlocks == 1 && !C.strips) return lane < p.boxes;  // a register less
    return column_block < blocks;
  }
  // What the table says is looked at here, not where it is asked: since then a slot had to become free. A box
  // that nobody sees lies behind the last page, where TMA reads zeros.
  template <int kBlocks>
  __device__ void copy(char* to, const TensorMap* map, int which, int columns, tile::Barrier& full,
                       const Box& box) const {
    const int strips = C.strips ? max(columns - 64 * kBlocks + 7, 0) / 8 : 0;
    if (lane == 0) full.expect(kBlocks * C.keys * 128 + strips * C.keys * 16);
    __syncwarp();
    const int outer = box.row < 0 ? p.outer : min(max(box.outer, 0), p.outer - 1), row = max(box.row, 0);
    if (in_block(kBlocks)) {
      ptx::tma_load(ptx::shared_address(to) + (column_block * C.keys + box_row) * 128, map, full.address(),
                    kColumns * column_block, row, kv_head, outer);
    } else if (C.strips && column_block < kBlocks + strips) {
      const int strip = column_block - kBlocks;
      ptx::tma_load(ptx::shared_address(to) + kBlocks * C.keys * 128 + (strip * C.keys + box_row) * 16,
                    &p.strips[which], full.address(), 64 * kBlocks + 8 * strip, row, kv_head, outer);
    }
  }

  // f(task) for each that the scout hands over.
  template <class F>
  __device__ void for_tasks(const F& f) {
    const auto plans = shared.entry.plan_ring();
    for (unsigned n = 0;; ++n) {
      plans.wait_full(n);
      const EntryTask& task = shared.entry.plan[plans.slot(n)];
      if (task.at.row_tile < 0) return;
      enter(task);
      f(task);
      __syncwarp();
      plans.release(n);
    }
  }
};

// One warp: Q and K, and what the consumers are told.
template <Config C>
struct KeyProducer : EntryBoxes<C> {
  using Base = EntryBoxes<C>;
  using Base::lane;
  using Base::p;
  using Base::shared;
  unsigned task_count = 0, key_count = 0;

  __device__ KeyProducer(const EntriesParams& params, Shared<C>& memory) : Base(params, memory) {}

  // Which of K's tiles the n-th is copied to, once that is free.
  struct Target {
    char* tile;
    tile::Barrier& full;
  };
  __device__ Target next_target() {
    const unsigned n = key_count++;
    if constexpr (C.widens()) {
      const auto ring = shared.staging().key_ring();
      const unsigned slot = ring.slot(n);
      ring.wait_empty(n);
      if (lane == 0) shared.staging().key_rows[slot] = {0, C.keys};
      return {shared.staging().key[slot], ring.full[slot]};
    } else {
      const unsigned slot = Base::Ring::slot(n);
      shared.key_ring().wait_empty(n);
      return {shared.key[slot], shared.key_full[slot]};
    }
  }
  __device__ void load_key(const typename Base::Box& box) {
    const Target to = next_target();
    Base::template copy<Base::kKeyBlocks>(to.tile, &p.key, 1, p.problem.sizes.dim, to.full, box);
  }
  // A word by each lane: there are few registers.
  __device__ void make_known(const EntryTask& task) {
    const unsigned slot = task_count % kTasks;
    ++task_count;
    static_assert(sizeof(EntryTask) <= 32 * sizeof(int));
    if (lane < static_cast<int>(sizeof(EntryTask) / sizeof(int)))
      reinterpret_cast<int*>(&shared.task[slot])[lane] = reinterpret_cast<const int*>(&task)[lane];
    __syncwarp();
    if (lane == 0) shared.task_there[slot].arrive();
  }
  __device__ void load_query(const EntryTask& task) const {
    if (lane == 0) {
      const int first = task.first_query + task.at.row_tile * C.rows(), batch = task.at.batch * p.query_batch;
#pragma unroll 1
      for (int w = 0; w < C.consumers; ++w) {
        shared.query_empty[w].wait(task_count & 1);
        if constexpr (C.strips) {
          copy_with_strips<C.blocks(), 64>(shared.query[w], &p.query, &p.strips[0], p.problem.sizes.dim,
                                           shared.query_full[w], first + 64 * w, task.at.head, batch);
        } else {
          copy_tile(shared.query[w], C.blocks(), 64, &p.query, shared.query_full[w], first + 64 * w,
                    task.at.head, batch);
        }
      }
    }
    __syncwarp();
  }

  // When so many key tiles of a row tile are still to be asked for, it is time for the next one: to take one
  // from the list takes as long as a key tile or two. Where more are in flight, there is time enough later.
  static constexpr int kLeft = C.stages > 3 ? 0 : 1;
  __device__ void compute(const EntryTask& task) {
    const int first = task.keys.first, wanted = kLeft == 0 ? first : first + min(kLeft, task.keys.count - 1);
    const auto want_next = [&](int tile) {
      if (lane == 0 && tile == wanted) shared.entry.wanted.arrive();
    };
    int tile = first + task.keys.count - 1;
    load_key(Base::box_of(tile));
    want_next(tile);
    make_known(task);
    load_query(task);
    Base::enter(task);  // once more, so that its registers are free in between
    typename Base::Box box = Base::box_of(tile - 1);
#pragma unroll 1
    while (--tile >= first) {
      const typename Base::Box next = Base::box_of(tile - 1);
      load_key(box);
      want_next(tile);
      box = next;
    }
  }
  __device__ void run() {
    ptx::wait_for_dependencies();
    constexpr bool kJoint = C.joint() && !C.widens();
    if (kJoint && lane == 0) shared.key_full[0].arrive();  // before the first K there is no V
    Base::for_tasks([&](const EntryTask& task) { compute(task); });
    if (lane != 0) return;
    shared.task[task_count % kTasks].at.row_tile = -1;
    shared.task_there[task_count % kTasks].arrive();
    if constexpr (C.widens()) {
      const auto ring = shared.staging().key_ring();
      ring.wait_empty(key_count);
      shared.staging().key_rows[ring.slot(key_count)].low = -1;
      ring.full[ring.slot(key_count)].arrive();
    }
    if (!kJoint) return;
    shared.key_ring().wait_empty(key_count);  // and no K behind the last V
    shared.key_full[Base::Ring::slot(key_count)].arrive();
  }
};

// One warp: V, which lands where the cutter waits for it if some of it is not to be seen. Where K and V are
// joint, V of a key tile shares a slot with K of the next.
template <Config C>
struct ValueProducer : EntryBoxes<C> {
  using Base = EntryBoxes<C>;
  using Base::lane;
  using Base::p;
  using Base::shared;
  unsigned count = C.joint() && !C.widens() ? 1 : 0, cut_count = 0;

  using Cuts = tile::RingIndex<C.stages + 1>;

  __device__ ValueProducer(const EntriesParams& params, Shared<C>& memory) : Base(params, memory) {}

  __device__ void stage_value(int tile, const typename Base::Box& box) {
    const auto ring = shared.staging().value_ring();
    const unsigned slot = ring.slot(count);
    ring.wait_empty(count);
    ++count;
    if (lane == 0)
      shared.staging().value_rows[slot] = {max(Base::seen_begin - tile * C.keys, 0),
                                           Base::seen_end - tile * C.keys};
    Base::template copy<Base::kValueBlocks>(shared.staging().value[slot], &p.value, 2,
                                            p.problem.sizes.value_dim, ring.full[slot], box);
  }
  __device__ void load_value(int tile, const typename Base::Box& box) {
    const typename Base::Ring ring = C.joint() ? shared.key_ring() : shared.value_ring();
    const unsigned slot = Base::Ring::slot(count);
    ring.wait_empty(count);
    ++count;
    tile::Barrier* full = &ring.full[slot];
    const int low = Base::seen_begin - tile * C.keys, high = Base::seen_end - tile * C.keys;
    if (low > 0 || high < C.keys) {
      full = &shared.entry.cut_full[Cuts::slot(cut_count)];
      if (lane == 0) shared.entry.cut[Cuts::slot(cut_count)] = {static_cast<int>(slot), low, high};
      ++cut_count;
    }
    Base::template copy<C.value_blocks()>(shared.value[slot], &p.value, 2, p.problem.sizes.value_dim, *full,
                                          box);
  }
  __device__ void run() {
    ptx::wait_for_dependencies();
    Base::for_tasks([&](const EntryTask& task) {
      const int first = task.keys.first;
      int tile = first + task.keys.count - 1;
      typename Base::Box box = Base::box_of(tile);
#pragma unroll 1
      for (; tile >= first; --tile) {
        const typename Base::Box next = Base::box_of(tile - 1);
        if constexpr (C.widens()) {
          stage_value(tile, box);
        } else {
          load_value(tile, box);
        }
        box = next;
      }
    });
    if (lane != 0 || C.widens()) return;
    shared.entry.cut[Cuts::slot(cut_count)] = {-1, 0, 0};
    shared.entry.cut_full[Cuts::slot(cut_count)].arrive();
  }
};

template <Config C>
__device__ inline void produce_entries(const EntriesParams& p, Shared<C>& shared, int warp) {
  static_assert(C.teams == 1);
  if (warp == 0) {
    KeyProducer<C>(p, shared).run();
  } else if (warp == 1) {
    ValueProducer<C>(p, shared).run();
  } else if (warp == 2) {
    if constexpr (!C.widens()) Cutter<C>{shared}.run();
  } else if (threadIdx.x % 32 == 0) {
    Scout<C>{p, shared}.run();
  }
}

}  // namespace tessera::cuda::sm90
