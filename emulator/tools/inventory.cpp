// All instruction forms of PTX files, with how often each occurs and where first; and whether the emulator
// can run their entries: tessera-ptx-inventory a.ptx b.ptx ...
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "emulator/exec/program.hpp"

int main(int count, char** files) {
  struct Found {
    long times = 0;
    std::string place;
  };
  std::map<std::string, Found> forms;
  std::size_t entries = 0;
  int refused = 0;
  std::size_t most_bytes = 0;
  for (int i = 1; i < count; ++i) {
    std::ifstream in(files[i]);
    std::stringstream text;
    text << in.rdbuf();
    try {
      const auto module = emulator::parse_module(text.str(), files[i]);
      for (const auto& entry : module->entries) {
        ++entries;
        for (const auto& one : emulator::parse_body(*module, entry).code) {
          Found& found = forms[(one.guard >= 0 ? "@ " : "") + std::string(one.form)];
          if (found.times++ == 0) found.place = module->file + ":" + std::to_string(one.line);
        }
        try {
          most_bytes = std::max(most_bytes, emulator::decode(*module, entry, {})->register_bytes);
        } catch (const std::exception& error) {
          ++refused;
          std::fprintf(stderr, "%s\n", error.what());
        }
      }
    } catch (const std::exception& error) {
      ++refused;
      std::fprintf(stderr, "%s\n", error.what());
    }
  }
  for (const auto& [form, found] : forms)
    std::printf("%9ld  %-60s %s\n", found.times, form.c_str(), found.place.c_str());
  std::printf("%zu entries, %zu forms, %d not understood; registers of a warp take up to %zu KiB\n", entries,
              forms.size(), refused, most_bytes >> 10);
  return refused == 0 ? 0 : 1;
}
