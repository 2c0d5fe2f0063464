// Stores of several words to global memory. Written as an assignment, a store behind a condition may be taken
// apart by the compiler into stores of single words, each of which touches every line again.
#pragma once

namespace tessera::cuda::ptx {

// to: a multiple of 16 bytes.
__device__ inline void store_words(void* to, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}
// to: a multiple of 8 bytes.
__device__ inline void store_words(void* to, unsigned a, unsigned b) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(a), "r"(b)
               : "memory");
}

}  // namespace tessera::cuda::ptx
