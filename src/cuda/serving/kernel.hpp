// Attention for few rows over many keys, where reading K and V is what takes time. Persistent blocks take
// equal stretches of the line of pieces (pieces.hpp). One warp of a block is the producer (producer.hpp),
// which streams what it has of a sequence through a ring of shared memory, a tile of 64 keys after the other;
// the others are consumers (few.hpp, more.hpp, latent.hpp), or widen codes for them (coded_wide.hpp):
//
//   producer    | K0 V0 | K1 V1 | K2 V2 | ...  wait for empty slots only, on to the next sequence
//   consumers   | S0, P0, O += P0 V0 | S1, ...
//
//   a piece's end: its O and softmax state are merged into those of the chain's pieces before it, or written
//           to the workspace, if another block has the first of them
//   a chain's end: rows are divided and written, if that is all of the sequence; else left in the workspace,
//           where who comes last merges them (merge.hpp), or a second kernel (merge_rows.hpp)
#pragma once

#include "cuda/serving/latent.hpp"
#include "cuda/serving/merge.hpp"
#include "cuda/serving/more.hpp"
#include "cuda/serving/producer.hpp"
#include "cuda/tile/tail_rows.hpp"

namespace tessera::cuda::serving {

// What depends on the type of K and V: here that of Q. See coded_instance.hpp for the other.
template <Config C, class T, bool kOptions>
struct Wide {
  using Params = ServingParams;
  using Element = T;
  static constexpr bool kAnyRows = kOptions;
  template <int kHalves>
  using FewBody = Few<C, T, kOptions, kHalves>;
  using MoreBody = More<C, T, kOptions>;
  using LatentBody = Latent<C, T, kOptions>;

  // Rows that came out NaN, again: see tile/careful.hpp.
  __device__ static void compute_carefully(const Params* d, int batch, int pack_index, int row) {
#pragma unroll 1
    for (int column = 0; column < C.value_dim; column += tile::kCarefulColumns) {
      if (!C.latent || d->tail_block < 0) {
        tile::careful_row<T, false, true>(d->problem, batch, pack_index, row, column);
      } else {
        const Coded nothing{};
        tile::careful_row_of<T, false, true>(
            d->problem, batch, pack_index, row, column,
            [&](const auto& v, tile::RowIndex at) { return TailRows(d->problem, nothing, d->tail, v, at); });
      }
    }
  }
  struct TailRows : tile::TailRows<T> {
    template <class View>
    __device__ TailRows(const cuda::Params& p, const Coded& nothing, const Tail& tail, const View& v,
                        tile::RowIndex at)
        : tile::TailRows<T>(p, nothing, QueryKind::f16, tail, v, at) {}
    __device__ static void put(const tile::OutputRow<T>& out, int column, float x) { out.put(column, x); }
  };
};

template <Config C, class T, bool kOptions, class Kind>
struct Consumer {
  static constexpr bool kFew = C.few;

  const typename Kind::Params& d;
  Shared<C>& shared;
  unsigned count = 0;    // tiles taken so far
  unsigned written = 0;  // sequences

  // What is still to be done when a body has gone through a task.
  struct Left {
    bool merging = false, whole = false;  // merge.hpp
    unsigned suspects = 0;                // else
  };

  template <class Body>
  __device__ Left attend(Body& body, const Task& task) {
    const int rows_left = task.rows - task.first_row;
    body.enter(task);
    Sum<C> all(shared.sum);
    int t = task.first;
#pragma unroll 1
    for (int piece = task.first_piece; piece < task.end_piece; ++piece) {
      const int end = task.end_of(piece);
      const bool some = t < end;
      body.start_piece();
#pragma unroll 1
      while (t < end) {
        shared.wait_full(count);
        const int tiles = step(body, task, t, end);
        t += tiles;
        count += static_cast<unsigned>(tiles);
      }
      if constexpr (C.keys_apart()) {
        Output<C> out;
        body.end_piece(out, count - 1, some);
        if (some) release(count - 1, true);
        take(body, out, all, task, piece);
      } else {
        body.end_piece();
        take(body, body.o, all, task, piece);
      }
    }
    const bool whole = task.begins && task.ends;
    if (whole && task.chains == 1)
      return {.suspects = write_rows<C, T, kOptions>(d, view_of<T>(d.problem, task), all, task.first_row)};
    if (task.begins)
      store_partial<C>(
          d, task.slot, all.rows, [&](int n, int e) { return all.at(n, e); }, rows_left);
    return {.merging = true, .whole = whole};
  }
  // One tile, or two where the body takes them together; how many. The slot of a piece's last tile may be
  // needed for its end.
  template <class Body>
  __device__ __forceinline__ int step(Body& body, const Task& task, int t, int end) {
    const auto is_kept = [&](int tile) { return C.keys_apart() && tile + 1 == end; };
    if constexpr (C.takes_two()) {
      if (t + 1 < end && body.sees_both(task, t)) {
        shared.wait_full(count + 1);
        body.step_two(task, t, count);
        release(count, false);
        if (!is_kept(t + 1)) release(count + 1, false);
        return 2;
      }
    }
    const bool stored = body.step(task, t, count);
    if (!is_kept(t)) release(count, stored);
    return 1;
  }
  // What a piece came to.
  template <class Body>
  __device__ void take(const Body& body, const Output<C>& o, Sum<C>& all, const Task& task, int piece) const {
    if (task.begins) {
      all.merge(body.rows, o);
    } else {
      store_partial<C>(
          d, task.slot + piece - task.first_piece, body.rows, [&](int n, int e) { return o[n][e]; },
          task.rows - task.first_row);
    }
  }
  __device__ void release(unsigned n, bool stored) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (stored) ptx::fence_for_tensor_cores();
#endif
    shared.release(n);
  }
  // Merges, and computes rows that hold NaN although their sums do not again. Bit i of such rows
  // is row first + i * C.warps(), or first + i.
  __device__ void finish(const Left& left, const Task& task, bool is_last) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    int first = warp, step = C.warps();
    unsigned suspects = __reduce_or_sync(0xffffffffu, left.suspects);
    if (d.merges_apart != 0 && left.merging && !task.alone) return;
    if (left.merging) {
      suspects = Merger<C, T, kOptions>{d, shared, task, is_last}.end(left.whole);
    } else if constexpr (kFew) {
      unsigned(&all)[C.warps()] = shared.suspects[written++ % 2];
      if (threadIdx.x % 32 == 0) all[warp] = suspects;
      meet<C>();
      suspects = 0;
#pragma unroll
      for (int w = 0; w < C.warps(); ++w) suspects |= all[w];
      suspects = (suspects >> warp) & (C.warps() == 4 ? 0x1111u : 0x5555u);
      step = 1;
    } else {
      first = 16 * warp, step = 1;
    }
    for (int row = first; suspects != 0; row += step, suspects >>= 1)
      if ((suspects & 1u) != 0)
        Kind::compute_carefully(&d, task.batch, task.pack_index, task.first_row + row);
  }

  __device__ void attend(const Task& task, int n) {
    Left left;
    if constexpr (C.latent) {
      typename Kind::LatentBody body{d, shared};
      left = attend(body, task);
    } else if constexpr (!kFew) {
      typename Kind::MoreBody body{d, shared};
      left = attend(body, task);
    } else if constexpr (C.coded() && C.rows > 8) {  // whose entries have more
      typename Kind::template FewBody<2> body{d, shared};
      left = attend(body, task);
    } else if (C.rows == 8 || task.rows - task.first_row <= 8) {
      typename Kind::template FewBody<1> body{d, shared};
      left = attend(body, task);
    } else if constexpr (C.rows > 8) {
      typename Kind::template FewBody<2> body{d, shared};
      left = attend(body, task);
    }
    finish(left, task, left.merging && shared.wait_task(n + 1).batch < 0);
  }
  __device__ __forceinline__ void run() {
#pragma unroll 1
    for (int n = 0;; ++n) {
      const Task& task = shared.wait_task(n);
      if (task.batch < 0) return;
      attend(task, n);
      shared.end_task(n);
    }
  }
};

template <Config C, class Kind>
__device__ inline void produce(const typename Kind::Params& d, Shared<C>& shared) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (d.box_shift != 0 && threadIdx.x % 32 < 2)
    ptx::prefetch_tensor_map(threadIdx.x % 32 == 0 ? &d.key : &d.value);
#endif
  Producer<C, typename Kind::Element, Kind::kAnyRows> producer{d, shared};
  Scheduler<C.keys> scheduler{d};
  // Once before kernels before this one have ended, to bring the first tiles into L2, which has what they
  // write. What is to be done, if it is read from memory, may have changed then, and is found again.
  const bool told = d.others != nullptr && d.few == 0;
#pragma unroll 1
  for (int n = told ? 0 : -1;; ++n) {
    if (n == 0 && !alike(d)) wait_for_kernels_before();
    if (n == 0 && told && __ldcg(d.others) == 0) {
      shared.tell(n, {.batch = -1});
      return;
    }
    if (n <= 0) scheduler.start();
    if (n == 0 && d.others != nullptr && d.few != 0 && threadIdx.x % 32 == 0 && blockIdx.x == 0)
      *d.others = scheduler.others ? 1 : 0;
    const Task next = scheduler.next();
    if (n < 0) {
      if (d.box_shift != 0 && next.batch >= 0) producer.prefetch(next);
      continue;
    }
    if (n == 0 && threadIdx.x % 32 == 0) shared.line = scheduler.line;
    shared.tell(n, next);
    if (n == 0) wait_for_kernels_before();
    const Task& task = shared.task[n % Shared<C>::kTasks];
    if (task.batch < 0) break;
    if (d.box_shift != 0) {
      producer.ask_all(task);
    } else {
      producer.copy_all(task, false);
    }
  }
  if (d.box_shift == 0) producer.end_copies();
}

// The second producer, where TMA does not copy: kernels before this one have ended.
template <Config C, class Kind>
__device__ inline void copy_values(const typename Kind::Params& d, Shared<C>& shared) {
  Producer<C, typename Kind::Element, Kind::kAnyRows> producer{d, shared};
#pragma unroll 1
  for (int n = 0;; ++n) {
    const Task& task = shared.wait_task(n);
    if (task.batch < 0) break;
    producer.copy_all(task, true);
    shared.end_task(n);
  }
  producer.end_copies();
}

// Inlined, with what it calls, however long it is: the emulator knows no calls.
template <Config C, class T, bool kOptions, class Kind = Wide<C, T, kOptions>>
__device__ __forceinline__ void attend_block(const typename Kind::Params& d, char* memory) {
  Shared<C>& shared = *reinterpret_cast<Shared<C>*>(memory);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) shared.start(d.box_shift == 0);
  __syncthreads();
  const auto produce_and_clear = [&] {
    if (warp == C.warps()) {
      produce<C, Kind>(d, shared);
    } else if (warp == C.warps() + 1) {
      wait_for_kernels_before();
      if (d.clears != 0)
        tile::clear_unowned_rows<T>(d.problem, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
      if (d.box_shift == 0) copy_values<C, Kind>(d, shared);
    }
  };
  if constexpr (C.wideners() > 0) {
    if (warp >= C.warps()) {
      ptx::give_registers<C.other_registers()>();
      if (warp >= C.first_widener()) {
        Kind::widen(shared);
      } else {
        produce_and_clear();
      }
      return;
    }
    ptx::take_registers<C.consumer_registers()>();
  } else if (warp >= C.warps()) {
    return produce_and_clear();
  }
  wait_for_kernels_before();
  Consumer<C, T, kOptions, Kind>{d, shared}.run();
}

}  // namespace tessera::cuda::serving
