// A problem's tensors on the GPU, and a call that is captured there to be replayed over what they then hold.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>

#include "cases/gpu/memory.hpp"
#include "core/tensors.hpp"
#include "support.hpp"

namespace tessera::testing_cuda {

// From its address to behind its last element.
inline std::size_t bytes_of(const tessera_tensor& t) {
  std::int64_t last = 0;
  for (std::int32_t d = 0; d < t.rank; ++d) {
    if (t.shape[d] == 0) return 0;
    last += (t.shape[d] - 1) * t.strides[d];
  }
  return static_cast<std::size_t>(last + 1) * tessera_dtype_size(t.dtype);
}

struct OnDevice {
  core::PerTensor<gpu::Memory> memory;
  tessera_attention host, problem;

  explicit OnDevice(const tessera_attention& here) : host(here), problem(here) {
    core::for_each_tensor(problem, [&](const core::TensorField& field, tessera_tensor& t) {
      if (t.data == nullptr || bytes_of(t) == 0) return;
      EXPECT_TRUE(gpu::Memory::allocate(0, bytes_of(t), &memory[field.id]).ok());
      EXPECT_TRUE(memory[field.id].upload(t.data, bytes_of(t)).ok());
      t.data = memory[field.id].data();
    });
  }
  // Output and lse into the host's tensors; waits for the GPU.
  void download() const {
    const auto fetch = [&](core::TensorId id, const tessera_tensor& t) {
      if (t.data == nullptr || bytes_of(t) == 0) return;
      EXPECT_TRUE(memory[id].download(t.data, bytes_of(t)).ok());
    };
    fetch(core::TensorId::output, host.output);
    fetch(core::TensorId::lse, host.lse);
  }
};

inline core::Status status_of(tessera_status code) {
  return {code, code == TESSERA_OK ? "" : tessera_last_error()};
}

// call(device), which returns a core::Status, captured on a stream of its own.
struct Captured {
  gpu::Stream stream;
  gpu::Graph graph;
  core::Status status;  // of the capture

  template <class Call>
  explicit Captured(const Call& call) {
    status = gpu::Stream::create(0, &stream);
    if (!status.ok()) return;
    tessera_device device = gpu_device();
    device.stream = stream.get();
    status = gpu::Graph::capture(
        stream, [&] { return call(device); }, &graph);
  }
  // Waits for its end.
  core::Status replay() const {
    if (core::Status s = graph.replay(stream); !s.ok()) return s;
    return stream.synchronize();
  }
};

}  // namespace tessera::testing_cuda
