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
  runtime::Step& add() { return steps_.emplace_back(); }
  // Memory of the stream's own where the caller gives none. Returns where the piece begins.
  std::int64_t add_workspace(std::int64_t bytes) {
    constexpr std::int64_t kAlignment = 256;
    const std::int64_t at = (workspace_bytes + kAlignment - 1) / kAlignment * kAlignment;
    workspace_bytes = at + bytes;
    has_own_memory = true;
    return at;
  }
  [[nodiscard]] bool empty() const { return steps_.empty(); }
  // The end of every prepare(): the steps are made ready, and `words` makes the sentence for people.
  core::Status finish(int gpu, std::int64_t items, std::function<std::string()> words) {
    for (const runtime::Step& step : steps_)
      if (core::Status s = runtime::current().make_ready(step, gpu); !s.ok()) return s;
    work_items = items;
    threads = static_cast<std::int32_t>(steps_.back().threads);
    words_ = std::move(words);
    return {};
  }

  std::string words() const override { return words_(); }
  core::Status submit(const core::Addresses& at, const tessera_device& device) const override {
    if (workspace_bytes == 0) return launch(at, device, nullptr);
    if (device.workspace != nullptr) return launch(at, device, device.workspace);
    void* own = nullptr;
    if (core::Status s = runtime::current().allocate(workspace_bytes, device, &own); !s.ok()) return s;
    core::Status launched = launch(at, device, own);
    core::Status freed = runtime::current().release(own, device);
    return launched.ok() ? freed : launched;
  }

 private:
  core::Status launch(const core::Addresses& at, const tessera_device& device, void* workspace) const {
    for (const runtime::Step& step : steps_)
      if (core::Status s = runtime::current().launch(step, at, workspace, device); !s.ok()) return s;
    return {};
  }

  std::vector<runtime::Step> steps_;
  std::function<std::string()> words_;
};

inline const runtime::Gpu& gpu_of(const core::Device& device) {
  return static_cast<const runtime::Gpu&>(device.hardware);
}

}  // namespace tessera::cuda
