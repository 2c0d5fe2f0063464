// The outer level of a module: directives, variables, entries with their parameters. Bodies are kept as text.
#include "emulator/ptx/module.hpp"

#include "emulator/ptx/declarations.hpp"
#include "emulator/ptx/error.hpp"

namespace emulator {
namespace {

void parse_params(Lexer& lexer, Entry& entry) {
  if (!lexer.peek().is('(')) return;
  lexer.take();
  while (!lexer.peek().is(')')) {
    if (!lexer.peek().is(".param")) lexer.fail("expected .param");
    lexer.take();
    Variable param = parse_variable(lexer, Space::param);
    entry.param_bytes = (entry.param_bytes + param.align - 1) / param.align * param.align;
    entry.param_offsets.push_back(entry.param_bytes);
    entry.param_bytes += param.bytes;
    if (entry.param_bytes > (1u << 20)) lexer.fail("parameters of more than a megabyte");
    entry.params.push_back(std::move(param));
    if (!lexer.peek().is(',')) break;
    lexer.take();
  }
  expect(lexer, ')');
}

// .maxntid 32, 1, 1: the product is the limit.
std::uint64_t parse_extent(Lexer& lexer) {
  std::uint64_t product = expect_integer(lexer);
  while (lexer.peek().is(',')) {
    lexer.take();
    product *= expect_integer(lexer);
  }
  return product;
}

void parse_entry(Lexer& lexer, Module& module) {
  Entry entry;
  entry.name = std::string(expect_name(lexer));
  parse_params(lexer, entry);
  while (!lexer.peek().is('{')) {
    const Token t = lexer.take();
    if (t.is(".maxntid") || t.is(".reqntid")) {
      const std::uint64_t threads = parse_extent(lexer);
      if (threads < 1 || threads > 1024) lexer.fail("a block has 1 to 1024 threads");
      entry.max_threads = static_cast<int>(threads);
    } else if (t.is(".minnctapersm") || t.is(".maxnreg")) {
      expect_integer(lexer);
    } else {
      lexer.fail("'" + std::string(t.text) + "' is not known before an entry's body");
    }
  }
  entry.text = lexer.skip_braces(entry.first_line);
  module.entries.push_back(std::move(entry));
}

void parse_file_line(Lexer& lexer, Module& module) {
  const int number = static_cast<int>(expect_integer(lexer) & 0xffffff);
  if (lexer.peek().kind != Token::Kind::string) lexer.fail(".file without a name");
  module.sources[number] = std::string(lexer.take().text);
  while (lexer.peek().is(',')) {
    lexer.take();
    expect_integer(lexer);
  }
}

Space space_of(std::string_view word, Lexer& lexer) {
  if (word == ".shared") return Space::shared;
  if (word == ".global") return Space::global;
  if (word == ".const") return Space::constant;
  lexer.fail("'" + std::string(word) + "' is not known at the outer level of a module");
}

void parse_directive(Lexer& lexer, Module& module) {
  const Token t = lexer.peek();
  if (t.is(".version") || t.is(".target") || t.is(".address_size")) return lexer.skip_line();
  lexer.take();
  if (t.is(".file")) return parse_file_line(lexer, module);
  if (t.is(".visible") || t.is(".extern") || t.is(".weak")) return;  // of the declaration that follows
  if (t.is(".entry")) return parse_entry(lexer, module);
  if (t.is(".section")) {
    int line;
    if (lexer.peek().kind == Token::Kind::word) lexer.take();
    lexer.skip_braces(line);
    return;
  }
  if (t.is(".func")) lexer.fail("functions that are called are not known, only entries");
  if (t.kind != Token::Kind::word) lexer.fail("'" + std::string(t.text) + "' is not known here");
  module.variables.push_back(parse_variable(lexer, space_of(t.text, lexer)));
  expect(lexer, ';');
}

}  // namespace

std::unique_ptr<Module> parse_module(std::string_view text, std::string_view file) {
  auto module = std::make_unique<Module>();
  module->file = std::string(file);
  module->text = std::string(text);
  Lexer lexer(module->file, module->text);
  while (lexer.peek().kind != Token::Kind::end) parse_directive(lexer, *module);
  return module;
}

}  // namespace emulator
