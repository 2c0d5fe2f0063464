// What the core asks of a kind of device. cpu/ and cuda/ answer, and the core includes neither: backends(),
// in src/backends.cpp, is the one list of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/kernel.hpp"

namespace tessera::codes {
struct Problem;
}

namespace tessera::core {

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual tessera_device_kind kind() const = 0;
  [[nodiscard]] virtual std::string_view name() const = 0;  // "cpu"
  // Its rows of the kernel table, best first; empty in a build without them.
  [[nodiscard]] virtual std::vector<Kernel> kernels() const = 0;

  // The fields of a request that only this kind of device can judge.
  [[nodiscard]] virtual Status check_request(const tessera_device& request) const = 0;
  // The device itself, or null and why it is not here.
  virtual const Hardware* find(const tessera_device& request, std::string* why) const = 0;
  // A number that tells plans apart where the request alone does not: on a CPU, how many threads it stands
  // for at the moment.
  [[nodiscard]] virtual int state(const tessera_device&) const { return 0; }
  // `attend`, made for after_append(problem), with what goes before it (core/append.hpp).
  virtual Status prepare_append(const Problem& problem, const Device& device,
                                std::shared_ptr<const Prepared> attend,
                                std::shared_ptr<const Prepared>* out) const = 0;
  // Every tensor's memory, the workspace's and the stream can be used by the device.
  [[nodiscard]] virtual Status check_memory(const Addresses& at, const tessera_device& request) const = 0;

  // tessera_quantise, of a request that passed validation and check_device.
  [[nodiscard]] virtual Status quantise(const codes::Problem& problem,
                                        const tessera_device& request) const = 0;
};

const std::vector<const Backend*>& backends();
const Backend* backend_of(tessera_device_kind kind);  // null if there is none

}  // namespace tessera::core
