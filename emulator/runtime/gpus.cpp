#include "emulator/runtime/gpus.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>

namespace emulator::runtime {
namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

// From what the GPUs say of themselves (deviceQuery), and the CUDA programming guide's table of compute
// capabilities.
const Gpu kGpus[] = {{.key = "h200",
                      .description = {.name = "NVIDIA H200 (emulated)",
                                      .arch = 90,
                                      .multiprocessors = 132,
                                      .shared_bytes_per_block = 48 * kKiB,
                                      .shared_bytes_per_block_optin = 227 * kKiB,
                                      .shared_bytes_per_multiprocessor = 228 * kKiB,
                                      .global_bytes = 143156 * kMiB,
                                      .l2_bytes = 60 * kMiB,
                                      .persisting_l2_bytes = 39321600},
                      .registers_per_multiprocessor = 65536,
                      .threads_per_multiprocessor = 2048,
                      .blocks_per_multiprocessor = 32,
                      .l2_window_bytes = 128 * kMiB,
                      .clock_khz = 1980000,
                      .memory_clock_khz = 3201000,
                      .memory_bus_bits = 6144},
                     {.key = "l4",
                      .description = {.name = "NVIDIA L4 (emulated)",
                                      .arch = 89,
                                      .multiprocessors = 58,
                                      .shared_bytes_per_block = 48 * kKiB,
                                      .shared_bytes_per_block_optin = 99 * kKiB,
                                      .shared_bytes_per_multiprocessor = 100 * kKiB,
                                      .global_bytes = 22478 * kMiB,
                                      .l2_bytes = 48 * kMiB,
                                      .persisting_l2_bytes = 33 * kMiB},
                      .registers_per_multiprocessor = 65536,
                      .threads_per_multiprocessor = 1536,
                      .blocks_per_multiprocessor = 24,
                      .l2_window_bytes = 128 * kMiB,
                      .clock_khz = 2040000,
                      .memory_clock_khz = 6251000,
                      .memory_bus_bits = 192},
                     {.key = "a100",
                      .description = {.name = "NVIDIA A100 (emulated)",
                                      .arch = 80,
                                      .multiprocessors = 108,
                                      .shared_bytes_per_block = 48 * kKiB,
                                      .shared_bytes_per_block_optin = 163 * kKiB,
                                      .shared_bytes_per_multiprocessor = 164 * kKiB,
                                      .global_bytes = 81038 * kMiB,
                                      .l2_bytes = 40 * kMiB,
                                      .persisting_l2_bytes = 30 * kMiB},
                      .registers_per_multiprocessor = 65536,
                      .threads_per_multiprocessor = 2048,
                      .blocks_per_multiprocessor = 32,
                      .l2_window_bytes = 128 * kMiB,
                      .clock_khz = 1410000,
                      .memory_clock_khz = 1593000,
                      .memory_bus_bits = 5120}};

std::string text_of(const char* variable, const char* otherwise) {
  const char* const value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

// Leaves *out alone where the variable is not set.
template <class Number>
bool number_of(const char* variable, Number least, Number most, Number* out, std::string* why) {
  const std::string text = text_of(variable, "");
  if (text.empty()) return true;
  Number value{};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc{} && read.ptr == end && value >= least && value <= most) {
    *out = value;
    return true;
  }
  *why = std::string(variable) + " is '" + text + "'; accepted: " + std::to_string(least) + " to " +
         std::to_string(most);
  return false;
}

bool find(const std::string& key, Gpu* out, std::string* why) {
  std::string keys;
  for (const Gpu& gpu : kGpus) {
    if (gpu.key == key) {
      *out = gpu;
      return true;
    }
    keys += (keys.empty() ? "" : ", ") + std::string(gpu.key);
  }
  *why = "TESSERA_EMU_DEVICE is '" + key + "'; accepted: " + keys;
  return false;
}

}  // namespace

bool read_environment(Environment* out, std::string* why) {
#ifndef EMULATOR_PTX_INDEX
#define EMULATOR_PTX_INDEX ""
#endif
  constexpr int kMostSms = 1024, kMostThreads = 1024;
  out->ptx_index = text_of("TESSERA_EMU_PTX", EMULATOR_PTX_INDEX);
  out->coverage = text_of("TESSERA_EMU_COVERAGE", "");
  out->settings.speed = text_of("TESSERA_EMU_SPEED", "");
  return find(text_of("TESSERA_EMU_DEVICE", "h200"), &out->gpu, why) &&
         number_of("TESSERA_EMU_SMS", 1, kMostSms, &out->gpu.description.multiprocessors, why) &&
         number_of<std::uint64_t>("TESSERA_EMU_SEED", 0, std::numeric_limits<std::uint64_t>::max(),
                                  &out->settings.seed, why) &&
         number_of("TESSERA_EMU_THREADS", 0, kMostThreads, &out->settings.threads, why);
}

}  // namespace emulator::runtime
