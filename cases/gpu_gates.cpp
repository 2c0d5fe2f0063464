// See gpu_gates.hpp.
#include "cases/gpu_gates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cases/sequences.hpp"

namespace tessera::cases {
namespace {

constexpr int kRunsAtOnce = 4;
// Beyond this, copying takes longer than the gate is worth: a large case is made of the same blocks.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

// The bytes of a tensor that lie before its last batch entry, and those of that entry.
struct Halves {
  const unsigned char* data;
  std::size_t before, last;
};

Halves halves(const tessera_tensor& t) {
  const std::size_t size = tessera_dtype_size(t.dtype);
  std::int64_t inside = 1;
  for (std::int32_t d = 1; d < t.rank; ++d) inside += (t.shape[d] - 1) * t.strides[d];
  return {static_cast<const unsigned char*>(t.data),
          static_cast<std::size_t>((t.shape[0] - 1) * t.strides[0]) * size,
          static_cast<std::size_t>(inside) * size};
}

std::vector<unsigned char> last_entry(const tessera_tensor& t) {
  const Halves h = halves(t);
  return {h.data + h.before, h.data + h.before + h.last};
}

std::string neighbours(Instance& instance, Mirror& mirror, const tessera_device& device) {
  const tessera_attention& p = instance.problem();
  const bool with_lse = p.lse.data != nullptr;
  const auto output = last_entry(p.output);
  const auto lse = with_lse ? last_entry(p.lse) : std::vector<unsigned char>();
  std::vector<const tessera_tensor*> rows = {&p.query};
  instance.poison_outputs();
  for (const tessera_tensor* t : {&p.key, &p.value, &p.key_tail}) {
    if (t->rank == 0) continue;
    if (p.new_key.rank == 0)
      rows.push_back(t);
    else if (t->shape[2] > 0)  // written to: it goes to the GPU before each call
      std::memset(t->data, 0xff, halves(*t).before);
  }
  for (const tessera_tensor* t : {&p.new_key, &p.new_value})
    if (t->rank > 0) rows.push_back(t);
  for (const tessera_tensor* t : rows) {
    if (t->shape[2] == 0) continue;
    if (core::Status s = mirror.spoil(t->data, halves(*t).before); !s.ok()) return s.message;
  }
  const core::Status done = mirror.attend(p, device);
  for (const tessera_tensor* t : rows) {
    if (t->shape[2] == 0) continue;
    if (core::Status s = mirror.restore(t->data, halves(*t).before); !s.ok()) return s.message;
  }
  if (!done.ok()) return done.message;
  if (last_entry(p.output) != output || (with_lse && last_entry(p.lse) != lse))
    return "the last batch entry came out differently when the others were NaN";
  return "";
}

constexpr std::size_t kGuardBytes = 1024;

// The same bits from a workspace of the caller's, whatever it holds, and nothing written around it.
std::string own_workspace(Instance& instance, Mirror& mirror, tessera_device device) {
  const tessera_attention there = mirror.problem(instance.problem());
  tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
  device.workspace_bytes = SIZE_MAX;
  if (tessera_plan(&there, &device, &plan) != TESSERA_OK) return tessera_last_error();
  if (plan.workspace_bytes == 0) return "";
  device.workspace_bytes = static_cast<std::size_t>(plan.workspace_bytes);
  const std::size_t all = device.workspace_bytes + 2 * kGuardBytes;
  gpu::Memory memory;
  if (core::Status s = gpu::Memory::allocate(device.index, all, &memory); !s.ok()) return s.message;
  device.workspace = memory.data() + kGuardBytes;
  const std::vector<unsigned char> without = instance.output_bytes();
  std::vector<unsigned char> guards(kGuardBytes);
  for (const unsigned char garbage : {0xff, 0x00, 0x5a}) {
    if (core::Status s = memory.fill(garbage, all); !s.ok()) return s.message;
    instance.poison_outputs();
    if (core::Status s = mirror.attend(instance.problem(), device); !s.ok()) return s.message;
    if (instance.output_bytes() != without)
      return fmt::format("a workspace filled with {:#04x} gave other bits than none", garbage);
    if (const std::string why = instance.misplaced(); !why.empty())
      return fmt::format("with one that is filled with {:#04x}, {}", garbage, why);
    for (const std::size_t at : {std::size_t{0}, all - kGuardBytes}) {
      if (core::Status s = memory.download(guards.data(), kGuardBytes, at); !s.ok()) return s.message;
      if (std::any_of(guards.begin(), guards.end(), [&](unsigned char byte) { return byte != garbage; }))
        return "memory around it was written to";
    }
  }
  return "";
}

}  // namespace

std::string gpu_gates(Instance& instance, Mirror& mirror, const tessera_device& device) {
  const Case& c = instance.shape();
  if (c.batch * c.queries == 0) return "";
  if (kRunsAtOnce * mirror.bytes(true) <= kMostBytes) {
    const std::string why =
        mirror.repeat_under_load(instance.problem(), device, kRunsAtOnce, instance.poisoned());
    if (!why.empty()) return fmt::format("repeat: {}", why);
  }
  if (const std::string why = own_workspace(instance, mirror, device); !why.empty())
    return fmt::format("workspace: {}", why);
  if (const std::string name = mirror.changed_input(); !name.empty())
    return fmt::format("guard bands: {}, an input, was written to", name);
  const bool dense = !by_entry(c);  // the entries of others share memory
  if (dense && c.batch > 1 && mirror.bytes(false) <= kMostBytes) {
    if (const std::string why = neighbours(instance, mirror, device); !why.empty())
      return fmt::format("batch neighbours: {}", why);
  }
  return "";
}

}  // namespace tessera::cases
