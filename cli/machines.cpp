// GPUs and their limits as published: data sheets of the T4, A10, A100, L4, L40S, H100, H200 and B200,
// architecture papers for the GeForce cards, SM counts and L2. The L2 sizes of L40S and B200 are the least
// certain: publications disagree. Data sheets quote many rates "with sparsity": halved
// here. GeForce cards run f16 with f32 accumulation at half the rate of f16 accumulation; the
// f32-accumulation rate is given, because that is what exact attention uses. The exponential unit (MUFU)
// takes 16 a clock and SM on every arch listed (CUDA programming guide, throughput of native arithmetic
// instructions).
#include "cli/machines.hpp"

#include <algorithm>
#include <cctype>

namespace tessera::cli {
namespace {

std::string squashed(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && c != '-' && c != '_')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// "NVIDIA A100-SXM4-80GB" has the words nvidia, a100, sxm4 and 80gb.
std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (separators.find(c) == std::string_view::npos)
      out.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!out.back().empty())
      out.emplace_back();
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

constexpr std::string_view kWordEnds = " -_";

}  // namespace

double Gpu::tflops(tessera_dtype dtype) const {
  switch (dtype) {
    case TESSERA_F32:
      return f32_tflops;
    case TESSERA_F16:
      return f16_tflops;
    case TESSERA_BF16:
      return bf16_tflops;
    case TESSERA_F8E4M3:
    case TESSERA_F8E5M2:
      return f8_tflops;
    default:
      return 0;
  }
}

const std::vector<Gpu>& gpus() {
  // clang-format off
  static const std::vector<Gpu> table = {
      // name             aliases                    arch      SMs  GHz     f16    bf16    f8     f32   GB/s    L2 MB
      {"T4",              "",                        "sm_75",   40, 1.590,    65,      0,     0,   8.1,   320,   4},
      {"A10",             "",                        "sm_86",   72, 1.695,   125,    125,     0,  31.2,   600,   6},
      {"A100 40GB",       "A100-SXM4-40GB",          "sm_80",  108, 1.410,   312,    312,     0,  19.5,  1555,  40},
      {"A100 80GB",       "A100,A100-SXM4-80GB",     "sm_80",  108, 1.410,   312,    312,     0,  19.5,  2039,  40},
      {"RTX 3090",        "3090",                    "sm_86",   82, 1.695,    71,     71,     0,  35.6,   936,   6},
      {"L4",              "",                        "sm_89",   58, 2.040,   121,    121,   242,  30.3,   300,  48},
      {"L40S",            "",                        "sm_89",  142, 2.520,   362,    362,   733,  91.6,   864,  96},
      {"RTX 4090",        "4090",                    "sm_89",  128, 2.520, 165.2,  165.2, 330.3,  82.6,  1008,  72},
      {"RTX 5090",        "5090",                    "sm_120", 170, 2.407, 209.5,  209.5,   419, 104.8,  1792,  96},
      {"H100 PCIe",       "",                        "sm_90",  114, 1.620,   756,    756,  1513,  51.2,  2039,  50},
      {"H100 SXM",        "H100,H100 SXM5",          "sm_90",  132, 1.830,   989,    989,  1979,  66.9,  3352,  50},
      {"H200",            "H200 SXM",                "sm_90",  132, 1.830,   989,    989,  1979,  66.9,  4800,  50},
      {"B200",            "",                        "sm_100", 148, 1.850,  2250,   2250,  4500,    75,  8000, 126},
  };
  // clang-format on
  return table;
}

const Gpu* find_gpu(std::string_view name) {
  const std::string wanted = squashed(name);
  for (const Gpu& gpu : gpus()) {
    if (squashed(gpu.name) == wanted) return &gpu;
    std::string_view rest = gpu.aliases;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      if (squashed(rest.substr(0, comma)) == wanted) return &gpu;
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return nullptr;
}

const Gpu* match_gpu(std::string_view driver_name) {
  const std::vector<std::string> words = split(driver_name, kWordEnds);
  const auto among = [&](const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  const Gpu* best = nullptr;
  std::size_t most = 0;
  for (const Gpu& gpu : gpus()) {
    std::vector<std::string> names = split(gpu.aliases, ",");
    names.emplace_back(gpu.name);
    for (const std::string& name : names) {
      const std::vector<std::string> wanted = split(name, kWordEnds);
      if (wanted.size() > most && std::all_of(wanted.begin(), wanted.end(), among))
        best = &gpu, most = wanted.size();
    }
  }
  return best;
}

}  // namespace tessera::cli
