// Attention for few rows over many keys, where reading K and V is what takes time. Persistent blocks take
// equal stretches of the line of pieces (pieces.hpp). One warp of a block is the producer (producer.hpp),
// which streams what it has of a sequence through a ring of shared memory, a tile of 64 keys after the other;
// the others are consumers (few.hpp, more.hpp):
//
//   producer    | K0 V0 | K1 V1 | K2 V2 | ...  wait for empty slots only, on to the next sequence
//   consumers   | S0, P0, O += P0 V0 | S1, ...
//
//   a piece's end: its O and softmax state are merged into those of the sequence's pieces before it, or
//           written to the workspace, if another block has the first of them
//   a sequence's end: rows are divided and written, or, if another block has the rest, left in the workspace
//
// The second kernel (merge.hpp) ends the sequences that more than one block had a part of.
#pragma once

#include "cuda/serving/more.hpp"
#include "cuda/serving/producer.hpp"

namespace tessera::cuda::serving {

template <Config C, class T, bool kOptions>
struct Consumer {
  static constexpr bool kFew = C.few;

  const ServingParams& d;
  Shared<C>& shared;
  unsigned count = 0;    // tiles taken so far
  unsigned written = 0;  // sequences

  template <class Body>
  __device__ void attend(Body& body, const Task& task) {
    const Params& p = d.problem;
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
      for (; t < end; ++t, ++count) {
        shared.wait_full(count);
        const bool stored = body.step(task, t, count);
        if (kFew && t + 1 == end) continue;  // its slot is needed for the piece's end
        release(count, stored);
      }
      if constexpr (kFew) {
        Output<C> out;
        body.end_piece(out, count - 1, some);
        if (some) release(count - 1, true);
        take(body, out, all, task, piece);
      } else {
        body.end_piece();
        take(body, body.o, all, task, piece);
      }
    }
    if (task.begins && task.ends) {
      finish(write_rows<C, T, kOptions>(p, view_of<T>(p, task), all, task.first_row), task);
    } else if (task.begins) {
      store_partial<C>(
          d, slots(), all.rows, [&](int n, int e) { return all.at(n, e); }, rows_left);
    }
  }
  __device__ int slots() const { return static_cast<int>(blockIdx.x) * d.slots; }
  // What a piece came to.
  template <class Body>
  __device__ void take(const Body& body, const Output<C>& o, Sum<C>& all, const Task& task, int piece) const {
    if (task.begins) {
      all.merge(body.rows, o);
    } else {
      store_partial<C>(
          d, slots() + 1 + piece - task.first_piece, body.rows, [&](int n, int e) { return o[n][e]; },
          task.rows - task.first_row);
    }
  }
  __device__ void release(unsigned n, bool stored) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (stored) ptx::fence_for_tensor_cores();
#endif
    shared.release(n);
  }
  // `suspects`: rows of the thread's warp, a bit each.
  __device__ void finish(unsigned suspects, const Task& task) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    suspects = __reduce_or_sync(0xffffffffu, suspects);
    unsigned(&all)[C.warps()] = shared.suspects[written++ % 2];
    if (threadIdx.x % 32 == 0) all[warp] = suspects;
    meet<C>();
    if constexpr (kFew) {
      suspects = 0;
#pragma unroll
      for (int w = 0; w < C.warps(); ++w) suspects |= all[w];
    }
    if (suspects == 0) return;
    const int first = kFew ? 0 : 16 * warp;
    for (int row = kFew ? warp : 0; row < 16; row += kFew ? C.warps() : 1)
      if ((suspects >> row & 1u) != 0)
        compute_carefully<T>(&d.problem, task.batch, task.pack_index, task.first_row + first + row);
  }

  __device__ void attend(const Task& task) {
    if constexpr (!kFew) {
      More<C, T, kOptions> body{d, shared};
      attend(body, task);
    } else if (C.rows() == 8 || task.rows - task.first_row <= 8) {
      Few<C, T, kOptions, 1> body{d, shared};
      attend(body, task);
    } else if constexpr (C.rows() > 8) {
      Few<C, T, kOptions, 2> body{d, shared};
      attend(body, task);
    }
  }
  __device__ void run() {
#pragma unroll 1
    for (int n = 0;; ++n) {
      const Task& task = shared.wait_task(n);
      if (task.batch < 0) return;
      attend(task);
      shared.end_task(n);
    }
  }
};

template <Config C, class T, bool kOptions>
__device__ inline void produce(const ServingParams& d, Shared<C>& shared) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (d.box_shift != 0 && threadIdx.x % 32 < 2)
    ptx::prefetch_tensor_map(threadIdx.x % 32 == 0 ? &d.key : &d.value);
#endif
  Producer<C, T, kOptions> producer{d, shared};
  Scheduler<C.keys> scheduler{d};
  // Once before kernels before this one have ended, to bring the first tiles into L2, which has what they
  // write. What is to be done, if it is read from memory, may have changed then, and is found again.
#pragma unroll 1
  for (int n = -1;; ++n) {
    if (n == 0 && !alike(d)) wait_for_kernels_before();
    if (n <= 0) scheduler.start();
    const Task next = scheduler.next();
    if (n < 0) {
      if (d.box_shift != 0 && next.batch >= 0) producer.prefetch(next);
      continue;
    }
    shared.tell(n, next);
    if (n == 0) wait_for_kernels_before();
    scheduler.leave_note(next);
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

// The second producer, where TMA does not copy.
template <Config C, class T, bool kOptions>
__device__ inline void copy_values(const ServingParams& d, Shared<C>& shared) {
  wait_for_kernels_before();
  Producer<C, T, kOptions> producer{d, shared};
#pragma unroll 1
  for (int n = 0;; ++n) {
    const Task& task = shared.wait_task(n);
    if (task.batch < 0) break;
    producer.copy_all(task, true);
    shared.end_task(n);
  }
  producer.end_copies();
}

template <Config C, class T, bool kOptions>
__device__ inline void attend_block(const ServingParams& d, char* memory) {
  Shared<C>& shared = *reinterpret_cast<Shared<C>*>(memory);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) shared.start(d.box_shift == 0);
  __syncthreads();
  if (d.clears != 0) {
    wait_for_kernels_before();
    tile::clear_unowned_rows<T>(d.problem);
  }
  if (warp == C.warps()) {
    produce<C, T, kOptions>(d, shared);
  } else if (warp > C.warps()) {
    if (d.box_shift == 0) copy_values<C, T, kOptions>(d, shared);
  } else {
    wait_for_kernels_before();
    Consumer<C, T, kOptions>{d, shared}.run();
  }
}

}  // namespace tessera::cuda::serving
