// Numbers to 8-bit codes and scales, as tessera_quantise has it.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>

#include "core/status.hpp"

namespace tessera::codes {

// A quantisation that passed validation. Broadcast dimensions of the scales have stride 0.
struct Problem {
  std::int64_t outer = 0, heads = 0, rows = 0, dim = 0;
  tessera_tensor input = TESSERA_TENSOR_NONE, output = TESSERA_TENSOR_NONE;
  float* scales = nullptr;
  std::int64_t scale_shape[4] = {}, scale_strides[4] = {};
  float* means = nullptr;  // null: no smoothing
  std::int64_t mean_strides[4] = {};
  std::int64_t scale_rows = 0;  // of a block; 0 where the scales have none
  bool by_channel = false;
  bool hadamard = false;
};

// Whether the call is right, without reading or writing tensors.
core::Status validate(const tessera_quantisation& given, Problem* out);

// `device` passed core::check_device.
core::Status quantise_on_cpu(const Problem& problem, const tessera_device& device);

}  // namespace tessera::codes
