// One kernel launch, settled but for the addresses of its tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "core/status.hpp"
#include "core/tensors.hpp"

namespace tessera::cuda::runtime {

// Every kernel takes one struct by value.
struct Step {
  static constexpr std::size_t kMostParams = 2048;

  const char* kernel = "";  // its row of the kernel table, for error messages
  const void* function = nullptr;
  unsigned grid[3] = {1, 1, 1};
  unsigned threads = 1;
  unsigned shared_bytes = 0;
  bool pdl = false;                 // launched by programmatic dependent launch: see ptx/pdl.hpp
  std::size_t l2_window_bytes = 0;  // rung 10: so many bytes from K's address on are kept in L2 if it can
  std::array<std::byte, kMostParams> params;
  std::size_t params_bytes = 0;
  // Puts addresses into a copy of the parameters: the tensors', and the workspace's where the plan has one.
  core::Status (*place)(void* params, const core::Addresses& at, void* workspace) = nullptr;

  template <class Params>
  void set_params(const Params& given) {
    static_assert(std::is_trivially_copyable_v<Params> && sizeof(Params) <= kMostParams);
    std::memcpy(params.data(), &given, sizeof given);
    params_bytes = sizeof given;
  }
};

}  // namespace tessera::cuda::runtime
