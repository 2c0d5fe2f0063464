// One row of the input as the numbers that are quantised: floats, less the means, through the Hadamard
// transform. Both passes make them, by the same arithmetic, so that neither has to keep them.
#pragma once

#include <array>
#include <cstdint>

#include "cpu/elements.hpp"
#include "quantise/quantise.hpp"

namespace tessera::codes {

using Row = std::array<float, TESSERA_MAX_HEAD_DIM>;

template <class Element>
void load_as(const void* data, std::int64_t first, std::int64_t dim, float* row) {
  const auto* elements = static_cast<const Element*>(data) + first;
  for (std::int64_t d = 0; d < dim; ++d) row[d] = cpu::to_float(elements[d]);
}

inline void load_row(const Problem& p, std::int64_t o, std::int64_t h, std::int64_t r, float* row) {
  const std::int64_t* const s = p.input.strides;
  const std::int64_t first = o * s[0] + h * s[1] + r * s[2];
  if (p.input.dtype == TESSERA_F32) return load_as<float>(p.input.data, first, p.dim, row);
  if (p.input.dtype == TESSERA_F16) return load_as<cpu::F16>(p.input.data, first, p.dim, row);
  load_as<cpu::BF16>(p.input.data, first, p.dim, row);
}

// The row times the Walsh-Hadamard matrix of its length, a power of two, divided by the root of that: a
// rotation, and its own inverse. In place.
void hadamard(float* row, std::int64_t dim);

inline void prepare_row(const Problem& p, std::int64_t o, std::int64_t h, std::int64_t r, float* row) {
  load_row(p, o, h, r, row);
  if (p.means != nullptr) {
    const float* const means = p.means + o * p.mean_strides[0] + h * p.mean_strides[1];
    for (std::int64_t d = 0; d < p.dim; ++d) row[d] -= means[d * p.mean_strides[3]];
  }
  if (p.hadamard) hadamard(row, p.dim);
}

}  // namespace tessera::codes
