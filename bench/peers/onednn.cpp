// Attention from oneDNN's primitives, unfused: scores = scale * Q K^T (matmul), softmax in place,
// output = P V (matmul). Batched over batch x K/V heads; the query heads that share a K/V head are
// rows of one matrix, which their contiguous layout gives for free. K is read through transposed
// strides, so nothing is reordered; primitives, memories and scratch are made once.
//
// Two ways: all heads in one primitive, or in slices whose scores stay inside the cache.
#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "problem.hpp"

namespace tessera::peers {
namespace {

using dnnl::memory;

constexpr std::int64_t kSliceScoreBytes = 16 << 20;

class Attention {
 public:
  Attention(const Job& job, float* output, std::int64_t heads_at_once);
  void run();

 private:
  void set_up_primitives(std::int64_t rows, std::int64_t keys, std::int64_t dim);

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Buffer scores_, work_;
  std::int64_t heads_, heads_at_once_, query_step_, key_step_;
  float *query_, *key_, *value_, *output_;
  dnnl::matmul score_product_, value_product_;
  dnnl::softmax_forward softmax_;
  memory query_memory_, key_memory_, value_memory_, output_memory_, score_memory_, work_memory_;
};

Attention::Attention(const Job& job, float* output, std::int64_t heads_at_once)
    : heads_(kv_count(job.shape)),
      heads_at_once_(heads_at_once),
      query_step_(packed_rows(job.shape) * job.shape.dim),
      key_step_(job.shape.keys * job.shape.dim),
      query_(job.inputs->query.floats()),
      key_(job.inputs->key.floats()),
      value_(job.inputs->value.floats()),
      output_(output) {
  set_up_primitives(packed_rows(job.shape), job.shape.keys, job.shape.dim);
}

void Attention::set_up_primitives(std::int64_t rows, std::int64_t keys, std::int64_t dim) {
  const auto f32 = memory::data_type::f32;
  const std::int64_t n = heads_at_once_;
  const memory::desc query({n, rows, dim}, f32, memory::format_tag::abc);
  const memory::desc key_transposed({n, dim, keys}, f32, memory::format_tag::acb);
  const memory::desc value({n, keys, dim}, f32, memory::format_tag::abc);
  const memory::desc scores({n, rows, keys}, f32, memory::format_tag::abc);

  dnnl::primitive_attr scaled;
  scaled.set_output_scales(0, {1.0f / std::sqrt(static_cast<float>(dim))});
  scaled.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::primitive_attr plain;
  plain.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::primitive_desc first({query, key_transposed, scores}, scaled, engine_);
  const dnnl::softmax_forward::primitive_desc middle({dnnl::prop_kind::forward_inference, scores, 2}, plain,
                                                     engine_);
  const dnnl::matmul::primitive_desc second({scores, value, query}, plain, engine_);

  const std::size_t work_bytes =
      std::max({first.scratchpad_desc().get_size(), middle.scratchpad_desc().get_size(),
                second.scratchpad_desc().get_size(), std::size_t{64}});
  scores_ = Buffer(scores.get_size(), Pages::huge);
  work_ = Buffer(work_bytes, Pages::huge);
  score_product_ = dnnl::matmul(first);
  softmax_ = dnnl::softmax_forward(middle);
  value_product_ = dnnl::matmul(second);
  query_memory_ = memory(query, engine_, query_);
  key_memory_ = memory(key_transposed, engine_, key_);
  value_memory_ = memory(value, engine_, value_);
  output_memory_ = memory(query, engine_, output_);
  score_memory_ = memory(scores, engine_, scores_.data());
  const auto bytes = static_cast<memory::dim>(work_bytes);
  work_memory_ = memory({{bytes}, memory::data_type::u8, memory::format_tag::a}, engine_, work_.data());
}

void Attention::run() {
  for (std::int64_t h = 0; h < heads_; h += heads_at_once_) {
    query_memory_.set_data_handle(query_ + h * query_step_, stream_);
    key_memory_.set_data_handle(key_ + h * key_step_, stream_);
    value_memory_.set_data_handle(value_ + h * key_step_, stream_);
    output_memory_.set_data_handle(output_ + h * query_step_, stream_);
    score_product_.execute(stream_, {{DNNL_ARG_SRC, query_memory_},
                                     {DNNL_ARG_WEIGHTS, key_memory_},
                                     {DNNL_ARG_DST, score_memory_},
                                     {DNNL_ARG_SCRATCHPAD, work_memory_}});
    softmax_.execute(
        stream_,
        {{DNNL_ARG_SRC, score_memory_}, {DNNL_ARG_DST, score_memory_}, {DNNL_ARG_SCRATCHPAD, work_memory_}});
    value_product_.execute(stream_, {{DNNL_ARG_SRC, score_memory_},
                                     {DNNL_ARG_WEIGHTS, value_memory_},
                                     {DNNL_ARG_DST, output_memory_},
                                     {DNNL_ARG_SCRATCHPAD, work_memory_}});
  }
  stream_.wait();
}

// The most heads, a divisor of all of them and a multiple of the threads where there is one, whose
// scores fit a slice.
std::int64_t heads_per_slice(const Case& shape, int threads) {
  const std::int64_t head_bytes = packed_rows(shape) * shape.keys * 4;
  std::int64_t best = 1;
  for (std::int64_t n = 1; n <= kv_count(shape); ++n) {
    if (kv_count(shape) % n != 0 || (n > 1 && n * head_bytes > kSliceScoreBytes)) continue;
    if (n % threads == 0 || best % threads != 0) best = n;
  }
  return best;
}

}  // namespace

std::unique_ptr<Contender> make_onednn(const Job& job) {
  auto c = std::make_unique<Contender>();
  c->name = "oneDNN";
  c->shape = job.shape;
  c->output = Buffer(job.inputs->query.bytes(), Pages::ordinary);
  omp_set_num_threads(job.threads);  // oneDNN plans for the threads it sees when a primitive is made
  const auto add = [&](std::int64_t at_once) {
    auto attention = std::make_shared<Attention>(job, c->output.floats(), at_once);
    c->ways.push_back({fmt::format("{} of {} heads at once", at_once, kv_count(job.shape)),
                       [threads = job.threads] { omp_set_num_threads(threads); },
                       [attention] { attention->run(); }});
  };
  add(kv_count(job.shape));
  for (const std::int64_t n : {heads_per_slice(job.shape, job.threads), std::int64_t{1}})
    if (n < kv_count(job.shape) && c->ways.size() < 3) add(n);
  return c;
}

std::string onednn_version() {
  const dnnl::version_t* v = dnnl::version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace tessera::peers
