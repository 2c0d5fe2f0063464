// PDL, programmatic dependent launch (PTX ISA, "griddepcontrol"): a kernel that was launched with the
// attribute for it may start while the one before it in the stream is still running, and set itself up
// meanwhile. Without the attribute both do nothing. sm_90 and newer.
#pragma once

namespace tessera::cuda::ptx {

// Before the first access to global memory, by every thread that makes one: returns when all kernels before
// this one have ended and what they wrote can be seen.
__device__ inline void wait_for_dependencies() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// The next kernel may start as soon as every block has said so and there is room for it. It waits for the end
// of this one before it touches memory, so this can be said at any time.
__device__ inline void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace tessera::cuda::ptx
