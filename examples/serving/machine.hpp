// Where the model is computed: memory, the operations beside attention, and the device that tessera is called
// with. cpu_machine.cpp and cuda_machine.cu are the two there are.
//
// Every operation computes a row from that row alone, in the same order of additions whatever else is in the
// batch. Attention promises the same of its entries, and together they make the bits of a request its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <tessera/tessera.hpp>

namespace serving {

class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  virtual ~Machine() = default;

  virtual tessera::Device device(tessera::Workspace workspace) = 0;
  virtual const char* name() const = 0;

  // Memory that lives as long as the machine does, 256-byte aligned.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void upload(const void* from, std::size_t bytes, void* to) = 0;
  virtual void download(const void* from, std::size_t bytes, void* to) = 0;  // waits
  virtual void copy(const void* from, std::size_t bytes, void* to) = 0;      // within its memory

  // Whether steps of one size are worth padding to, because they are captured once and replayed.
  virtual bool replays() const = 0;
  // Does the work; if `again`, work of the very same calls on the same memory may be replayed instead.
  virtual void run(bool again, const std::function<void()>& work) = 0;

  // to[r, :] = table[rows[r], :]
  virtual void gather(const float* table, const std::int32_t* rows, int count, int width, float* to) = 0;
  // to[r, :] = x[r, :] / rms(x[r, :])
  virtual void normalise(const float* x, int rows, int width, float* to) = 0;
  // to[r, :] = x[r, :] W, added to what is there if `add`; W is [in, out], out a multiple of 32.
  virtual void multiply(const float* x, const float* w, int rows, int in, int out, bool add, float* to) = 0;
  // to[r, j] = silu(x[r, j]) * x[r, width + j]
  virtual void gate(const float* x, int rows, int width, float* to) = 0;
};

std::unique_ptr<Machine> make_cpu_machine(int threads);
std::unique_ptr<Machine> make_cuda_machine();  // throws what is missing, in a sentence

}  // namespace serving
