// Any text as a case. What is accepted must come back from its own words, word for word.
#include <cstdlib>

#include "cases/case.hpp"

using namespace tessera::cases;

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string error;
  std::optional<Case> parsed = parse(text, &error);
  require(parsed.has_value() == error.empty());
  if (!parsed) return 0;

  const std::string printed = words(*parsed);
  std::optional<Case> again = parse(printed, &error);
  require(again.has_value());
  require(words(*again) == printed);
  again->name = parsed->name;
  again->group = parsed->group;
  require(*again == *parsed);
  require(work(*parsed).flops >= 0);
  return 0;
}
