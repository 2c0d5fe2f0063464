// An entry's body: registers and labels by scope (inline assembly brings braces of its own), instructions.
#include <unordered_map>

#include "emulator/ptx/declarations.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/module.hpp"

namespace emulator {
namespace {

// %r<count>: a register is made when it is first named, for most of a large count never are.
struct RegisterRange {
  RegisterType type;
  int count;
  std::unordered_map<int, int> made;  // by number
};

struct Scope {
  std::unordered_map<std::string_view, RegisterRange> ranges;
  std::unordered_map<std::string_view, int> registers;
  std::unordered_map<std::string_view, int> labels;
  struct Use {
    std::string_view name;
    std::size_t instruction, operand;
    int line;
  };
  std::vector<Use> uses;  // of labels, looked up when the scope ends
};

class BodyParser {
 public:
  BodyParser(const Module& module, const Entry& entry)
      : lexer_(module.file, entry.text, entry.first_line), file_(module.file) {
    body_.variables = module.variables;
    body_.variables.insert(body_.variables.end(), entry.params.begin(), entry.params.end());
    for (std::size_t i = 0; i < body_.variables.size(); ++i)
      variables_[body_.variables[i].name] = static_cast<int>(i);
  }

  Body parse() {
    scopes_.emplace_back();
    while (lexer_.peek().kind != Token::Kind::end) statement();
    if (scopes_.size() != 1) lexer_.fail("a { that is never closed");
    close_scope();
    return std::move(body_);
  }

 private:
  void statement();
  void directive();
  void declare_registers();
  void declare_variable(Space space);
  void location();
  void instruction();
  void close_scope();
  Operand operand();
  Operand address();
  Operand list();
  Operand number();
  Operand named(std::string_view name);
  int find_register(std::string_view name);
  int need_register();
  int add_register(RegisterType type);

  Lexer lexer_;
  std::string_view file_;
  Body body_;
  std::vector<Scope> scopes_;
  std::unordered_map<std::string, int> variables_;
  int source_file_ = 0, source_line_ = 0;
};

void BodyParser::statement() {
  const Token& t = lexer_.peek();
  if (t.is(';')) {
    lexer_.take();
  } else if (t.is('{')) {
    lexer_.take();
    if (scopes_.size() > 64) lexer_.fail("braces nested more than 64 deep");
    scopes_.emplace_back();
  } else if (t.is('}')) {
    if (scopes_.size() == 1) lexer_.fail("a } without a {");
    lexer_.take();
    close_scope();
  } else if (t.kind == Token::Kind::word && t.text[0] == '.') {
    directive();
  } else {
    instruction();
  }
}

void BodyParser::close_scope() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  for (const Scope::Use& use : scope.uses) {
    const auto at = scope.labels.find(use.name);
    if (at != scope.labels.end()) {
      body_.code[use.instruction].operands[use.operand].value = at->second;
    } else if (!scopes_.empty()) {
      scopes_.back().uses.push_back(use);
    } else {
      throw PtxError(file_, use.line, "'" + std::string(use.name) + "' is neither declared nor a label");
    }
  }
}

void BodyParser::directive() {
  const Token t = lexer_.take();
  if (t.is(".reg")) return declare_registers();
  if (t.is(".shared")) return declare_variable(Space::shared);
  if (t.is(".local")) return declare_variable(Space::local);
  if (t.is(".loc")) return location();
  if (t.is(".pragma")) {
    while (!lexer_.peek().is(';') && lexer_.peek().kind != Token::Kind::end) lexer_.take();
    return expect(lexer_, ';');
  }
  lexer_.fail("'" + std::string(t.text) + "' is not known in a body");
}

void BodyParser::location() {
  const int line = lexer_.peek().line;
  source_file_ = static_cast<int>(expect_integer(lexer_) & 0xffffff);
  source_line_ = static_cast<int>(expect_integer(lexer_) & 0xffffff);
  if (lexer_.peek().line == line) lexer_.skip_line();  // column, and where it was inlined
}

int BodyParser::add_register(RegisterType type) {
  body_.registers.push_back(type);
  return static_cast<int>(body_.registers.size()) - 1;
}

void BodyParser::declare_registers() {
  const std::string_view word = lexer_.take().text;
  RegisterType type;
  const auto bytes = type_bytes(word);
  if (word == ".pred") {
    type = RegisterType::predicate;
  } else if (bytes == 2) {
    type = RegisterType::bits16;
  } else if (bytes == 4) {
    type = RegisterType::bits32;
  } else if (bytes == 8) {
    type = RegisterType::bits64;
  } else {
    lexer_.fail("registers of type '" + std::string(word) + "' are not known");
  }
  while (true) {
    const std::string_view name = expect_name(lexer_);
    Scope& scope = scopes_.back();
    if (lexer_.peek().is('<')) {
      lexer_.take();
      const std::uint64_t count = expect_integer(lexer_);
      expect(lexer_, '>');
      if (count > 1'000'000) lexer_.fail("more than a million registers of a name");
      scope.ranges[name] = {type, static_cast<int>(count), {}};
    } else {
      scope.registers[name] = add_register(type);
    }
    if (!lexer_.peek().is(',')) break;
    lexer_.take();
  }
  expect(lexer_, ';');
}

void BodyParser::declare_variable(Space space) {
  Variable variable = parse_variable(lexer_, space);
  expect(lexer_, ';');
  variables_[variable.name] = static_cast<int>(body_.variables.size());
  body_.variables.push_back(std::move(variable));
}

int BodyParser::find_register(std::string_view name) {
  std::size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  const std::string_view prefix = name.substr(0, digits);
  int number = -1;
  if (digits < name.size() && name.size() - digits <= 7) {
    number = 0;
    for (std::size_t i = digits; i < name.size(); ++i) number = number * 10 + (name[i] - '0');
  }
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto one = scope->registers.find(name);
    if (one != scope->registers.end()) return one->second;
    if (number < 0) continue;
    const auto range = scope->ranges.find(prefix);
    if (range == scope->ranges.end() || number >= range->second.count) continue;
    const auto [made, is_new] = range->second.made.try_emplace(number, 0);
    if (is_new) made->second = add_register(range->second.type);
    return made->second;
  }
  return -1;
}

int BodyParser::need_register() {
  const std::string_view name = expect_name(lexer_);
  const int reg = find_register(name);
  if (reg < 0) lexer_.fail("'" + std::string(name) + "' is not a register");
  return reg;
}

Operand BodyParser::number() {
  const bool negative = lexer_.peek().is('-');
  if (negative) lexer_.take();
  const Token t = lexer_.take();
  Operand out;
  switch (t.kind) {
    case Token::Kind::integer:
      out.kind = Operand::Kind::integer;
      break;
    case Token::Kind::float32:
      out.kind = Operand::Kind::float32;
      break;
    case Token::Kind::float64:
      out.kind = Operand::Kind::float64;
      break;
    default:
      lexer_.fail("expected an operand, found '" + std::string(t.text) + "'");
  }
  if (negative && out.kind != Operand::Kind::integer) lexer_.fail("a sign before the bits of a number");
  out.value = static_cast<std::int64_t>(negative ? ~t.bits + 1 : t.bits);
  return out;
}

// A register (with its predicate behind |), a variable, a special register, or else a label.
Operand BodyParser::named(std::string_view name) {
  Operand out;
  if (name == "_") return out;
  out.reg = find_register(name);
  if (out.reg >= 0) {
    out.kind = Operand::Kind::reg;
    if (lexer_.peek().is('|')) {
      lexer_.take();
      out.paired = need_register();
    }
    return out;
  }
  const auto variable = variables_.find(std::string(name));
  if (variable != variables_.end()) {
    out.kind = Operand::Kind::symbol;
    out.symbol = variable->second;
    if (lexer_.peek().is('+')) {
      lexer_.take();
      out.value = number().value;
    }
  } else if (name[0] == '%') {
    out.kind = Operand::Kind::special;
    out.name = name;
  } else {
    out.kind = Operand::Kind::label;
    out.name = name;
  }
  return out;
}

// [base], [base+offset], [name+offset], [number], [base, {coordinates}]
Operand BodyParser::address() {
  expect(lexer_, '[');
  Operand out;
  if (lexer_.peek().kind == Token::Kind::word) {
    out = named(lexer_.take().text);
    if (out.kind != Operand::Kind::reg && out.kind != Operand::Kind::symbol)
      lexer_.fail("an address that is neither a register nor a variable");
    if (lexer_.peek().is('+')) {
      lexer_.take();
      out.value = number().value;
    } else if (lexer_.peek().is('-')) {
      out.value = number().value;
    }
  } else {
    out = number();
  }
  out.kind = Operand::Kind::address;
  if (lexer_.peek().is(',')) {
    lexer_.take();
    out.parts = list().parts;
  }
  expect(lexer_, ']');
  return out;
}

Operand BodyParser::list() {
  expect(lexer_, '{');
  Operand out;
  out.kind = Operand::Kind::list;
  while (!lexer_.peek().is('}')) {
    if (out.parts.size() > 512) lexer_.fail("more than 512 operands in braces");
    if (lexer_.peek().is('{') || lexer_.peek().is('[')) lexer_.fail("braces within braces");
    out.parts.push_back(operand());
    if (!lexer_.peek().is(',')) break;
    lexer_.take();
  }
  expect(lexer_, '}');
  return out;
}

Operand BodyParser::operand() {
  const Token& t = lexer_.peek();
  if (t.is('[')) return address();
  if (t.is('{')) return list();
  if (t.is('!')) {
    lexer_.take();
    Operand out;
    out.kind = Operand::Kind::reg;
    out.negated = true;
    out.reg = need_register();
    return out;
  }
  if (t.kind == Token::Kind::word) return named(lexer_.take().text);
  return number();
}

void BodyParser::instruction() {
  Instruction in;
  in.line = lexer_.peek().line;
  if (lexer_.peek().is('@')) {
    lexer_.take();
    if (lexer_.peek().is('!')) lexer_.take(), in.guard_negated = true;
    in.guard = need_register();
  }
  in.form = expect_name(lexer_);
  if (in.guard < 0 && lexer_.peek().is(':')) {
    lexer_.take();
    if (!scopes_.back().labels.emplace(in.form, static_cast<int>(body_.code.size())).second)
      lexer_.fail("the label '" + std::string(in.form) + "' is there twice");
    return;
  }
  while (!lexer_.peek().is(';')) {
    in.operands.push_back(operand());
    if (!lexer_.peek().is(',')) break;
    lexer_.take();
  }
  expect(lexer_, ';');
  in.source_file = source_file_;
  in.source_line = source_line_;
  for (std::size_t i = 0; i < in.operands.size(); ++i) {
    if (in.operands[i].kind == Operand::Kind::label)
      scopes_.back().uses.push_back({in.operands[i].name, body_.code.size(), i, in.line});
  }
  body_.code.push_back(std::move(in));
}

}  // namespace

Body parse_body(const Module& module, const Entry& entry) { return BodyParser(module, entry).parse(); }

}  // namespace emulator
