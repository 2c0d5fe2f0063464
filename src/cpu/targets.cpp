// The list of compiled targets. The TESSERA_CPU_ macros come from CMakeLists.txt, which chooses the files.
#include "cpu/targets.hpp"

namespace tessera::cpu {

std::span<const Target> targets() {
  static const Target list[] = {
#if defined(TESSERA_CPU_AVX512_BF16)
    avx512_bf16_target(),
#endif
#if defined(TESSERA_CPU_AVX512)
    avx512_target(),
#endif
#if defined(TESSERA_CPU_AVX2)
    avx2_target(),
#endif
#if defined(TESSERA_CPU_NEON)
    neon_target(),
#endif
    scalar_target(),
  };
  return list;
}

}  // namespace tessera::cpu
