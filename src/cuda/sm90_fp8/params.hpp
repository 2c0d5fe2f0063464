// What a kernel for 8-bit inputs receives.
#pragma once

#include "cuda/coded.hpp"
#include "cuda/sm90/params.hpp"

namespace tessera::cuda::sm90 {

struct CodedPart {
  Coded coded;
  // Where in the workspace V is, and what is left of its scales; -1: these are the tensor's own.
  long long values_at, scales_at;
};
struct CodedParams : Sm90Params, CodedPart {};
struct CodedMaskParams : Sm90MaskParams, CodedPart {};

}  // namespace tessera::cuda::sm90
