// A backend of this library with other rows in the kernel table: for programs that bring their own list of
// backends in place of src/backends.cpp.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/backend.hpp"

namespace tessera::testing_rows {

class OtherRows final : public core::Backend {
 public:
  OtherRows(const core::Backend& real, std::vector<core::Kernel> rows)
      : real_(real), rows_(std::move(rows)) {}

  tessera_device_kind kind() const override { return real_.kind(); }
  std::string_view name() const override { return real_.name(); }
  std::vector<core::Kernel> kernels() const override { return rows_; }
  core::Status check_request(const tessera_device& request) const override {
    return real_.check_request(request);
  }
  const core::Hardware* find(const tessera_device& request, std::string* why) const override {
    return real_.find(request, why);
  }
  int state(const tessera_device& request) const override { return real_.state(request); }
  core::Status prepare_append(const core::Problem& problem, const core::Device& device,
                              std::shared_ptr<const core::Prepared> attend,
                              std::shared_ptr<const core::Prepared>* out) const override {
    return real_.prepare_append(problem, device, std::move(attend), out);
  }
  core::Status check_memory(const core::Addresses& at, const tessera_device& request) const override {
    return real_.check_memory(at, request);
  }
  core::Status quantise(const codes::Problem& problem, const tessera_device& request) const override {
    return real_.quantise(problem, request);
  }

 private:
  const core::Backend& real_;
  std::vector<core::Kernel> rows_;
};

}  // namespace tessera::testing_rows
