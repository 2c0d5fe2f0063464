// How blocks share the work of a problem, and what the kernels receive of it. On the host.
#pragma once

#include <cstdint>

#include "cuda/serving/choose.hpp"
#include "cuda/serving/params.hpp"

namespace tessera::cuda::serving {

// Which entries a launch is for: those with so many packed rows; and whether rows that no entry owns are,
// too.
struct Route {
  int least_rows, most_rows;
  bool clears;
  std::int64_t others_at = -1;  // ServingParams::others, in the workspace
};

// How blocks share the work.
struct Work {
  std::int64_t sequences;        // of all entries, at most
  std::int64_t entry_sequences;  // of one entry, at least
  int tiles;                     // of keys, at most
  int most_pieces;               // of a sequence
  std::int64_t passes;           // ServingParams::passes
  std::int64_t pieces, blocks;
  int coarse;       // see Cut
  int chain_shift;  // see pieces.hpp
  bool alike;       // all entries, and the host knows what they are like
  bool leaves;  // blocks leave something in the workspace: no block has all of a sequence, or chains of it
};

Work work_of(const core::Problem& problem, const Config& config, const Route& route, int sms);
// All but what codes add, boxes and where the workspace is.
ServingParams params_of(const core::Problem& problem, const Choice& choice, const Route& route,
                        const Work& work);

// Rows that share K and V, of an entry.
std::int64_t packed_rows(const core::Problem& problem);
// Two neighbouring elements of Q can be read at once, and of a tensor like it.
bool query_in_pairs(const core::Problem& problem);
bool in_pairs(const core::Problem& problem, const core::Tensor4& tensor, std::int64_t columns,
              tessera_dtype dtype);

}  // namespace tessera::cuda::serving
