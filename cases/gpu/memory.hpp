// GPU memory, streams, graphs and timing for the programs around the library: the cases that judge kernels
// and the command line. The library itself allocates nothing and waits for nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/status.hpp"

namespace tessera::gpu {

// A handle of CUDA's that is given back at the end, on the GPU it belongs to.
struct Release {
  int gpu = 0;
  void (*release)(void*) = nullptr;
  void operator()(void* handle) const;
};
using Handle = std::unique_ptr<void, Release>;

class Memory {
 public:
  // Out of memory is TESSERA_OUT_OF_MEMORY, with how much was asked for and how much is free.
  static core::Status allocate(int gpu, std::size_t bytes, Memory* out);

  [[nodiscard]] unsigned char* data() const { return static_cast<unsigned char*>(handle_.get()); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  // All of these return when the bytes have arrived, whatever was running on the GPU before.
  core::Status upload(const void* from, std::size_t bytes, std::size_t at = 0);
  core::Status download(void* to, std::size_t bytes, std::size_t at = 0) const;
  core::Status fill(unsigned char byte, std::size_t bytes, std::size_t at = 0);

 private:
  Handle handle_;
  std::size_t bytes_ = 0;
};

// Waits for everything on the GPU, and says what went wrong there.
core::Status synchronize(int gpu);

// A stream that does not wait for the default stream, so that it can be captured and can overlap.
class Stream {
 public:
  static core::Status create(int gpu, Stream* out);
  [[nodiscard]] void* get() const { return handle_.get(); }
  [[nodiscard]] int gpu() const { return handle_.get_deleter().gpu; }
  core::Status synchronize() const;

 private:
  Handle handle_;
};

class Graph {
 public:
  // Everything that body() puts on the stream, recorded instead of run.
  static core::Status capture(const Stream& stream, const std::function<core::Status()>& body, Graph* out);
  core::Status replay(const Stream& stream) const;

 private:
  Handle handle_;
};

// Time on the GPU between two points of a stream.
class Stopwatch {
 public:
  static core::Status create(int gpu, Stopwatch* out);
  core::Status start(const Stream& stream) const;
  core::Status stop(const Stream& stream) const;
  // Waits for the stop.
  core::Status elapsed_us(double* out) const;

 private:
  Handle begin_, end_;
};

// Pushes whatever a problem left in the L2 cache out of it.
class L2Flush {
 public:
  static core::Status create(int gpu, std::size_t l2_bytes, L2Flush* out);
  core::Status flush(const Stream& stream) const;

 private:
  Memory memory_;
};

// A kernel that does nothing, with as many bytes of parameters as a real one: what a launch costs by itself.
class BareLaunch {
 public:
  static core::Status create(int gpu, BareLaunch* out);
  core::Status launch(const Stream& stream) const;

 private:
  Handle library_;
  [[maybe_unused]] const void* kernel_ = nullptr;  // without CUDA nobody asks for it
};

// What a number measured on a GPU needs beside it. 0 or empty where it cannot be had.
struct GpuState {
  std::string driver;              // "580.95.05"; from NVML
  std::string cuda_driver;         // the newest CUDA it knows: "13.0"
  std::string cuda_runtime;        // that this build was linked with
  int sm_mhz = 0, memory_mhz = 0;  // now; from NVML
  int max_sm_mhz = 0;
  int temperature_c = 0;
  double power_w = 0;
};
GpuState gpu_state(int gpu);

}  // namespace tessera::gpu
