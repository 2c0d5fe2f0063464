// For any processor.
#include "emulator/exec/lanes/all.inc"
const LaneTable& plain_lanes() { return kTable; }
}  // namespace emulator
