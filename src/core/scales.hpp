// The scales of 8-bit inputs, and the precision that they allow. A part of validate().
#pragma once

#include "core/problem.hpp"

namespace tessera::core {

// Refuses them beside wider inputs, those of the query beside a wider query. *out knows its dtype and sizes.
Status check_scales(const tessera_attention& given, Problem* out);

}  // namespace tessera::core
