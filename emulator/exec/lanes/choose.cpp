#include <cstdlib>
#include <unordered_map>

#include "emulator/exec/lanes/table.hpp"

namespace emulator {

const LaneTable& best_lanes() {
#if defined(EMULATOR_HAS_AVX2)
  // TESSERA_EMU_PLAIN=1: as on a processor without them, for tests.
  static const bool newer = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                            std::getenv("TESSERA_EMU_PLAIN") == nullptr;
  if (newer) return avx2_lanes();
#endif
  return plain_lanes();
}

const Form* find_form(std::string_view name) {
  static const auto forms = [] {
    std::unordered_map<std::string_view, const Form*> out;
    for (const auto& table : best_lanes().forms)
      for (const Form& form : table) out[form.name] = &form;
    return out;
  }();
  const auto it = forms.find(name);
  return it == forms.end() ? nullptr : it->second;
}

}  // namespace emulator
