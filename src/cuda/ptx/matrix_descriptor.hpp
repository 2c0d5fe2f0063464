// Operands of wgmma in shared memory (PTX ISA, "Matrix Descriptor Format"). sm_90a.
#pragma once

namespace tessera::cuda::ptx {

// A matrix of 16-bit elements in shared memory, as the tensor cores are told of it. Rows of 128 bytes (64
// elements), 16-byte chunks of row r swizzled by r % 8, 1024-byte aligned; wider matrices are several such
// blocks side by side.
//   bits 0-13  start address / 16      16-29 offset to the next 64 columns / 16 (only where those are summed
//   32-45      1024 / 16: 8 rows on            over by B's columns, else unused)       62-63 128-byte swizzle
struct MatrixDescriptor {
  unsigned low;

  __device__ MatrixDescriptor(unsigned address, unsigned block_bytes)
      : low((address & 0x3ffffu) >> 4 | block_bytes >> 4 << 16) {}
  // That of a matrix like it elsewhere, so many times 16 bytes on.
  __device__ MatrixDescriptor moved(unsigned sixteens) const {
    MatrixDescriptor other = *this;
    other.low += sixteens;
    return other;
  }
  // That of the matrix so many bytes on. Only the low word changes: a 64-bit sum would cost twice as much.
  __device__ unsigned long long at(unsigned bytes) const {
    constexpr unsigned kHigh = 1u << 30 | 1024 / 16;
    return static_cast<unsigned long long>(kHigh) << 32 | (low + bytes / 16);
  }
  // Of strips of 8 columns so many bytes on: rows of 16 bytes, not swizzled. `along`: from 8 elements of the
  // summed dimension to the next 8; `across`: from 8 of the other one to the next.
  __device__ unsigned long long strips_at(unsigned bytes, unsigned along, unsigned across) const {
    return static_cast<unsigned long long>(across / 16) << 32 |
           (((low + bytes / 16) & 0x3fffu) | along / 16 << 16);
  }
};

}  // namespace tessera::cuda::ptx
