// Functions marked so compile for the GPU and, for their unit tests, for the host.
#pragma once

#if defined(__CUDACC__)
#define TESSERA_HOST_DEVICE __host__ __device__ inline
#define TESSERA_CONSTEXPR __host__ __device__ constexpr
#else
#define TESSERA_HOST_DEVICE inline
#define TESSERA_CONSTEXPR constexpr
#endif
