// A module as it was read: variables, entries, and of an entry its registers and instructions. Names are
// resolved; what an opcode means is not looked at here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace emulator {

enum class RegisterType : std::uint8_t { predicate, bits16, bits32, bits64 };

struct Operand {
  enum class Kind : std::uint8_t {
    reg,
    special,
    integer,
    float32,
    float64,
    symbol,
    address,
    list,
    label,
    sink
  };
  Kind kind = Kind::sink;
  bool negated = false;        // !%p
  int reg = -1;                // reg; the base of an address, if it has one
  int paired = -1;             // the predicate of "%r1|%p1"
  int symbol = -1;             // index of a variable: symbol, or the base of an address
  std::int64_t value = 0;      // bits of a number, offset of an address or of a symbol, target of a label
  std::string_view name;       // of a special register
  std::vector<Operand> parts;  // of a list; behind the address in [address, {coordinates}]
};

struct Instruction {
  std::string_view form;  // opcode with all modifiers
  std::vector<Operand> operands;
  int guard = -1;
  bool guard_negated = false;
  int line = 0;
  int source_file = 0, source_line = 0;  // by .loc; 0: none
};

enum class Space : std::uint8_t { generic, global, shared, local, param, constant };

struct Variable {
  std::string name;
  Space space;
  std::size_t bytes = 0;
  std::size_t align = 1;
  bool is_dynamic = false;            // extern .shared name[]: as long as the launch says
  std::vector<std::uint8_t> initial;  // of .global and .const
};

struct Body {
  std::vector<RegisterType> registers;
  std::vector<Variable> variables;  // the module's, the parameters, the body's own
  std::vector<Instruction> code;
};

struct Entry {
  std::string name;
  std::vector<Variable> params;
  std::vector<std::size_t> param_offsets;
  std::size_t param_bytes = 0;
  int max_threads = 1024;
  std::string_view text;  // of the body
  int first_line = 0;
};

struct Module {
  std::string file;
  std::string text;
  std::map<int, std::string> sources;  // .file
  std::vector<Variable> variables;
  std::vector<Entry> entries;
};

// Throw PtxError. Bodies are only read when they are asked for: most of a large module is never run.
std::unique_ptr<Module> parse_module(std::string_view text, std::string_view file);
Body parse_body(const Module& module, const Entry& entry);

}  // namespace emulator
