// What every extern "C" function does around its work: copies the caller's structs, catches, and keeps the
// sentence. Nothing thrown gets out.
#pragma once

#include <fmt/format.h>
#include <tessera/tessera.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "core/status.hpp"

namespace tessera::api {

inline std::string& last_error() {
  thread_local std::string message;
  return message;
}

inline tessera_status remember(const core::Status& status) noexcept {
  try {
    if (!status.ok()) last_error() = status.message;
  } catch (...) {
    last_error().clear();  // no memory for the sentence; the code still tells
  }
  return status.code;
}

// Runs body() and turns whatever it throws into a status.
template <class Body>
tessera_status guarded(Body body) noexcept {
  try {
    return remember(body());
  } catch (const std::bad_alloc&) {
    return remember({TESSERA_OUT_OF_MEMORY, "not enough memory"});
  } catch (const std::exception& e) {
    return remember({TESSERA_INTERNAL, e.what()});
  } catch (...) {
    return remember({TESSERA_INTERNAL, "an unknown exception"});
  }
}

// The sizes of the structs in their first version: nothing shorter was ever a whole struct.
template <class Struct>
inline constexpr std::size_t kFirstSize = 0;
template <>
inline constexpr std::size_t kFirstSize<tessera_attention> = offsetof(tessera_attention, sinks) +
                                                             sizeof(tessera_tensor);
template <>
inline constexpr std::size_t kFirstSize<tessera_device> = offsetof(tessera_device, kernel) +
                                                          sizeof(const char*);
template <>
inline constexpr std::size_t kFirstSize<tessera_quantisation> = offsetof(tessera_quantisation, hadamard) +
                                                                sizeof(std::int32_t);
template <>
inline constexpr std::size_t kFirstSize<tessera_plan_info> = offsetof(tessera_plan_info, bytes) +
                                                             sizeof(double);

// A caller built against another version passes a struct of another size: a shorter one keeps the
// defaults of *out, a longer one is fine as long as what we do not know is all zero.
template <class Struct>
core::Status copy_struct(std::string_view name, const Struct* given, Struct* out) {
  if (given == nullptr) return core::invalid(fmt::format("{} is null", name));
  const std::size_t size = given->struct_size;
  constexpr std::size_t kLargest = 1 << 16;
  if (size < kFirstSize<Struct> || size > kLargest) {
    return core::invalid(fmt::format("{}.struct_size is {}; fill the struct from its _INIT macro ({} here)",
                                     name, size, sizeof(Struct)));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (size > sizeof(Struct) &&
      std::any_of(bytes + sizeof(Struct), bytes + size, [](unsigned char byte) { return byte != 0; })) {
    return core::invalid(
        fmt::format("{}.struct_size is {}, and the fields past {} are set: this library (version {}) is "
                    "older than the header it was called with",
                    name, size, sizeof(Struct), tessera_version()));
  }
  std::memcpy(out, given, std::min(size, sizeof(Struct)));
  out->struct_size = sizeof(Struct);
  return {};
}

}  // namespace tessera::api
