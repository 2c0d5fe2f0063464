// Quantisation behind the extern "C" shell.
#include "quantise/quantise.hpp"

#include <fmt/format.h>
#include <tessera/tessera.h>

#include <string_view>
#include <utility>

#include "api/shell.hpp"
#include "core/plan.hpp"
#include "cpu/host_memory.hpp"

namespace tessera::api {
namespace {

core::Status check_host_memory(const tessera_quantisation& q) {
  const std::pair<std::string_view, const tessera_tensor&> all[] = {
      {"input", q.input}, {"output", q.output}, {"scales", q.scales}, {"means", q.means}};
  for (const auto& [name, tensor] : all)
    if (core::Status s = cpu::check_on_host(name, tensor.data); !s.ok()) return s;
  return {};
}

core::Status quantise(const tessera_quantisation& request, const tessera_device& device) {
  codes::Problem problem;
  if (core::Status s = core::check_device(device); !s.ok()) return s;
  if (core::Status s = codes::validate(request, &problem); !s.ok()) return s;
  if (device.kind != TESSERA_CPU) {
    return core::unsupported(fmt::format(
        "device.kind is {}: quantising is done on the CPU (device.kind 1) in this version", device.kind));
  }
  if (device.kernel != nullptr) {
    return core::invalid(
        fmt::format("device.kernel is {}, but quantising has no kernels to choose from; null is accepted",
                    device.kernel));
  }
  if (core::Status s = check_host_memory(request); !s.ok()) return s;
  return codes::quantise_on_cpu(problem, device);
}

}  // namespace
}  // namespace tessera::api

extern "C" tessera_status tessera_quantise(const tessera_quantisation* quantisation,
                                           const tessera_device* device) {
  using namespace tessera;
  return api::guarded([&]() -> core::Status {
    tessera_quantisation request = TESSERA_QUANTISATION_INIT;
    tessera_device on = TESSERA_DEVICE_INIT;
    if (core::Status s = api::copy_struct("quantisation", quantisation, &request); !s.ok()) return s;
    if (core::Status s = api::copy_struct("device", device, &on); !s.ok()) return s;
    return api::quantise(request, on);
  });
}
