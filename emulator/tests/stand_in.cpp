#include "emulator/tests/stand_in.hpp"

#include <cstdlib>
#include <set>
#include <stdexcept>

namespace emulator {
namespace {

std::set<std::uintptr_t>& written_bytes() {
  static std::set<std::uintptr_t> all;
  return all;
}

class Memory final : public GlobalMemory {
 public:
  ~Memory() override {
    for (const auto& [base, bytes] : ranges_) std::free(base);
  }
  void* allocate(std::size_t bytes) override {
    constexpr std::size_t kAlign = 256;
    void* const base = std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
    ranges_[base] = bytes;
    return base;
  }
  bool release(void* base) override {
    if (ranges_.erase(base) == 0) return false;
    std::free(base);
    return true;
  }
  void mark_written(const void* at, std::size_t bytes) override {
    for (std::size_t n = 0; n < bytes; ++n) written_bytes().insert(reinterpret_cast<std::uintptr_t>(at) + n);
  }
  bool contains(const void* at, std::size_t bytes) const override {
    for (const auto& [base, size] : ranges_)
      if (at >= base && static_cast<const char*>(at) + bytes <= static_cast<const char*>(base) + size)
        return true;
    return false;
  }

 private:
  std::map<void*, std::size_t> ranges_;
};

struct StandInStarted : Started {
  explicit StandInStarted(const Launch& given) : launch(given) {}
  const Launch& launch;
};

class StandIn final : public Executor {
 public:
  void load(std::string_view ptx, std::string_view file_name) override {
    if (ptx.find("broken") != std::string_view::npos)
      throw std::runtime_error(std::string(file_name) + ":1: this PTX is broken");
    testing::asked().loaded.emplace_back(file_name);
    text_ += ptx;
  }
  const EntryInfo* find(std::string_view entry) const override {
    const auto found = testing::entries().find(std::string(entry));
    const bool there = text_.find(entry) != std::string::npos && found != testing::entries().end();
    return there ? &found->second.info : nullptr;
  }
  GlobalMemory& memory() override { return memory_; }
  std::vector<Report> run(const Launch& launch) override {
    testing::asked().ran.emplace_back(launch.entry);
    return testing::entries().at(std::string(launch.entry)).run(launch);
  }
  std::unique_ptr<Started> start(const Launch& launch) override {
    testing::asked().ran.emplace_back("start of " + std::string(launch.entry));
    return std::make_unique<StandInStarted>(launch);
  }
  std::vector<Report> finish(Started& started) override {
    return run(static_cast<StandInStarted&>(started).launch);
  }
  std::vector<std::string> executed() const override { return testing::asked().ran; }
  std::uint64_t operations() const override { return 0; }

 private:
  std::string text_;
  Memory memory_;
};

}  // namespace

std::string Report::text() const { return kernel + ": " + what; }

std::unique_ptr<Executor> make_executor(const DeviceDescription& device, const Settings& settings) {
  testing::asked() = {device, settings, {}, {}};
  written_bytes().clear();
  return std::make_unique<StandIn>();
}

namespace testing {

std::map<std::string, StandInEntry>& entries() {
  static std::map<std::string, StandInEntry> all;
  return all;
}
Asked& asked() {
  static Asked one;
  return one;
}
bool written(const void* at, std::size_t bytes) {
  for (std::size_t n = 0; n < bytes; ++n)
    if (written_bytes().count(reinterpret_cast<std::uintptr_t>(at) + n) == 0) return false;
  return true;
}

}  // namespace testing
}  // namespace emulator
