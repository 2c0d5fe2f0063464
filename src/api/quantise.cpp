// Quantisation behind the extern "C" shell.
#include "quantise/quantise.hpp"

#include <fmt/format.h>
#include <tessera/tessera.h>

#include "api/shell.hpp"
#include "core/backend.hpp"
#include "core/plan.hpp"

namespace tessera::api {
namespace {

core::Status quantise(const tessera_quantisation& request, const tessera_device& device) {
  codes::Problem problem;
  if (core::Status s = core::check_device(device); !s.ok()) return s;
  if (core::Status s = codes::validate(request, &problem); !s.ok()) return s;
  if (device.kernel != nullptr) {
    return core::invalid(
        fmt::format("device.kernel is {}, but quantising has no kernels to choose from; null is accepted",
                    device.kernel));
  }
  return core::backend_of(device.kind)->quantise(problem, device);
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
