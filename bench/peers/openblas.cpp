// Attention from OpenBLAS, unfused: one K/V head at a time, its whole score matrix from cblas_sgemm,
// a vectorised softmax over the rows, the product with V from cblas_sgemm. The query heads that share a
// K/V head are rows of one matrix. The division by the row sum is left to the small output.
//
// Two ways: a thread per head with single-threaded BLAS (no barriers inside a head), or one head at a
// time with the threads inside BLAS (the better one only where heads are few and large).
#include <cblas.h>
#include <omp.h>

#include <cmath>
#include <vector>

#include "problem.hpp"
#include "simd.hpp"

namespace tessera::peers {
namespace {

struct Unfused {
  Job job;
  float* output = nullptr;
  std::vector<Buffer> scores;  // one for each thread that works on a head of its own

  void softmax_row(float* scores_row, float* sum) const {
    *sum = simd::exp_and_sum(scores_row, job.shape.keys, simd::row_max(scores_row, job.shape.keys));
  }
  void score_product(std::int64_t head, float* s) const;
  void value_product(std::int64_t head, const float* s) const;
  void thread_per_head();
  void threads_inside();
};

void Unfused::score_product(std::int64_t head, float* s) const {
  const Case& shape = job.shape;
  const auto rows = static_cast<blasint>(packed_rows(shape));
  const auto keys = static_cast<blasint>(shape.keys);
  const auto dim = static_cast<blasint>(shape.dim);
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.dim));
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, keys, dim, scale,
              job.inputs->query.floats() + head * packed_rows(shape) * shape.dim, dim,
              job.inputs->key.floats() + head * shape.keys * shape.dim, dim, 0.0f, s, keys);
}

void Unfused::value_product(std::int64_t head, const float* s) const {
  const Case& shape = job.shape;
  const auto rows = static_cast<blasint>(packed_rows(shape));
  const auto keys = static_cast<blasint>(shape.keys);
  const auto dim = static_cast<blasint>(shape.dim);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, dim, keys, 1.0f, s, keys,
              job.inputs->value.floats() + head * shape.keys * shape.dim, dim, 0.0f,
              output + head * packed_rows(shape) * shape.dim, dim);
}

void Unfused::thread_per_head() {
  const Case& shape = job.shape;
  const std::int64_t rows = packed_rows(shape);
#pragma omp parallel num_threads(job.threads)
  {
    float* s = scores[static_cast<std::size_t>(omp_get_thread_num())].floats();
    std::vector<float> sums(static_cast<std::size_t>(rows));
#pragma omp for schedule(static)
    for (std::int64_t head = 0; head < kv_count(shape); ++head) {
      score_product(head, s);
      for (std::int64_t r = 0; r < rows; ++r)
        softmax_row(s + r * shape.keys, &sums[static_cast<std::size_t>(r)]);
      value_product(head, s);
      float* o = output + head * rows * shape.dim;
      for (std::int64_t r = 0; r < rows; ++r)
        simd::multiply(o + r * shape.dim, shape.dim, 1.0f / sums[static_cast<std::size_t>(r)]);
    }
  }
}

void Unfused::threads_inside() {
  const Case& shape = job.shape;
  const std::int64_t rows = packed_rows(shape);
  std::vector<float> sums(static_cast<std::size_t>(rows));
  float* s = scores[0].floats();
  for (std::int64_t head = 0; head < kv_count(shape); ++head) {
    score_product(head, s);
#pragma omp parallel for num_threads(job.threads) schedule(static)
    for (std::int64_t r = 0; r < rows; ++r)
      softmax_row(s + r * shape.keys, &sums[static_cast<std::size_t>(r)]);
    value_product(head, s);
    float* o = output + head * rows * shape.dim;
    for (std::int64_t r = 0; r < rows; ++r)
      simd::multiply(o + r * shape.dim, shape.dim, 1.0f / sums[static_cast<std::size_t>(r)]);
  }
}

}  // namespace

std::unique_ptr<Contender> make_openblas(const Job& job) {
  auto c = std::make_unique<Contender>();
  c->name = "OpenBLAS";
  c->shape = job.shape;
  c->output = Buffer(job.inputs->query.bytes(), Pages::ordinary);
  auto unfused = std::make_shared<Unfused>();
  unfused->job = job;
  unfused->output = c->output.floats();
  for (int t = 0; t < job.threads; ++t)
    unfused->scores.emplace_back(
        static_cast<std::size_t>(packed_rows(job.shape) * job.shape.keys) * sizeof(float), Pages::huge);
  c->ways.push_back({"a thread per head",
                     [threads = job.threads] {
                       omp_set_num_threads(threads);
                       openblas_set_num_threads(1);
                     },
                     [unfused] { unfused->thread_per_head(); }});
  if (job.threads > 1) {
    c->ways.push_back({"threads inside BLAS",
                       [threads = job.threads] {
                         omp_set_num_threads(threads);
                         openblas_set_num_threads(threads);
                       },
                       [unfused] { unfused->threads_inside(); }});
  }
  return c;
}

std::string openblas_version() {
  return std::string(openblas_get_config()) + ", kernels for " + openblas_get_corename();
}

}  // namespace tessera::peers
