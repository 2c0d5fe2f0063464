// Host memory and its twin on a GPU: a problem over host memory is copied there whole, computed, and copied
// back, so that the same gates judge every device.
#pragma once

#include <tessera/tessera.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cases/gpu/memory.hpp"
#include "core/status.hpp"

namespace tessera::cases {

class Mirror {
 public:
  struct Region {
    std::string name;
    unsigned char* host = nullptr;
    std::size_t bytes = 0;
    bool written = false;  // an output: copied there before and back after every run
  };

  // Allocates every region on the GPU and copies it there.
  static core::Status make(int gpu, std::vector<Region> regions, std::unique_ptr<Mirror>* out);

  [[nodiscard]] int gpu() const { return gpu_; }
  // The same problem over the GPU's memory; every tensor must lie in a region.
  [[nodiscard]] tessera_attention problem(const tessera_attention& host) const;

  // Outputs only, as a whole: to the GPU and back.
  core::Status send_outputs();
  core::Status fetch_outputs();

  // Runs the library on the GPU: outputs go there as they are on the host and come back.
  core::Status attend(const tessera_attention& host, const tessera_device& device);

  // Empty, or the name of an input whose bytes on the GPU are not those on the host any more; those are
  // put right again, so that the next kernel is not blamed for it.
  std::string changed_input();

  // Runs several calls at once, on two streams and into outputs of their own, from outputs filled with
  // `start` (one per written region). Empty, or which run gave other bytes than the host's outputs hold.
  std::string repeat_under_load(const tessera_attention& host, const tessera_device& device, int runs,
                                const std::vector<std::vector<unsigned char>>& start);

  // Fills the GPU's copy of [from, from + bytes) with 0xff, which is NaN in every floating type; and puts
  // it right again.
  core::Status spoil(const void* from, std::size_t bytes);
  core::Status restore(const void* from, std::size_t bytes);

  [[nodiscard]] std::size_t bytes(bool written) const;

 private:
  struct Part {
    Region host;
    gpu::Memory twin;
  };
  explicit Mirror(int gpu) : gpu_(gpu) {}
  // The place of a host address; the address must lie in a region for at() and may not for find().
  [[nodiscard]] const Part* find(const void* host) const;
  [[nodiscard]] Part& at(const void* host);
  core::Status prepare_copies(std::size_t runs, const std::vector<std::vector<unsigned char>>& start);

  int gpu_;
  std::vector<Part> parts_;
  // For runs at once; kept, because allocating takes longer than most kernels.
  gpu::Stream streams_[2];
  std::vector<std::vector<gpu::Memory>> copies_;  // run by run, the outputs
};

// A problem over anybody's host memory, computed on the GPU.
core::Status attend_on_gpu(const tessera_attention& host, const tessera_device& device);

}  // namespace tessera::cases
