// Whole numbers of 8 bits as floats, without the conversion of whole numbers, which is slow. To be included
// before what takes codes of any type (tile/coded_rows.hpp).
#pragma once

namespace tessera::cuda::ptx {

struct I8 {  // -128 ... 127, two's complement
  unsigned char bits;
};

// Its 8 bits, the sign turned round, count up from -128: as the last bits of 2^23 they are exact.
__device__ inline float to_float(I8 x) {
  return __uint_as_float(0x4b000000u | (x.bits ^ 0x80u)) - (0x1p23f + 128.0f);
}

}  // namespace tessera::cuda::ptx
