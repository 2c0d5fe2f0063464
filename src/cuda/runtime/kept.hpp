// The last few values that were costly to make, each in the one place its hash gives it: nothing grows, and
// what is asked for again and again is found by one comparison.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/status.hpp"

namespace tessera::cuda::runtime {

// A Key{} is never asked for.
template <class Key, class Value, std::size_t kPlaces>
class Kept {
 public:
  // The value of `key`, made by make(&value) where it is not there. *out is good until the next call.
  template <class Make>
  core::Status find(const Key& key, std::uint64_t hash, Make make, const Value** out) {
    Place& place = places_[hash % kPlaces];
    *out = &place.value;
    if (place.key == key) return {};
    place.key = Key{};  // if this fails there is neither the old value nor the new one
    if (core::Status s = make(&place.value); !s.ok()) return s;
    place.key = key;
    return {};
  }

 private:
  struct Place {
    Key key{};
    Value value{};
  };
  std::array<Place, kPlaces> places_{};
};

}  // namespace tessera::cuda::runtime
