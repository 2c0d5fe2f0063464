// Tile sizes of the wgmma kernels, chosen by the same function on the host and on the device.
#pragma once

#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::sm90 {

inline constexpr int kMostMaskSlots = 4;

// What Q and K are of where they are of 8 bits; or K and V alone, beside Q of 16, and a warpgroup more makes
// f16 of them on the way (widen.hpp), and a consumer of Q (narrow.hpp).
enum class Codes { none, e4m3, e5m2, beside_f16, beside_bf16 };

struct Config {
  int dim, value_dim;     // multiples of 16; shared memory holds whole blocks of 64 columns
  int consumers = 2;      // warpgroups, 64 query rows each
  int keys = 128;         // of a K/V tile
  int stages = 2;         // K and V tiles in flight
  bool ping_pong = true;  // the warpgroups take turns: one multiplies while another exponentiates
  bool overlap = true;    // a warpgroup's softmax runs under its own last product, not only under the others'
  bool ahead = false;     // the next row tile's first scores are computed while this one is written
  int teams = 1;          // of so many consumers, each with row tiles and shared memory of its own
  bool strips = false;    // the last 16 columns stand apart: see strips.hpp
  int mask_bytes = 0;     // for a mask tensor: a slot or two of what a key tile needs of it
  bool entries = false;   // of a ragged or paged batch: see entries_producer.hpp
  Codes codes = Codes::none;
  int staged = 0;  // tiles of codes in flight, of K and of V, where those are widened

  // Q and K; V was widened to 16 bits before: see sm90_fp8/.
  TESSERA_CONSTEXPR bool coded() const { return codes == Codes::e4m3 || codes == Codes::e5m2; }
  TESSERA_CONSTEXPR bool widens() const { return codes == Codes::beside_f16 || codes == Codes::beside_bf16; }
  TESSERA_CONSTEXPR bool narrows() const { return codes == Codes::beside_bf16; }
  // Scores have a factor that is a row tile's own.
  TESSERA_CONSTEXPR bool own_factor() const { return codes != Codes::none; }
  // How K and V come and go: see shared.hpp.
  TESSERA_CONSTEXPR bool joint() const { return !overlap; }
  // There nearly always are key tiles that some warpgroups' rows see and others' do not, where there is a
  // diagonal; these pass them over. (With turns they would have to take one for each.)
  TESSERA_CONSTEXPR bool passes_over() const { return !ping_pong && rows() - 64 >= keys; }
  TESSERA_CONSTEXPR int rows() const { return 64 * consumers; }
  // Who multiplies, the producer, who widens.
  TESSERA_CONSTEXPR int threads() const { return 128 * (warpgroups() + (widens() ? 2 : 1)); }
  TESSERA_CONSTEXPR int warpgroups() const { return teams * consumers; }  // that multiply
  TESSERA_CONSTEXPR int warp_rows() const { return 16; }
  TESSERA_CONSTEXPR int thread_rows() const { return 2; }
  // Blocks of 64 columns (of 128, where they are of 8 bits), but for those in strips.
  TESSERA_CONSTEXPR int blocks() const {
    return coded() ? (dim + 127) / 128 : strips ? dim / 64 : (dim + 63) / 64;
  }
  TESSERA_CONSTEXPR int value_blocks() const { return strips ? value_dim / 64 : (value_dim + 63) / 64; }
  TESSERA_CONSTEXPR int strip_bytes(int rows) const { return strips ? (rows * 32 + 1023) / 1024 * 1024 : 0; }
  // Of one warpgroup's query rows, of a tile of K, of V.
  TESSERA_CONSTEXPR int query_bytes() const { return blocks() * 64 * 128 + strip_bytes(64); }
  TESSERA_CONSTEXPR int key_bytes() const { return blocks() * keys * 128 + strip_bytes(keys); }
  TESSERA_CONSTEXPR int value_bytes() const { return value_blocks() * keys * 128 + strip_bytes(keys); }
  // Of a tile of K's codes, of V's, in blocks of 128 columns.
  TESSERA_CONSTEXPR int code_blocks() const { return (dim + 127) / 128; }
  TESSERA_CONSTEXPR int value_code_blocks() const { return (value_dim + 127) / 128; }
  TESSERA_CONSTEXPR int staged_bytes() const {
    return widens() ? staged * (code_blocks() + value_code_blocks()) * keys * 128 + 1024 : 0;
  }
  // What Shared<C> takes: tiles, which are whole multiples of 1024 bytes, then the barriers in one more. Here
  // for those who compile for the host alone.
  TESSERA_CONSTEXPR int shared_bytes() const {
    return teams * (consumers * query_bytes() + stages * (key_bytes() + value_bytes()) + 1024) + mask_bytes +
           walk_bytes() + entry_bytes() + staged_bytes();
  }
  TESSERA_CONSTEXPR int entry_bytes() const { return entries ? 1024 : 0; }                   // entry_task.hpp
  TESSERA_CONSTEXPR int walk_bytes() const { return mask_bytes > 0 ? consumers * 128 : 0; }  // mask_walk.hpp
  // The register file holds 64 K registers; a block is alone on its SM.
  // A producer that asks a mask tensor has more to remember.
  TESSERA_CONSTEXPR int producer_registers() const {
    if (more_for_producer()) return 56;
    return warpgroups() == 2 && !widens() ? 40 : 32;
  }
  TESSERA_CONSTEXPR int consumer_registers() const {
    if (widens()) return warpgroups() == 3 ? 128 : dim > 128 ? 216 : 208;
    return (warpgroups() == 4 ? 112 : warpgroups() == 3 ? 160 : 232) - (more_for_producer() ? 8 : 0);
  }
  TESSERA_CONSTEXPR int widener_registers() const { return warpgroups() == 3 ? 56 : dim > 128 ? 48 : 64; }
  // A block has as many registers as its threads begin with, in eights: who asks for more than others have
  // given back waits for ever.
  TESSERA_CONSTEXPR bool registers_suffice() const {
    const int taken =
        warpgroups() * consumer_registers() + producer_registers() + (widens() ? widener_registers() : 0);
    return taken <= threads() / 128 * (65536 / threads() / 8 * 8);
  }
  TESSERA_CONSTEXPR bool more_for_producer() const { return mask_bytes > 0 && warpgroups() < 4; }
};

// Of split.hpp: no producer, and the warpgroups have the same rows and share the keys.
struct SplitConfig {
  static constexpr bool strips = false;
  static constexpr Codes codes = Codes::none;
  int dim, value_dim;
  int warpgroups = 2;
  int keys;        // of a K/V tile
  int stages = 2;  // of a warpgroup
  // A product has 16 rows of a warp, 8 apart in a thread. Where that leaves SMs idle, the last 8 are not
  // used.
  int rows_of_warp = 16;

  TESSERA_CONSTEXPR int rows() const { return 4 * rows_of_warp; }
  TESSERA_CONSTEXPR int threads() const { return 128 * warpgroups; }
  TESSERA_CONSTEXPR int warp_rows() const { return rows_of_warp; }
  TESSERA_CONSTEXPR int thread_rows() const { return rows_of_warp / 8; }
  TESSERA_CONSTEXPR int blocks() const { return (dim + 63) / 64; }
  TESSERA_CONSTEXPR int value_blocks() const { return (value_dim + 63) / 64; }
  TESSERA_CONSTEXPR int query_bytes() const { return blocks() * 64 * 128; }
  TESSERA_CONSTEXPR int key_bytes() const { return blocks() * keys * 128; }
  TESSERA_CONSTEXPR int value_bytes() const { return value_blocks() * keys * 128; }
  // What SplitShared<C> takes: Q, the tiles, the partial results, then row max and sum of every row and the
  // barriers.
  TESSERA_CONSTEXPR int shared_bytes() const {
    const int tiles = warpgroups * stages * (key_bytes() + value_bytes());
    const int partial = warpgroups * rows() * value_dim * 4;
    return query_bytes() + tiles + partial + warpgroups * 2048 + 1024;
  }
};

inline constexpr int kMostSharedBytes = 227 * 1024;

}  // namespace tessera::cuda::sm90
