#include "emulator/ptx/declarations.hpp"

#include <string>

#include "emulator/ptx/error.hpp"

namespace emulator {

std::optional<std::size_t> type_bytes(std::string_view type) {
  if (type.size() < 3 || type[0] != '.') return std::nullopt;
  const std::string_view bits = type.substr(2);
  if (std::string_view("bsuf").find(type[1]) == std::string_view::npos) return std::nullopt;
  if (bits == "8") return 1;
  if (bits == "16") return 2;
  if (bits == "32") return 4;
  if (bits == "64") return 8;
  return std::nullopt;
}

void expect(Lexer& lexer, char symbol) {
  if (!lexer.peek().is(symbol))
    lexer.fail(std::string("expected ") + symbol + ", found '" + std::string(lexer.peek().text) + "'");
  lexer.take();
}

std::uint64_t expect_integer(Lexer& lexer) {
  if (lexer.peek().kind != Token::Kind::integer) lexer.fail("expected a number");
  return lexer.take().bits;
}

std::string_view expect_name(Lexer& lexer) {
  const Token& t = lexer.peek();
  if (t.kind != Token::Kind::word || t.text[0] == '.') lexer.fail("expected a name");
  return lexer.take().text;
}

namespace {

// = {1, 2, ...}, or = 1: bytes in memory order.
void parse_initial(Lexer& lexer, Variable& variable, std::size_t element) {
  const auto one = [&] {
    const bool negative = lexer.peek().is('-');
    if (negative) lexer.take();
    const Token t = lexer.take();
    const bool number =
        t.kind == Token::Kind::integer || t.kind == Token::Kind::float32 || t.kind == Token::Kind::float64;
    if (!number) lexer.fail("an initial value that is not a number");
    const std::uint64_t bits = negative ? ~t.bits + 1 : t.bits;
    for (std::size_t i = 0; i < element; ++i)
      variable.initial.push_back(static_cast<std::uint8_t>(bits >> (8 * i)));
  };
  if (!lexer.peek().is('{')) return one();
  lexer.take();
  while (!lexer.peek().is('}')) {
    one();
    if (!lexer.peek().is(',')) break;
    lexer.take();
  }
  expect(lexer, '}');
}

}  // namespace

Variable parse_variable(Lexer& lexer, Space space) {
  Variable variable;
  variable.space = space;
  std::size_t element = 0;
  while (lexer.peek().kind == Token::Kind::word && lexer.peek().text[0] == '.') {
    const std::string_view word = lexer.take().text;
    if (word == ".align") {
      variable.align = expect_integer(lexer);
      if (variable.align == 0 || (variable.align & (variable.align - 1)) != 0 || variable.align > 4096)
        lexer.fail("an alignment that is not a power of two up to 4096");
    } else if (const auto bytes = type_bytes(word)) {
      element = *bytes;
    } else if (word == ".ptr" || word == ".global" || word == ".shared") {
      // what a parameter points to: a promise, not a property of it
    } else {
      lexer.fail("a declaration with '" + std::string(word) + "' is not known");
    }
  }
  if (element == 0) lexer.fail("a declaration without a type that is known");
  variable.name = std::string(expect_name(lexer));
  std::size_t count = 1;
  while (lexer.peek().is('[')) {
    lexer.take();
    if (lexer.peek().is(']')) {
      variable.is_dynamic = true;
      count = 0;
    } else {
      const std::uint64_t n = expect_integer(lexer);
      constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
      if (n > kMost || count * n > kMost) lexer.fail("an array of more than 2^30 elements");
      count *= n;
    }
    expect(lexer, ']');
  }
  variable.bytes = count * element;
  variable.align = std::max(variable.align, element);
  if (lexer.peek().is('=')) {
    lexer.take();
    parse_initial(lexer, variable, element);
    if (variable.is_dynamic) variable.bytes = variable.initial.size(), variable.is_dynamic = false;
    if (variable.initial.size() > variable.bytes) lexer.fail("more initial values than elements");
  }
  return variable;
}

}  // namespace emulator
