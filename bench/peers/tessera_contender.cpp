// Tessera, called through its C interface as any user calls it.
#include <omp.h>

#include <stdexcept>

#include "problem.hpp"

namespace tessera::peers {

std::unique_ptr<Contender> make_tessera(const Job& job) {
  const Case& shape = job.shape;
  auto c = std::make_unique<Contender>();
  c->name = std::string("Tessera ") + tessera_dtype_name(shape.dtype) +
            (shape.align != TESSERA_ALIGN_NONE ? " causal" : "");
  c->ours = true;
  c->shape = shape;
  c->output = Buffer(job.inputs->query.bytes(), Pages::ordinary);
  const tessera_attention problem = problem_of(shape, *job.inputs, c->output.data());
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
