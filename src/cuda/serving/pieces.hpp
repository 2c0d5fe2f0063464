// Keys are cut into pieces as the decode kernels cut them.
#pragma once

#include "cuda/decode/pieces.hpp"

namespace tessera::cuda::serving {

using decode::ceil_divide;
using decode::cut;
using decode::Cut;
using decode::first_from;
using decode::kFewPieces;
using decode::kLeastShift;
using decode::kMostPieces;
using decode::kTileKeys;
using decode::Line;
using decode::share_of_pieces;

inline constexpr int kMostLargePieces = 128;  // of an entry with more than 16 rows, which take more memory

}  // namespace tessera::cuda::serving
