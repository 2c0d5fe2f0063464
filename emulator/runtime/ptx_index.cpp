#include "emulator/runtime/ptx_index.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace emulator::runtime {
namespace {

bool read_module(std::istringstream& words, Module* out) {
  std::string arch;
  if (!(words >> arch) || arch.rfind("compute_", 0) != 0) return false;
  char suffix = 0;
  if (std::sscanf(arch.c_str(), "compute_%d%c", &out->arch, &suffix) < 1) return false;
  out->this_arch = suffix == 'a';
  return static_cast<bool>(std::getline(words >> std::ws, out->file));
}

bool read_code(const std::string& word, Code* out) {
  const std::size_t colon = word.find(':');
  out->name = word.substr(0, colon);
  return colon != std::string::npos &&
         std::sscanf(word.c_str() + colon, ":%d:%d", &out->registers, &out->stack_bytes) == 2;
}

bool runs(const Module& module, int gpu_arch) {
  return module.this_arch ? module.arch == gpu_arch : module.arch <= gpu_arch;
}

bool is_for(const Code& code, int arch) {
  const std::string name = "sm_" + std::to_string(arch);
  return code.name == name || code.name == name + "a";
}

bool newer(const Module& a, const Module& b) {
  return a.arch != b.arch ? a.arch > b.arch : a.this_arch && !b.this_arch;
}

}  // namespace

bool PtxIndex::read_line(const std::string& line, const Module** module) {
  std::istringstream words(line);
  std::string kind, name;
  words >> kind;
  if (kind.empty() || kind[0] == '#') return true;
  if (kind == "module") {
    Module read;
    if (!read_module(words, &read)) return false;
    *module = &(modules_[read.file] = read);
    return true;
  }
  if (kind != "entry" || *module == nullptr || !(words >> name)) return false;
  Found found{*module, {}};
  for (std::string word; words >> word;) {
    found.codes.emplace_back();
    if (!read_code(word, &found.codes.back())) return false;
  }
  entries_[name].push_back(std::move(found));
  return true;
}

bool PtxIndex::read(const std::string& file, std::string* why) {
  std::ifstream in(file);
  if (!in) {
    *why = "there is no index of PTX at '" + file + "': the build writes it, TESSERA_EMU_PTX names another";
    return false;
  }
  const Module* module = nullptr;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (read_line(line, &module)) continue;
    *why = file + ":" + std::to_string(number) + ": not a line of an index of PTX: " + line;
    return false;
  }
  return true;
}

Entry PtxIndex::find(std::string_view entry, int gpu_arch) const {
  const auto found = entries_.find(entry);
  if (found == entries_.end()) return {};
  const Found* best = nullptr;
  for (const Found& each : found->second)
    if (runs(*each.module, gpu_arch) && (best == nullptr || newer(*each.module, *best->module))) best = &each;
  if (best == nullptr) return {};
  // The code that the GPU would run: its own arch's, whatever PTX it was assembled from, else that of the
  // PTX's arch.
  const Code* code = nullptr;
  for (const Code& each : best->codes) {
    if (is_for(each, gpu_arch)) code = &each;
    if (code == nullptr && is_for(each, best->module->arch)) code = &each;
  }
  return {best->module, code};
}

std::vector<std::string> PtxIndex::entries(int gpu_arch) const {
  std::vector<std::string> out;
  for (const auto& [name, unused] : entries_)
    if (find(name, gpu_arch).module != nullptr) out.push_back(name);
  return out;
}

}  // namespace emulator::runtime
