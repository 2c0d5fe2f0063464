// PyTorch-style tiles on OpenBLAS: the tiled online softmax that PyTorch 2 runs on CPUs, written here
// over cblas_sgemm. One query head at a time (heads that share K/V are not packed, as PyTorch does not
// pack them), query blocks of 32, 64 or 256 rows by length, key blocks of 512, threads over
// batch x heads x query blocks. A single query row may also go through sgemv, which PyTorch does not
// do: where it is faster, it is what is timed.
#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "problem.hpp"
#include "simd.hpp"

namespace tessera::peers {
namespace {

constexpr std::int64_t kKeyBlock = 512;

std::int64_t query_block(std::int64_t queries) { return queries >= 768 ? 256 : queries >= 192 ? 64 : 32; }

struct Tile {
  const float *query, *key, *value;
  float *scores, *output;
  blasint rows, keys, dim;
};

void score_product(const Tile& t, float scale, bool use_gemv) {
  if (use_gemv)
    cblas_sgemv(CblasRowMajor, CblasNoTrans, t.keys, t.dim, scale, t.key, t.dim, t.query, 1, 0.0f, t.scores,
                1);
  else
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t.rows, t.keys, t.dim, scale, t.query, t.dim, t.key,
                t.dim, 0.0f, t.scores, t.keys);
}

void value_product(const Tile& t, bool first, bool use_gemv) {
  const float keep = first ? 0.0f : 1.0f;
  if (use_gemv)
    cblas_sgemv(CblasRowMajor, CblasTrans, t.keys, t.dim, 1.0f, t.value, t.dim, t.scores, 1, keep, t.output,
                1);
  else
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t.rows, t.dim, t.keys, 1.0f, t.scores, t.keys,
                t.value, t.dim, keep, t.output, t.dim);
}

struct RowState {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;
};

// One row of one tile: exponentials against the new maximum, the old sum and output rescaled to it.
void update_row(float* scores, std::int64_t keys, float* output, std::int64_t dim, bool first,
                RowState* row) {
  const float max = std::max(row->max, simd::row_max(scores, keys));
  const float sum = simd::exp_and_sum(scores, keys, max);
  const float rescale = std::exp(row->max - max);
  row->sum = row->sum * rescale + sum;
  row->max = max;
  if (!first) simd::multiply(output, dim, rescale);
}

struct Tiles {
  Job job;
  float* output = nullptr;
  bool use_gemv = false;
  std::vector<Buffer> scores;  // one tile for each thread

  void block(std::int64_t head, std::int64_t start, float* s, std::vector<RowState>* state) const;
  void run();
};

void Tiles::block(std::int64_t head, std::int64_t start, float* s, std::vector<RowState>* state) const {
  const Case& shape = job.shape;
  const std::int64_t rows = std::min(query_block(shape.queries), shape.queries - start);
  const std::int64_t kv_offset = head / group(shape) * shape.keys * shape.dim;
  const std::int64_t row_offset = (head * shape.queries + start) * shape.dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.dim));
  std::fill(state->begin(), state->end(), RowState{});
  for (std::int64_t k = 0; k < shape.keys; k += kKeyBlock) {
    const std::int64_t keys = std::min(kKeyBlock, shape.keys - k);
    const Tile tile{job.inputs->query.floats() + row_offset,
                    job.inputs->key.floats() + kv_offset + k * shape.dim,
                    job.inputs->value.floats() + kv_offset + k * shape.dim,
                    s,
                    output + row_offset,
                    static_cast<blasint>(rows),
                    static_cast<blasint>(keys),
                    static_cast<blasint>(shape.dim)};
    score_product(tile, scale, use_gemv);
    for (std::int64_t r = 0; r < rows; ++r)
      update_row(s + r * keys, keys, tile.output + r * shape.dim, shape.dim, k == 0,
                 &(*state)[static_cast<std::size_t>(r)]);
    value_product(tile, k == 0, use_gemv);
  }
  for (std::int64_t r = 0; r < rows; ++r)
    simd::multiply(output + row_offset + r * shape.dim, shape.dim,
                   1.0f / (*state)[static_cast<std::size_t>(r)].sum);
}

void Tiles::run() {
  const Case& shape = job.shape;
  const std::int64_t rows = query_block(shape.queries);
  const std::int64_t blocks = (shape.queries + rows - 1) / rows;
  const std::int64_t heads = shape.batch * shape.heads;
#pragma omp parallel num_threads(job.threads)
  {
    float* s = scores[static_cast<std::size_t>(omp_get_thread_num())].floats();
    std::vector<RowState> state(static_cast<std::size_t>(rows));
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < heads * blocks; ++i) block(i / blocks, i % blocks * rows, s, &state);
  }
}

}  // namespace

std::unique_ptr<Contender> make_tiles(const Job& job) {
  auto c = std::make_unique<Contender>();
  c->name = "tiles on OpenBLAS";
  c->shape = job.shape;
  c->output = Buffer(job.inputs->query.bytes(), Pages::ordinary);
  const auto add = [&](const char* how, bool use_gemv) {
    auto tiles = std::make_shared<Tiles>();
    tiles->job = job;
    tiles->output = c->output.floats();
    tiles->use_gemv = use_gemv;
    for (int t = 0; t < job.threads; ++t)
      tiles->scores.emplace_back(static_cast<std::size_t>(256 * kKeyBlock) * sizeof(float), Pages::huge);
    c->ways.push_back({how,
                       [threads = job.threads] {
                         omp_set_num_threads(threads);
                         openblas_set_num_threads(1);
                       },
                       [tiles] { tiles->run(); }});
  };
  add("sgemm", false);
  if (job.shape.queries == 1) add("sgemv", true);
  return c;
}

}  // namespace tessera::peers
