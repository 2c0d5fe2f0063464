// The last few plans of a thread. Programs make the same calls over and over: the layers of a model, the
// steps of a training run. A call that is like an earlier one in everything but where its tensors lie (and
// which stream it goes to) is run by that one's plan, without a second look at its arguments.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "core/plan.hpp"
#include "core/tensors.hpp"

namespace tessera::api {

// A call's arguments.
struct Request {
  tessera_attention attention = TESSERA_ATTENTION_INIT;
  tessera_device device = TESSERA_DEVICE_INIT;
  std::int64_t state = 0;  // core::Backend::state
};

class RecentCalls {
 public:
  static constexpr std::size_t kPlaces = 32;

  struct Call {
    core::Plan plan;
    core::PerTensor<std::uint64_t> span_bytes;
    bool nothing_to_do = false;
    std::string words;  // why this plan, and its cost: empty until somebody asks
    core::Cost cost;

    // Sets of addresses whose memory was looked at and found good, by their hash.
    bool looked_at(std::uint64_t addresses) const { return checked[addresses % kAddresses] == addresses; }
    void remember(std::uint64_t addresses) { checked[addresses % kAddresses] = addresses; }

   private:
    static constexpr std::size_t kAddresses = 64;
    std::array<std::uint64_t, kAddresses> checked{};
  };

  // All that a plan depends on: of an address, whether there is one and how it is aligned; and whether values
  // lie in keys, for which there are kernels of their own. The structs have no padding; shapes past a
  // tensor's rank may differ, and then the call is a new one.
  struct Key {
    tessera_attention attention;
    tessera_device device;
    std::int64_t state;

    Key() = default;
    explicit Key(const Request& request)
        : attention(request.attention), device(request.device), state(request.state) {
      const bool values_in_keys = attention.value.data == attention.key.data && attention.key.data != nullptr;
      constexpr std::uintptr_t kAlignment = 16;  // no kernel asks for more
      core::for_each_tensor(attention, [](const core::TensorField&, tessera_tensor& t) {
        const std::uintptr_t there = t.data == nullptr ? 0 : kAlignment;
        t.data = reinterpret_cast<void*>(there + reinterpret_cast<std::uintptr_t>(t.data) % kAlignment);
      });
      if (values_in_keys) attention.value.data = static_cast<char*>(attention.value.data) + kAlignment;
      if (device.kind == TESSERA_CUDA) device.stream = nullptr;
      device.workspace = nullptr;
      device.kernel = nullptr;  // the caller's string may change behind its pointer: its text is compared
    }
  };

  // Null if there was no such call, or it was forgotten. Good until the next keep() or forget().
  Call* find(const Key& key, const char* kernel) {
    for (Place* place : places_of(key))
      if (place->call.plan.kernel != nullptr && place->same(key, kernel)) return &place->call;
    return nullptr;
  }
  // Of the two places where it may go, the one that was filled longer ago is overwritten.
  Call& keep(const Key& key, const char* kernel, core::Plan plan) {
    const std::array<Place*, 2> two = places_of(key);
    Place& place = two[0]->call.plan.kernel == nullptr || two[0]->filled < two[1]->filled ? *two[0] : *two[1];
    place.key = key;
    place.name = kernel == nullptr ? "" : kernel;
    place.filled = ++filled_;
    place.call = {};
    place.call.plan = std::move(plan);
    return place.call;
  }
  void forget(const core::Prepared* prepared) {
    for (Place& place : places_)
      if (place.call.plan.prepared.get() == prepared) place.call.plan = {};
  }

  static std::uint64_t hash_of(const core::Addresses& at, const tessera_device& device) {
    std::uint64_t hash = mix(reinterpret_cast<std::uintptr_t>(device.stream), 1);
    hash = mix(reinterpret_cast<std::uintptr_t>(device.workspace), hash);
    for (const void* address : at.values) hash = mix(reinterpret_cast<std::uintptr_t>(address), hash);
    return hash | 1;  // never that of an empty place
  }

 private:
  struct Place {
    Key key;
    std::string name;
    Call call;
    std::uint64_t filled = 0;

    bool same(const Key& other, const char* kernel) const {
      return std::memcmp(&key, &other, sizeof key) == 0 && name == (kernel == nullptr ? "" : kernel);
    }
  };

  static std::uint64_t mix(std::uint64_t word, std::uint64_t hash) {
    const std::uint64_t mixed = (hash ^ word) * 0x9e3779b97f4a7c15;
    return mixed ^ mixed >> 32;
  }
  std::array<Place*, 2> places_of(const Key& key) {
    std::uint64_t hash = 0;
    for (const tessera_tensor* t : {&key.attention.query, &key.attention.key})
      for (const std::int64_t size : t->shape) hash = mix(static_cast<std::uint64_t>(size), hash);
    const std::size_t pair = hash % (kPlaces / 2);
    return {&places_[2 * pair], &places_[2 * pair + 1]};
  }

  std::array<Place, kPlaces> places_{};
  std::uint64_t filled_ = 0;
};

}  // namespace tessera::api
