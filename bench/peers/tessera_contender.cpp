// Tessera, called through its C interface as any user calls it.
#include <omp.h>

#include <stdexcept>

#include "problem.hpp"

namespace tessera::peers {
namespace {

std::string name_of(const Job& job) {
  return std::string("Tessera ") + tessera_dtype_name(job.inputs->dtype) +
         (job.shape.causal ? " causal" : "");
}

}  // namespace

std::unique_ptr<Contender> make_tessera(const Job& job) {
  const Shape& s = job.shape;
  const tessera_dtype dtype = job.inputs->dtype;
  auto c = std::make_unique<Contender>();
  c->name = name_of(job);
  c->dtype = dtype;
  c->ours = true;
  c->shape = s;
  c->output =
      Buffer(static_cast<std::size_t>(s.query_rows() * s.dim) * tessera_dtype_size(dtype), Pages::ordinary);

  tessera_attention problem = TESSERA_ATTENTION_INIT;
  problem.query = tessera_tensor_4d(job.inputs->query.data(), dtype, s.batch, s.heads, s.queries, s.dim);
  problem.key = tessera_tensor_4d(job.inputs->key.data(), dtype, s.batch, s.kv_heads, s.keys, s.dim);
  problem.value = tessera_tensor_4d(job.inputs->value.data(), dtype, s.batch, s.kv_heads, s.keys, s.dim);
  problem.output = tessera_tensor_4d(c->output.data(), dtype, s.batch, s.heads, s.queries, s.dim);
  if (s.causal) {
    problem.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
    problem.mask.right = 0;
  }
  tessera_device device = TESSERA_DEVICE_INIT;
  device.threads = job.threads;

  tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
  const bool planned = tessera_plan(&problem, &device, &plan) == TESSERA_OK;
  c->ways.push_back({planned ? plan.kernel : "", [threads = job.threads] { omp_set_num_threads(threads); },
                     [problem, device] {
                       if (tessera_attend(&problem, &device) != TESSERA_OK)
                         throw std::runtime_error(tessera_last_error());
                     }});
  return c;
}

}  // namespace tessera::peers
