// Who is to leave L2 first (PTX ISA, "Data Movement and Conversion Instructions: createpolicy"). sm_80 and
// newer.
#pragma once

namespace tessera::cuda::ptx {

// For what is read once: the first to leave when room is needed.
__device__ inline unsigned long long evict_first_policy() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
  return policy;
}

}  // namespace tessera::cuda::ptx
