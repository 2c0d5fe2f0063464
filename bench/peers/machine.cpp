#include "machine.hpp"

#include <omp.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

#include "cli/common.hpp"
#include "cli/probe.hpp"
#include "simd.hpp"

#if defined(TESSERA_PEER_OPENBLAS)
#include <cblas.h>
#elif defined(TESSERA_PEER_ONEDNN)
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace tessera::peers {
namespace {

constexpr std::int64_t kSgemmSize = 2048;
constexpr std::size_t kReadBytes = std::size_t{1} << 29;  // 512 MiB, sixteen times a large L3 slice
constexpr std::int64_t kFmaRounds = 4'000'000;

#if defined(TESSERA_PEER_OPENBLAS)
void square_sgemm(const float* a, const float* b, float* c) {
  const auto n = static_cast<blasint>(kSgemmSize);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
}
void set_sgemm_threads(int threads) { openblas_set_num_threads(threads); }
constexpr bool kHasSgemm = true;
#elif defined(TESSERA_PEER_ONEDNN)
void square_sgemm(const float* a, const float* b, float* c) {
  const dnnl_dim_t n = kSgemmSize;
  (void)dnnl_sgemm('N', 'N', n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
}
void set_sgemm_threads(int) {}
constexpr bool kHasSgemm = true;
#else
void square_sgemm(const float*, const float*, float*) {}
void set_sgemm_threads(int) {}
constexpr bool kHasSgemm = false;
#endif

Buffer filled(std::int64_t n, Pages pages, int threads) {
  Buffer b(static_cast<std::size_t>(n) * sizeof(float), pages);
  float* x = b.floats();
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 1021) * 1e-3f - 0.5f;
  return b;
}

double rate(const Limit& limit, const Effort& effort) {
  return limit.work / time_in_rounds({&limit.way}, effort)[0].p50_s() * 1e-9;
}

double fma_gflops(int threads, const Effort& effort) {
  double flops = 0;
  const Way way{"", [threads] { omp_set_num_threads(threads); },
                [&flops, threads] {
                  double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
                  total += cli::probe().multiply_add(kFmaRounds);
                  flops = total;
                }};
  const double time_s = time_in_rounds({&way}, effort)[0].p50_s();
  return flops / time_s * 1e-9;
}

std::string as_folder_name(const std::string& text) {
  std::string slug;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0)
      slug += static_cast<char>(std::tolower(u));
    else if (!slug.empty() && slug.back() != '-')
      slug += '-';
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug;
}

}  // namespace

std::optional<Limit> sgemm_limit(int threads) {
  if (!kHasSgemm) return std::nullopt;
  struct Matrices {
    Buffer a, b, c;
  };
  const std::int64_t n = kSgemmSize * kSgemmSize;
  auto m = std::make_shared<Matrices>(Matrices{
      filled(n, Pages::huge, threads), filled(n, Pages::huge, threads), filled(n, Pages::huge, threads)});
  Limit limit;
  limit.name = "SGEMM";
  limit.work = 2.0 * static_cast<double>(n) * static_cast<double>(kSgemmSize);
  limit.way = {"",
               [threads] {
                 omp_set_num_threads(threads);
                 set_sgemm_threads(threads);
               },
               [m] { square_sgemm(m->a.floats(), m->b.floats(), m->c.floats()); }};
  return limit;
}

Limit read_limit(int threads, int streams, Pages pages) {
  auto data = std::make_shared<Buffer>(filled(kReadBytes / sizeof(float), pages, threads));
  Limit limit;
  limit.name = "read";
  limit.work = static_cast<double>(kReadBytes);
  limit.way = {"", [threads] { omp_set_num_threads(threads); },
               [data, threads, streams] {
                 std::uint64_t mix = 0;
#pragma omp parallel num_threads(threads) reduction(^ : mix)
                 {
                   // Parts of whole 4 KiB pages for each stream; what a division leaves over is not worth a
                   // branch.
                   const std::size_t unit = std::size_t{4096} * static_cast<std::size_t>(streams);
                   const std::size_t part =
                       kReadBytes / static_cast<std::size_t>(omp_get_num_threads()) / unit * unit;
                   const auto* mine = static_cast<const unsigned char*>(data->data()) +
                                      static_cast<std::size_t>(omp_get_thread_num()) * part;
                   mix ^= cli::probe().read(mine, part, streams);
                 }
                 volatile std::uint64_t keep = mix;
                 (void)keep;
               }};
  return limit;
}

Rates measure_rates(int threads, const Effort& effort) {
  Rates r;
  r.threads = threads;
  if (const auto sgemm = sgemm_limit(threads)) r.sgemm_gflops = rate(*sgemm, effort);
  r.fma_gflops = fma_gflops(threads, effort);
  r.read_1_stream_ordinary_gbs = rate(read_limit(threads, 1, Pages::ordinary), effort);
  r.read_1_stream_huge_gbs = rate(read_limit(threads, 1, Pages::huge), effort);
  r.read_4_streams_huge_gbs = rate(read_limit(threads, 4, Pages::huge), effort);
  return r;
}

Host describe_host() {
  Host h;
  h.cpu = cli::this_machine().cpu;
  h.slug = as_folder_name(h.cpu);
  h.compiler = cli::compiler();
  h.instruction_set = simd::instruction_set();
  h.cores = cli::this_machine().cores;
  double load[1] = {0};
  if (getloadavg(load, 1) == 1) h.load_average = load[0];
  return h;
}

}  // namespace tessera::peers
