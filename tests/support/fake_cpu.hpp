// A CPU without kernels of its own: for programs that bring their rows, in place of src/backends.cpp.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backend.hpp"

namespace tessera::testing_rows {

class FakeCpu final : public core::Backend {
 public:
  explicit FakeCpu(std::vector<core::Kernel> rows) : rows_(std::move(rows)) {}

  tessera_device_kind kind() const override { return TESSERA_CPU; }
  std::string_view name() const override { return "cpu"; }
  std::vector<core::Kernel> kernels() const override { return rows_; }
  core::Status check_request(const tessera_device&) const override { return {}; }
  const core::Hardware* find(const tessera_device&, std::string*) const override {
    static const core::Hardware none;
    return &none;
  }
  core::Status prepare_append(const core::Problem&, const core::Device&,
                              std::shared_ptr<const core::Prepared>,
                              std::shared_ptr<const core::Prepared>*) const override {
    return core::unsupported("this CPU is made up, and stores no new keys");
  }
  core::Status check_memory(const core::Addresses&, const tessera_device&) const override { return {}; }
  core::Status quantise(const codes::Problem&, const tessera_device&) const override { return {}; }

 private:
  std::vector<core::Kernel> rows_;
};

}  // namespace tessera::testing_rows
