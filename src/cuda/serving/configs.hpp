// Tile sizes of the serving kernels: a row for each head dim, number of packed rows and arch.
//
//   few    up to 8 packed rows, or 16. Each warp multiplies 16 keys of a tile with all rows, and P of these
//          keys with their values: warps have nothing to tell each other before a piece ends, when their
//          results are merged through shared memory.
//   more   up to 64. Each warp has 16 rows of its own, and all keys and columns; on Hopper the four warps
//          multiply together, by wgmma: with 64 rows mma.sync would take as long as reading K and V does.
//   latent the last row of head dims, for values that lie in keys: 16 rows a tile, however many there are.
//          Four warps share them: each has a quarter of the dimensions, then of the values' columns
//          (latent.hpp).
//
// Both with and without options: what changes scores one by one, and results over other keys, are code that
// the others would have to jump over.
//
// And both for keys and values of 8 bits (coded.hpp), always with options.
#pragma once

#include "cuda/dispatch.hpp"
#include "cuda/serving/pieces.hpp"
#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::serving {

enum class Variant { few, more, few_options, more_options };
inline constexpr int kVariants = 4;
TESSERA_CONSTEXPR bool is_few(Variant v) { return v == Variant::few || v == Variant::few_options; }
TESSERA_CONSTEXPR bool takes_options(Variant v) { return v >= Variant::few_options; }
TESSERA_CONSTEXPR Variant variant_of(bool few, bool options) {
  return few ? (options ? Variant::few_options : Variant::few)
             : (options ? Variant::more_options : Variant::more);
}

// The last row is for values that are the first columns of their keys, and only for those.
inline constexpr HeadDims kHeadDims[] = {{64, 64}, {128, 128}, {192, 128}, {256, 256}, {576, 512}};
TESSERA_CONSTEXPR bool is_latent(int dim) { return dim > 256; }
TESSERA_CONSTEXPR bool has_more(int dim) { return dim <= 192; }

inline constexpr int kProducerWarps = 2;  // one where TMA copies

struct Config {
  int dim, value_dim;  // multiples of 64
  bool few;
  int rows;        // packed, of a tile
  int keys;        // of a tile
  int stages;      // tiles in shared memory
  int min_blocks;  // an SM
  bool wgmma;
  bool latent;            // a tile of V is the tile of K
  bool sum_in_registers;  // of a sequence's pieces so far
  int element_bytes;      // of K and V: 2, or 1 where they are codes

  TESSERA_CONSTEXPR int thread_rows() const { return few ? rows / 8 : 2; }  // when a piece has ended
  TESSERA_CONSTEXPR bool keys_apart() const { return few && !latent; }      // each warp has keys of its own
  TESSERA_CONSTEXPR bool large_ends() const { return !few || latent; }      // pieces leave much behind
  TESSERA_CONSTEXPR int warps() const { return keys_apart() ? keys / 16 : 4; }  // that multiply
  TESSERA_CONSTEXPR int consumers() const { return 32 * warps(); }              // threads
  // Warps that make f16 of codes, behind the producers and two that do nothing: registers are traded by four
  // warps together (coded_wide.hpp).
  TESSERA_CONSTEXPR int wideners() const { return wgmma && coded() ? 4 : 0; }
  TESSERA_CONSTEXPR int first_widener() const { return 8; }
  TESSERA_CONSTEXPR int threads() const {
    return wideners() > 0 ? 32 * (first_widener() + wideners()) : consumers() + 32 * kProducerWarps;
  }
  // Where there are those: 504 for three groups of four warps.
  TESSERA_CONSTEXPR int consumer_registers() const { return 248; }
  TESSERA_CONSTEXPR int other_registers() const { return 128; }
  // Of V's columns, those that a warp has when a piece has ended.
  TESSERA_CONSTEXPR int columns() const { return few ? value_dim / warps() : value_dim; }
  // What the row max of a piece is: an exponent of 2; else of the unit that scores are kept in.
  TESSERA_CONSTEXPR bool exponents() const { return keys_apart() || coded(); }
  TESSERA_CONSTEXPR int merge_rows() const { return few ? 1 : 4; }  // of a warp, at once
  TESSERA_CONSTEXPR bool coded() const { return element_bytes == 1; }
  // Two tiles at once. Producers that copy hand a tile over when they ask for the next one, for which a ring
  // of two has no slot while consumers hold one and wait for the other.
  TESSERA_CONSTEXPR bool takes_two() const { return coded() && keys_apart() && stages > 2; }
  TESSERA_CONSTEXPR int chunk() const { return 16 / element_bytes; }  // elements of 16 bytes
  TESSERA_CONSTEXPR int block() const { return 8 * chunk(); }         // columns of 128 bytes
  TESSERA_CONSTEXPR int key_blocks() const { return (dim + block() - 1) / block(); }
  TESSERA_CONSTEXPR int value_blocks() const { return latent ? 0 : (value_dim + block() - 1) / block(); }
  TESSERA_CONSTEXPR int key_bytes() const { return key_blocks() * keys * 128; }
  TESSERA_CONSTEXPR int slot_bytes() const { return (key_blocks() + value_blocks()) * keys * 128; }
  TESSERA_CONSTEXPR int sum_bytes() const { return sum_in_registers ? 0 : rows * value_dim * 4; }
  // What warps tell each other of a tile's scores, and of the next one's.
  TESSERA_CONSTEXPR int scores_bytes() const { return latent ? 2 * warps() * rows * keys * 4 : 0; }
  // Two tiles as f16, of codes that wgmma multiplies (coded_wide.hpp).
  TESSERA_CONSTEXPR int wide_bytes() const { return coded() && wgmma ? 4 * keys * (dim + value_dim) : 0; }
  TESSERA_CONSTEXPR int wide_key_bytes() const { return 2 * keys * dim; }
  // Scales of the ring's keys and values.
  TESSERA_CONSTEXPR int scales_bytes() const { return coded() ? stages * keys * 8 : 0; }
  // What Shared<C> takes: the ring, the sum, then everything small. Here for those who compile for the host.
  TESSERA_CONSTEXPR int shared_bytes() const {
    return stages * slot_bytes() + wide_bytes() + sum_bytes() + scores_bytes() + scales_bytes() + 1536 +
           warps() * (128 + 512 * merge_rows());
  }
};

// The second kernel: a warp has 128 columns of a row, or all, and a block four rows, or the parts of one.
TESSERA_CONSTEXPR int merge_parts(const Config& c) { return c.value_dim > 128 ? c.value_dim / 128 : 1; }
TESSERA_CONSTEXPR int merge_rows_at_once(const Config& c) { return merge_parts(c) > 1 ? 1 : 4; }
TESSERA_CONSTEXPR int merge_threads(const Config& c) { return 32 * merge_parts(c) * merge_rows_at_once(c); }

inline constexpr int kAloneBytes = 120 * 1024;  // with these a block is alone on its SM

// As many tiles as there is room for; past six nothing is gained.
TESSERA_CONSTEXPR Config with_stages(Config c, bool hopper) {
  const int room = (!hopper ? 99 : c.min_blocks == 2 ? 113 : 227) * 1024;
  c.stages = 1;
  while (c.stages < 6 && c.shared_bytes() + c.slot_bytes() + (c.coded() ? c.keys * 8 : 0) <= room) ++c.stages;
  return c;
}

TESSERA_CONSTEXPR Config config_for(int arch, int dim, int value_dim, Variant variant) {
  const bool hopper = arch >= 90;  // 227 KB of shared memory; what runs sm_80's or sm_89's code may have 99
  const bool few = is_few(variant), latent = is_latent(dim);
  Config c{.dim = dim,
           .value_dim = value_dim,
           .few = few,
           // Past head dim 192 there are registers for 8 rows alone; and by wgmma 64 rows take no longer than
           // 16 by mma.sync.
           .rows = !few                               ? 64
                   : !latent && (hopper || dim > 192) ? 8
                                                      : 16,
           .keys = hopper || (few && dim <= 128) ? 64 : 32,
           .stages = 0,
           .min_blocks = hopper && few && dim <= 128 ? 2 : 1,
           .wgmma = hopper && !few,
           .latent = latent,
           .sum_in_registers = latent && !hopper,  // where shared memory has no room for it
           .element_bytes = 2};
  return with_stages(c, hopper);
}

// Of keys and values of 8 bits, which become f16 on the way to registers, or, where wgmma is to take them, in
// shared memory.
enum class CodedVariant { few, more };
inline constexpr int kCodedVariants = 2;
// The last row is for values that lie in keys, as that of kHeadDims is. Of a key it has 640 bytes: 512 codes
// and a tail of 64 elements of 16 bits, or 576 codes.
inline constexpr HeadDims kCodedHeadDims[] = {{64, 64}, {128, 128}, {256, 256}, {640, 512}};
TESSERA_CONSTEXPR bool has_all_coded(int dim) { return dim <= 128; }  // else few alone
TESSERA_CONSTEXPR Config config_for_codes(int arch, int dim, int value_dim, CodedVariant variant) {
  const bool hopper = arch >= 90, latent = is_latent(dim);
  const Config c{.dim = dim,
                 .value_dim = value_dim,
                 .few = variant != CodedVariant::more,
                 .rows = variant == CodedVariant::more ? 64
                         : latent                      ? 16
                                                       : 8,
                 .keys = hopper || !latent ? 64 : 32,
                 .stages = 0,
                 .min_blocks = hopper && variant == CodedVariant::few && dim <= 128 ? 2 : 1,
                 .wgmma = hopper && variant == CodedVariant::more,
                 .latent = latent,
                 .sum_in_registers = false,
                 .element_bytes = 1};
  return with_stages(c, hopper);
}

}  // namespace tessera::cuda::serving
