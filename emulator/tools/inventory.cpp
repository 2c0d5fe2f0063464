// All instruction forms of PTX files, with how often each occurs and an example: inventory a.ptx b.ptx ...
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "emulator/ptx/module.hpp"

int main(int count, char** files) {
  struct Found {
    long times = 0;
    std::string place;
  };
  std::map<std::string, Found> forms;
  std::size_t entries = 0;
  for (int i = 1; i < count; ++i) {
    try {
      std::ifstream in(files[i]);
      std::stringstream text;
      text << in.rdbuf();
      const auto module = emulator::parse_module(text.str(), files[i]);
      for (const auto& entry : module->entries) {
        ++entries;
        for (const auto& one : emulator::parse_body(*module, entry).code) {
          Found& found = forms[(one.guard >= 0 ? "@ " : "") + std::string(one.form)];
          if (found.times++ == 0) found.place = module->file + ":" + std::to_string(one.line);
        }
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
  }
  for (const auto& [form, found] : forms)
    std::printf("%9ld  %-60s %s\n", found.times, form.c_str(), found.place.c_str());
  std::printf("%zu entries, %zu forms\n", entries, forms.size());
}
