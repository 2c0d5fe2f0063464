// The result of every internal call: a code and, unless it is OK, a sentence for the user.
#pragma once

#include <tessera/tessera.h>

#include <string>
#include <utility>

namespace tessera::core {

struct [[nodiscard]] Status {
  tessera_status code = TESSERA_OK;
  std::string message;

  bool ok() const { return code == TESSERA_OK; }
};

inline Status invalid(std::string message) { return {TESSERA_INVALID_ARGUMENT, std::move(message)}; }
inline Status unsupported(std::string message) { return {TESSERA_UNSUPPORTED, std::move(message)}; }

}  // namespace tessera::core
