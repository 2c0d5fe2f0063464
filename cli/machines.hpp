// The data table behind `tessera roofline --gpu`: published peak rates of GPUs.
#pragma once

#include <tessera/tessera.h>

#include <string>
#include <string_view>
#include <vector>

namespace tessera::cli {

struct Gpu {
  std::string_view name;
  std::string_view aliases;  // separated by commas
  std::string_view arch;     // "sm_89"
  int sms = 0;
  double clock_ghz = 0;  // boost clock that the peak rates are quoted at
  // Dense rates with f32 accumulation, TFLOP/s; 0 where the chip has none.
  double f16_tflops = 0;
  double bf16_tflops = 0;
  double f8_tflops = 0;
  double f32_tflops = 0;  // ordinary f32 arithmetic, not TF32
  double memory_gbps = 0;
  double l2_mb = 0;
  int exps_per_clock_per_sm = 16;

  [[nodiscard]] double tflops(tessera_dtype dtype) const;
  [[nodiscard]] double exps_per_s() const { return sms * clock_ghz * 1e9 * exps_per_clock_per_sm; }
};

const std::vector<Gpu>& gpus();

// By name or alias, whatever the case, spaces, dashes and underscores. Null if unknown.
const Gpu* find_gpu(std::string_view name);
// By what a driver calls it ("NVIDIA H100 80GB HBM3"): the entry most of whose words are in the name.
const Gpu* match_gpu(std::string_view driver_name);

}  // namespace tessera::cli
