// What the runtime asks of the executor: memory whose exact ranges are known, and launches of entry points.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emulator {

// A GPU as data. "sm_89" is a description, not another program: it runs the PTX of compute_80.
struct DeviceDescription {
  std::string name;  // "NVIDIA H200"
  int arch;          // 90, 89, 80
  int multiprocessors;
  std::size_t shared_bytes_per_block;  // without asking
  std::size_t shared_bytes_per_block_optin;
  std::size_t shared_bytes_per_multiprocessor;
  std::size_t global_bytes;
  std::size_t l2_bytes;
  std::size_t persisting_l2_bytes;
};

// What went wrong, and where: a sentence for people, and its parts for tests.
struct Report {
  std::string what;       // "out of bounds: a load of 4 bytes, 12 bytes behind the end of ..."
  std::string kernel;     // the entry's name as PTX has it
  std::string ptx_place;  // file:line of the PTX instruction
  std::string source;     // file:line by .loc, or empty
  std::array<unsigned, 3> block{};
  std::vector<unsigned> threads;  // of the block, linear
  std::uint64_t address = 0;
  std::string text() const;
};

// Global memory: device addresses are host addresses, and every allocation is known by its exact range.
class GlobalMemory {
 public:
  virtual ~GlobalMemory() = default;
  virtual void* allocate(std::size_t bytes) = 0;  // aligned to 256; bytes are marked uninitialised
  virtual bool release(void* base) = 0;           // false: not the base of an allocation
  virtual void mark_written(const void* at, std::size_t bytes) = 0;
  virtual bool contains(const void* at, std::size_t bytes) const = 0;
};

struct Launch {
  std::string_view entry;
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::size_t dynamic_shared_bytes = 0;
  std::vector<std::byte> params;   // as the entry's .param space has them
  bool overlaps_previous = false;  // programmatic dependent launch: griddepcontrol.wait orders it
};

// Blocks of a launch that began before the one before it in the stream had ended, and wait for its end now.
class Started {
 public:
  virtual ~Started() = default;
};

struct EntryInfo {
  struct Param {
    std::size_t offset, bytes;
  };
  std::size_t param_bytes = 0;
  std::vector<Param> params;  // each one in its place among those bytes
  std::size_t static_shared_bytes = 0;
  int max_threads = 1024;              // .maxntid
  bool lets_dependents_start = false;  // has a griddepcontrol.launch_dependents
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Parses a module; throws std::runtime_error with file, line and a sentence.
  virtual void load(std::string_view ptx, std::string_view file_name) = 0;
  virtual const EntryInfo* find(std::string_view entry) const = 0;
  virtual GlobalMemory& memory() = 0;
  // In order of a stream. Returns reports; empty: it ran clean. After a report the device is poisoned, as
  // CUDA's is.
  virtual std::vector<Report> run(const Launch& launch) = 0;
  // Some blocks of a launch that overlaps the one before it, up to their griddepcontrol.wait; then that one
  // is run, then the rest of these and all others. The launch stays where it is meanwhile. Null: run() says
  // why.
  virtual std::unique_ptr<Started> start(const Launch& launch) = 0;
  virtual std::vector<Report> finish(Started& started) = 0;
  // Entries executed so far, for coverage.
  virtual std::vector<std::string> executed() const = 0;
  // Instructions of warps executed so far: PTX instructions, each counted once for a warp.
  virtual std::uint64_t operations() const = 0;
};

struct Settings {
  std::uint64_t seed = 1;  // of warp order and of when asynchronous work completes
  int threads = 0;         // host threads; 0: all
  std::string speed{};     // a file that every launch appends its entry, instructions and CPU seconds to
};
std::unique_ptr<Executor> make_executor(const DeviceDescription& device, const Settings& settings);

}  // namespace emulator
