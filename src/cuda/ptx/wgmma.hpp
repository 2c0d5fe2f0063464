// wgmma: a warpgroup (four warps) multiplies 64 rows at a time, B from shared memory, A from shared memory or
// registers, while its threads go on (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"). sm_90a.
//
// Accumulators: thread t of the warpgroup holds rows 16 (t / 32) + t % 32 / 4 and that + 8; of every 8
// columns the two from 2 (t % 4) on: d[c][0, 1] for the first row, d[c][2, 3] for the second. The same
// layout, packed in pairs, is that of A in registers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/ptx/codes.hpp"
#include "cuda/ptx/matrix_descriptor.hpp"

namespace tessera::cuda::ptx {

// Before the first product, and whenever registers it reads or adds to were written in between.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most `pending` of the newest groups are still being computed.
template <int pending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Keeps what the compiler does with these registers afterwards from being moved up to before this point: a
// copy of an accumulator in the middle of a product would make it wait for every step of that product.
template <int n>
__device__ inline void pin(float (&registers)[n][4]) {
#pragma unroll
  for (int i = 0; i < 4 * n; ++i) asm volatile("" : "+f"(registers[i / 4][i % 4])::"memory");
}

// One product, 16 deep (8-bit elements: 32), for kColumns columns of B.
//   from_shared: D = A B^T (+ D), A and B both with the summed dimension along their rows: Q K
//   rows_from_registers: the same with A in registers
//   from_registers: D = A B (+ D), B with the summed dimension across its rows: P V
template <class T, int kColumns>
struct Wgmma;

// A thread holds eight registers of every 16 columns. Ln: the names of the first 8 n, Dn: the operands.
#define TESSERA_L1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TESSERA_L2 TESSERA_L1 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TESSERA_L3 TESSERA_L2 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TESSERA_L4 TESSERA_L3 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define TESSERA_L5 TESSERA_L4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define TESSERA_L6 TESSERA_L5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define TESSERA_L8 \
  TESSERA_L6 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TESSERA_L12                                                                    \
  TESSERA_L8                                                                           \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define TESSERA_L16                                                                                \
  TESSERA_L12                                                                                      \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define TESSERA_OPERANDS(i)                                                                          \
  "+f"(d[i / 4][0]), "+f"(d[i / 4][1]), "+f"(d[i / 4][2]), "+f"(d[i / 4][3]), "+f"(d[i / 4 + 1][0]), \
      "+f"(d[i / 4 + 1][1]), "+f"(d[i / 4 + 1][2]), "+f"(d[i / 4 + 1][3])
#define TESSERA_D1 TESSERA_OPERANDS(0)
#define TESSERA_D2 TESSERA_D1, TESSERA_OPERANDS(8)
#define TESSERA_D3 TESSERA_D2, TESSERA_OPERANDS(16)
#define TESSERA_D4 TESSERA_D3, TESSERA_OPERANDS(24)
#define TESSERA_D5 TESSERA_D4, TESSERA_OPERANDS(32)
#define TESSERA_D6 TESSERA_D5, TESSERA_OPERANDS(40)
#define TESSERA_D8 TESSERA_D6, TESSERA_OPERANDS(48), TESSERA_OPERANDS(56)
#define TESSERA_D12 \
  TESSERA_D8, TESSERA_OPERANDS(64), TESSERA_OPERANDS(72), TESSERA_OPERANDS(80), TESSERA_OPERANDS(88)
#define TESSERA_D16 \
  TESSERA_D12, TESSERA_OPERANDS(96), TESSERA_OPERANDS(104), TESSERA_OPERANDS(112), TESSERA_OPERANDS(120)

// N columns, G = N / 16. The operands behind the registers are numbered from N / 2 on: I0, I1, ...
#define TESSERA_WGMMA_OF(TYPE, NAME, N, G, I0, I1, I2, I3, I4, I5)                                       \
  template <>                                                                                            \
  struct Wgmma<TYPE, N> {                                                                                \
    __device__ static void from_shared(float (&d)[N / 8][4], unsigned long long a, unsigned long long b, \
                                       bool add) {                                                       \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " I2                                            \
                   ", 0;\n"                                                                              \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " {" TESSERA_L##G     \
                   "}, " I0 ", " I1 ", add, 1, 1, 0, 0;\n}"                                              \
                   : TESSERA_D##G                                                                        \
                   : "l"(a), "l"(b), "r"(static_cast<int>(add)));                                        \
    }                                                                                                    \
    __device__ static void from_registers(float (&d)[N / 8][4], const unsigned (&a)[4],                  \
                                          unsigned long long b, bool add = true) {                       \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " I5                                            \
                   ", 0;\n"                                                                              \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " {" TESSERA_L##G     \
                   "}, {" I0 ", " I1 ", " I2 ", " I3 "}, " I4 ", add, 1, 1, 1;\n}"                       \
                   : TESSERA_D##G                                                                        \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));    \
    }                                                                                                    \
    __device__ static void rows_from_registers(float (&d)[N / 8][4], const unsigned (&a)[4],             \
                                               unsigned long long b, bool add) {                         \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " I5                                            \
                   ", 0;\n"                                                                              \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " {" TESSERA_L##G     \
                   "}, {" I0 ", " I1 ", " I2 ", " I3 "}, " I4 ", add, 1, 1, 0;\n}"                       \
                   : TESSERA_D##G                                                                        \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));    \
    }                                                                                                    \
  };
// Of 8 bits, 32 deep.
#define TESSERA_WGMMA_8_OF(TYPE, NAME, N, G, I0, I1, I2, I3, I4, I5)                                     \
  template <>                                                                                            \
  struct Wgmma<TYPE, N> {                                                                                \
    __device__ static void from_shared(float (&d)[N / 8][4], unsigned long long a, unsigned long long b, \
                                       bool add) {                                                       \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " I2                                            \
                   ", 0;\n"                                                                              \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." NAME "." NAME " {" TESSERA_L##G     \
                   "}, " I0 ", " I1 ", add, 1, 1;\n}"                                                    \
                   : TESSERA_D##G                                                                        \
                   : "l"(a), "l"(b), "r"(static_cast<int>(add)));                                        \
    }                                                                                                    \
  };
#define TESSERA_WGMMA(...)                             \
  TESSERA_WGMMA_OF(__half, "f16", __VA_ARGS__)         \
  TESSERA_WGMMA_OF(__nv_bfloat16, "bf16", __VA_ARGS__) \
  TESSERA_WGMMA_8_OF(E4m3, "e4m3", __VA_ARGS__)        \
  TESSERA_WGMMA_8_OF(E5m2, "e5m2", __VA_ARGS__)

TESSERA_WGMMA(16, 1, "%8", "%9", "%10", "%11", "%12", "%13")
TESSERA_WGMMA(32, 2, "%16", "%17", "%18", "%19", "%20", "%21")
TESSERA_WGMMA(48, 3, "%24", "%25", "%26", "%27", "%28", "%29")
TESSERA_WGMMA(64, 4, "%32", "%33", "%34", "%35", "%36", "%37")
TESSERA_WGMMA(80, 5, "%40", "%41", "%42", "%43", "%44", "%45")
TESSERA_WGMMA(96, 6, "%48", "%49", "%50", "%51", "%52", "%53")
TESSERA_WGMMA(128, 8, "%64", "%65", "%66", "%67", "%68", "%69")
TESSERA_WGMMA(192, 12, "%96", "%97", "%98", "%99", "%100", "%101")
TESSERA_WGMMA(256, 16, "%128", "%129", "%130", "%131", "%132", "%133")

#undef TESSERA_WGMMA
#undef TESSERA_WGMMA_OF
#undef TESSERA_WGMMA_8_OF
#undef TESSERA_OPERANDS
#undef TESSERA_L1
#undef TESSERA_D1
#undef TESSERA_L2
#undef TESSERA_D2
#undef TESSERA_L3
#undef TESSERA_D3
#undef TESSERA_L4
#undef TESSERA_D4
#undef TESSERA_L5
#undef TESSERA_D5
#undef TESSERA_L6
#undef TESSERA_D6
#undef TESSERA_L8
#undef TESSERA_D8
#undef TESSERA_L12
#undef TESSERA_D12
#undef TESSERA_L16
#undef TESSERA_D16

}  // namespace tessera::cuda::ptx
