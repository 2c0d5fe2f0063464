// Numbers to 8-bit codes and scales, as tessera_quantise has it.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <string_view>

#include "core/status.hpp"

namespace tessera::codes {

// A tensor's memory: its name to users, where it begins and how far it reaches. Null where it was left out.
struct Piece {
  std::string_view name;
  const void* data = nullptr;
  std::uint64_t bytes = 0;
};

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
  Piece memory[4];
};

// Whether the call is right, without reading or writing tensors.
core::Status validate(const tessera_quantisation& given, Problem* out);

// That the workspace, where one was given, lies apart from the tensors and where it may begin.
core::Status check_workspace(const Problem& problem, const tessera_device& device);

// What the Hadamard transform of so many numbers is multiplied by.
float hadamard_factor(std::int64_t dim);

// `device` passed core::check_device. Looks whose memory it is first.
core::Status quantise_on_cpu(const Problem& problem, const tessera_device& device);

}  // namespace tessera::codes
