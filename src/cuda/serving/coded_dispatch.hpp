// The kernels for keys and values of 8 bits as the host sees them. No CUDA headers.
#pragma once

#include "cuda/mixed.hpp"
#include "cuda/serving/configs.hpp"

namespace tessera::cuda::serving {

inline constexpr int kCodedRows = sizeof kCodedHeadDims / sizeof *kCodedHeadDims;

// Of each of kCodedHeadDims; merge: where pieces leave much behind.
struct CodedFunctions {
  FunctionTable<CodedVariant, kCodedVariants> attend[kCodedRows], merge[kCodedRows];
};

// Defined by src/cuda/instances/serving_codes_*.cu.
template <Codes kCodes>
CodedFunctions coded_functions();

}  // namespace tessera::cuda::serving
