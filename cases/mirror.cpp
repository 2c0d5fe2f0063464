// See mirror.hpp.
#include "cases/mirror.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/append.hpp"
#include "core/problem.hpp"
#include "core/tensors.hpp"

namespace tessera::cases {
namespace {

using core::Status;
using gpu::Memory;

std::size_t offset_in(const Mirror::Region& region, const void* at) {
  return static_cast<std::size_t>(static_cast<const unsigned char*>(at) - region.host);
}

// Key and value may share memory (two halves of one tensor): what overlaps becomes one region.
std::vector<Mirror::Region> merged(std::vector<Mirror::Region> regions) {
  std::sort(regions.begin(), regions.end(), [](const auto& a, const auto& b) { return a.host < b.host; });
  std::vector<Mirror::Region> out;
  for (Mirror::Region& region : regions) {
    if (out.empty() || region.host >= out.back().host + out.back().bytes) {
      out.push_back(std::move(region));
      continue;
    }
    Mirror::Region& last = out.back();
    last.bytes = std::max(last.bytes, offset_in(last, region.host) + region.bytes);
    last.name += " and " + region.name;
    last.written = last.written || region.written;
  }
  return out;
}

}  // namespace

Status Mirror::make(int gpu, std::vector<Region> regions, std::unique_ptr<Mirror>* out) {
  out->reset(new Mirror(gpu));
  for (Region& region : regions) {
    Part part{std::move(region), {}};
    if (Status s = Memory::allocate(gpu, part.host.bytes, &part.twin); !s.ok()) return s;
    if (Status s = part.twin.upload(part.host.host, part.host.bytes); !s.ok()) return s;
    (*out)->parts_.push_back(std::move(part));
  }
  return {};
}

const Mirror::Part* Mirror::find(const void* host) const {
  const auto* here = static_cast<const unsigned char*>(host);
  for (const Part& part : parts_) {
    const Region& r = part.host;
    if (here == r.host || (here > r.host && here < r.host + r.bytes)) return &part;
  }
  return nullptr;
}

Mirror::Part& Mirror::at(const void* host) {
  const Part* found = find(host);
  return parts_[static_cast<std::size_t>(found - parts_.data())];
}

tessera_attention Mirror::problem(const tessera_attention& host) const {
  tessera_attention there = host;
  core::for_each_tensor(there, [&](const core::TensorField&, tessera_tensor& t) {
    const Part* part = t.data == nullptr ? nullptr : find(t.data);
    // Outside every region it stays a host pointer, and the library will say so.
    if (part != nullptr) t.data = part->twin.data() + offset_in(part->host, t.data);
  });
  return there;
}

Status Mirror::send_outputs() {
  for (Part& part : parts_) {
    if (!part.host.written) continue;
    if (Status s = part.twin.upload(part.host.host, part.host.bytes); !s.ok()) return s;
  }
  return {};
}

Status Mirror::fetch_outputs() {
  for (const Part& part : parts_) {
    if (!part.host.written) continue;
    if (Status s = part.twin.download(part.host.host, part.host.bytes); !s.ok()) return s;
  }
  return {};
}

Status Mirror::attend(const tessera_attention& host, const tessera_device& device) {
  if (Status s = send_outputs(); !s.ok()) return s;
  const tessera_attention there = problem(host);
  if (const tessera_status code = tessera_attend(&there, &device); code != TESSERA_OK)
    return {code, tessera_last_error()};
  // A fault of the kernel itself shows up here.
  if (Status s = gpu::synchronize(gpu_); !s.ok()) return s;
  return fetch_outputs();
}

std::string Mirror::changed_input() {
  std::vector<unsigned char> there;
  for (Part& part : parts_) {
    if (part.host.written) continue;
    there.resize(part.host.bytes);
    if (Status s = part.twin.download(there.data(), there.size()); !s.ok()) return s.message;
    if (std::memcmp(there.data(), part.host.host, there.size()) == 0) continue;
    if (Status s = part.twin.upload(part.host.host, part.host.bytes); !s.ok()) return s.message;
    return part.host.name;
  }
  return "";
}

Status Mirror::prepare_copies(std::size_t runs, const std::vector<std::vector<unsigned char>>& start) {
  for (gpu::Stream& stream : streams_) {
    if (stream.get() != nullptr) continue;
    if (Status s = gpu::Stream::create(gpu_, &stream); !s.ok()) return s;
  }
  copies_.resize(std::max(copies_.size(), runs));
  for (auto& copy : copies_) {
    copy.resize(start.size());
    for (std::size_t n = 0; n < start.size(); ++n) {
      if (copy[n].data() == nullptr)
        if (Status s = Memory::allocate(gpu_, start[n].size(), &copy[n]); !s.ok()) return s;
      if (Status s = copy[n].upload(start[n].data(), start[n].size()); !s.ok()) return s;
    }
  }
  return {};
}

std::string Mirror::repeat_under_load(const tessera_attention& host, const tessera_device& device, int runs,
                                      const std::vector<std::vector<unsigned char>>& start) {
  std::vector<Part*> outputs;
  for (Part& part : parts_)
    if (part.host.written) outputs.push_back(&part);
  const auto count = static_cast<std::size_t>(runs);
  if (Status s = prepare_copies(count, start); !s.ok()) return s.message;

  const auto exchange = [&](std::size_t run) {
    for (std::size_t n = 0; n < outputs.size(); ++n) std::swap(outputs[n]->twin, copies_[run][n]);
  };
  for (std::size_t run = 0; run < count; ++run) {
    exchange(run);
    const tessera_attention there = problem(host);
    exchange(run);
    tessera_device mine = device;
    mine.stream = streams_[run % 2].get();
    if (tessera_attend(&there, &mine) != TESSERA_OK) return tessera_last_error();
  }
  std::vector<unsigned char> bytes;
  for (std::size_t run = 0; run < count; ++run) {
    for (std::size_t n = 0; n < outputs.size(); ++n) {
      bytes.resize(copies_[run][n].bytes());
      if (Status s = copies_[run][n].download(bytes.data(), bytes.size()); !s.ok()) return s.message;
      if (std::memcmp(bytes.data(), outputs[n]->host.host, bytes.size()) != 0)
        return fmt::format("{} of run {} of {} at once differs from that of one alone", outputs[n]->host.name,
                           run + 1, runs);
    }
  }
  return "";
}

Status Mirror::spoil(const void* from, std::size_t bytes) {
  Part& part = at(from);
  return part.twin.fill(0xff, bytes, offset_in(part.host, from));
}

Status Mirror::restore(const void* from, std::size_t bytes) {
  Part& part = at(from);
  return part.twin.upload(from, bytes, offset_in(part.host, from));
}

std::size_t Mirror::bytes(bool written) const {
  std::size_t sum = 0;
  for (const Part& part : parts_) sum += part.host.written == written ? part.host.bytes : 0;
  return sum;
}

Status attend_on_gpu(const tessera_attention& host, const tessera_device& device) {
  // What cannot be computed is refused before anything is copied, with the library's own sentence.
  tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
  if (const tessera_status code = tessera_plan(&host, &device, &plan); code != TESSERA_OK)
    return {code, tessera_last_error()};
  core::Problem problem;
  if (Status s = core::validate(host, &problem); !s.ok()) return s;
  std::vector<Mirror::Region> regions;
  core::for_each_tensor(host, [&](const core::TensorField& field, const tessera_tensor& t) {
    if (t.data == nullptr) return;
    regions.push_back({std::string(field.name), static_cast<unsigned char*>(t.data),
                       problem.span_bytes[field.id], core::is_written(field, problem.span_bytes)});
  });
  std::unique_ptr<Mirror> mirror;
  if (Status s = Mirror::make(device.index, merged(std::move(regions)), &mirror); !s.ok()) return s;
  return mirror->attend(host, device);
}

}  // namespace tessera::cases
