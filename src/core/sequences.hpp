// How the rows and keys of a batch are laid out: dense, one entry behind the other, or keys in pages. Parts
// of validate().
#pragma once

#include "core/problem.hpp"

namespace tessera::core {

// Settles batch and keys, and the offsets, lengths and pages of *out, whose other sizes are known.
Status check_sequences(const tessera_attention& given, Problem* out);
Status check_prior(const tessera_attention& given, Problem* out);

}  // namespace tessera::core
