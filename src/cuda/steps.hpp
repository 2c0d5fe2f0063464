// A problem as the launches that compute it: what every CUDA kernel's prepare() makes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/kernel.hpp"
#include "cuda/runtime/runtime.hpp"

namespace tessera::cuda {

class Steps final : public core::Prepared {
 public:
  explicit Steps(std::function<std::string()> describe) : describe_(std::move(describe)) {}

  std::vector<runtime::Step> steps;

  std::string words() const override { return describe_(); }
  core::Status submit(const core::Addresses& at, const tessera_device& device) const override {
    for (const runtime::Step& step : steps)
      if (core::Status s = runtime::current().launch(step, at, device); !s.ok()) return s;
    return {};
  }

 private:
  std::function<std::string()> describe_;
};

inline const runtime::Gpu& gpu_of(const core::Device& device) {
  return static_cast<const runtime::Gpu&>(device.hardware);
}

// The end of every prepare(): one launch, made ready.
inline core::Status prepared(const runtime::Step& step, const core::Device& device, std::int64_t work_items,
                             std::function<std::string()> describe,
                             std::shared_ptr<const core::Prepared>* out) {
  if (core::Status s = runtime::current().make_ready(step, gpu_of(device).index); !s.ok()) return s;
  auto made = std::make_shared<Steps>(std::move(describe));
  made->work_items = work_items;
  made->threads = static_cast<std::int32_t>(step.threads);
  made->steps.push_back(step);
  *out = std::move(made);
  return {};
}

}  // namespace tessera::cuda
