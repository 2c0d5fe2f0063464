// A build without code for sm_90a: no wgmma kernels, and the kernel table says so.
#include "cuda/sm90/entries.hpp"
#include "cuda/sm90/launch.hpp"

namespace tessera::cuda::sm90 {

bool in_build() { return false; }

core::Status make_step(const core::Problem&, const Choice&, const mask::Layout&, int, runtime::Step*) {
  return {TESSERA_DEVICE_UNAVAILABLE, "this build has no code for sm_90a"};
}

core::Status add_entries(const core::Problem&, const runtime::Gpu&, int, Steps*) {
  return {TESSERA_DEVICE_UNAVAILABLE, "this build has no code for sm_90a"};
}

}  // namespace tessera::cuda::sm90
