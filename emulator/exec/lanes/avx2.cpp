// For processors with AVX2 and FMA: CMake compiles this file for them.
#include "emulator/exec/lanes/all.inc"
const LaneTable& avx2_lanes() { return kTable; }
}  // namespace emulator
