// What the CPU tests share: the kernels that run here, how much to test, and hands to change tensors with.
//
// TESSERA_TEST_SCALE multiplies the number of random cases (default 1, or 0.05 under a sanitizer);
// TESSERA_TEST_SEED starts another sequence of them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cases/gates.hpp"
#include "core/plan.hpp"
#include "oracle/oracle.hpp"
#include "tests/case_of.hpp"

namespace tessera::testing_cpu {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TESSERA_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESSERA_SANITIZED 1
#endif

inline double test_scale() {
  if (const char* text = std::getenv("TESSERA_TEST_SCALE")) return std::atof(text);
#if defined(TESSERA_SANITIZED)
  return 0.05;
#else
  return 1.0;
#endif
}

// At least one, so that no scale turns a test off.
inline int scaled(int count) { return std::max(1, static_cast<int>(count * test_scale())); }

inline std::uint64_t test_seed() {
  if (const char* text = std::getenv("TESSERA_TEST_SEED")) return std::strtoull(text, nullptr, 10);
  return 20261115;
}

// Devices that force one kernel each, for every CPU kernel this machine can run.
inline std::vector<tessera_device> kernels_here() {
  std::vector<tessera_device> out;
  for (const core::Kernel& kernel : core::kernels()) {
    tessera_device device = TESSERA_DEVICE_INIT;
    if (kernel.device != TESSERA_CPU || !core::missing(kernel, device).empty()) continue;
    device.kernel = kernel.name.data();  // names are literals
    out.push_back(device);
  }
  return out;
}

using testing_cases::case_of;

// Runs the kernel on the instance; the test fails if it refuses.
inline void attend(cases::Instance& instance, const tessera_device& device) {
  instance.poison_outputs();
  const std::string why = cases::attend_with_library(instance.problem(), device);
  ASSERT_EQ(why, "") << device.kernel << " on " << cases::words(instance.shape());
}

inline std::int64_t offset(const tessera_tensor& t, std::int64_t b, std::int64_t h, std::int64_t row) {
  return b * t.strides[0] + h * t.strides[1] + row * t.strides[2];
}

inline void set_row(const tessera_tensor& t, std::int64_t b, std::int64_t h, std::int64_t row, double value) {
  for (std::int64_t d = 0; d < t.shape[3]; ++d)
    oracle::store(t.data, t.dtype, offset(t, b, h, row) + d, value);
}

// Output and lse of one row, as bits.
inline std::vector<unsigned char> row_bits(const cases::Instance& instance, std::int64_t b, std::int64_t h,
                                           std::int64_t i) {
  const tessera_attention& p = instance.problem();
  const std::size_t size = tessera_dtype_size(p.output.dtype);
  const auto* o = static_cast<const unsigned char*>(p.output.data) +
                  static_cast<std::size_t>(offset(p.output, b, h, i)) * size;
  const auto* l =
      reinterpret_cast<const unsigned char*>(static_cast<const float*>(p.lse.data) + b * p.lse.strides[0] +
                                             h * p.lse.strides[1] + i * p.lse.strides[2]);
  std::vector<unsigned char> bits(o, o + static_cast<std::size_t>(p.output.shape[3]) * size);
  bits.insert(bits.end(), l, l + sizeof(float));
  return bits;
}

}  // namespace tessera::testing_cpu
