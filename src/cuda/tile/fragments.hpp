// Which lane holds which element of the operands of mma.sync m16n8k16 (PTX ISA, "Matrix Fragments for
// mma.m16n8k16"). group = lane / 4 picks a row, pair = lane % 4 a pair of neighbouring columns:
//
//   A 16x16   register r (2 elements): row group + 8 * (r % 2), columns 2 * pair + 8 * (r / 2) + {0, 1}
//   B 16x8    register r:              k = 2 * pair + 8 * r + {0, 1}, n = group
//   C 16x8    element e:               row group + 8 * (e / 2), column 2 * pair + e % 2
//
// The C fragments of two neighbouring 16x8 tiles, rounded to 16 bits, are the A fragment of the 16x16
// tile they form: that is why scores never have to leave their registers on the way to P V.
#pragma once

#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::tile {

struct FragmentIndex {
  int row, column;
};

TESSERA_HOST_DEVICE FragmentIndex index_in_a(int lane, int register_index, int half) {
  return {lane / 4 + 8 * (register_index % 2), 2 * (lane % 4) + 8 * (register_index / 2) + half};
}

TESSERA_HOST_DEVICE FragmentIndex index_in_b(int lane, int register_index, int half) {  // row = k, column = n
  return {2 * (lane % 4) + 8 * register_index + half, lane / 4};
}

TESSERA_HOST_DEVICE FragmentIndex index_in_c(int lane, int element) {
  return {lane / 4 + 8 * (element / 2), 2 * (lane % 4) + element % 2};
}

// Row and 8-element chunk that lane gives ldmatrix.x4 so that its four registers become:
// the A fragment of a 16x16 tile stored row by row;
TESSERA_HOST_DEVICE FragmentIndex ldmatrix_a(int lane) { return {lane % 16, lane / 16}; }
// the B fragments of two 16x8 tiles (n = 0..7 and 8..15) of a matrix stored as [n][k]: registers
// {0, 1} belong to the first, {2, 3} to the second;
TESSERA_HOST_DEVICE FragmentIndex ldmatrix_b(int lane) { return {lane % 8 + 8 * (lane / 16), lane / 8 % 2}; }
// with .trans, the B fragments of two 16x8 tiles of a matrix stored as [k][n].
TESSERA_HOST_DEVICE FragmentIndex ldmatrix_b_transposed(int lane) { return {lane % 16, lane / 16}; }

}  // namespace tessera::cuda::tile
