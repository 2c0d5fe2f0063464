// Stands in for src/cuda/ptx/wgmma.hpp: see machine.hpp. Products notice what they read.
#pragma once

#include "cuda/ptx/matrix_descriptor.hpp"
#include "machine.hpp"

namespace tessera::cuda::ptx {

inline void wgmma_fence() {}
inline void wgmma_commit() { testing_cuda::machine->commit(); }
template <int pending>
inline void wgmma_wait() {
  testing_cuda::machine->wait_for_products(pending);
}
template <int n>
inline void pin(float (&)[n][4]) {}

template <class T, int kColumns>
struct Wgmma {
  static void from_shared(float (&)[kColumns / 8][4], unsigned long long a, unsigned long long b, bool add) {
    testing_cuda::Product step;
    testing_cuda::machine->read({{block_of(a), 64 * row_bytes(a)}}, step.a);
    testing_cuda::machine->read({{block_of(b), kColumns * row_bytes(b)}}, step.b);
    add_step(testing_cuda::machine->scores(), step, add);
  }
  static void from_registers(float (&)[kColumns / 8][4], const unsigned (&)[4], unsigned long long b,
                             bool = true) {
    std::vector<std::pair<unsigned, unsigned>> blocks;  // of 64 columns, or strips of 8, 16 rows of each
    const unsigned columns = in_strips(b) ? 8 : 64;
    const auto stride = static_cast<unsigned>(b >> (in_strips(b) ? 32 : 16) & 0x3fff) * 16;
    for (unsigned column = 0; column < kColumns; column += columns)
      blocks.emplace_back(address_of(b) + column / columns * stride, 16 * 2 * columns);
    testing_cuda::Product step;
    testing_cuda::machine->read(blocks, step.b);
    auto& outputs = testing_cuda::machine->outputs();
    add_step(outputs, step, !outputs.empty() && outputs.back().b == step.b);
  }

 private:
  static unsigned address_of(unsigned long long descriptor) {
    return static_cast<unsigned>(descriptor & 0x3fff) * 16;
  }
  static bool in_strips(unsigned long long descriptor) { return descriptor >> 62 == 0; }  // not swizzled
  // Of both strips.
  static unsigned row_bytes(unsigned long long descriptor) { return in_strips(descriptor) ? 32 : 128; }
  // Steps begin inside the first of its rows.
  static unsigned block_of(unsigned long long descriptor) { return address_of(descriptor) / 1024 * 1024; }

  static void add_step(std::vector<testing_cuda::Product>& products, const testing_cuda::Product& step,
                       bool add) {
    if (!add) products.push_back(step);
    if (products.back().a != step.a || products.back().b != step.b) products.back() = {};
    ++products.back().steps;
  }
};

}  // namespace tessera::cuda::ptx
