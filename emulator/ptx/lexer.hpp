// PTX as tokens. An opcode with its modifiers ("ld.shared::cta.v2.b32") is one word; so is "%tid.x".
#pragma once

#include <cstdint>
#include <string_view>

namespace emulator {

struct Token {
  enum class Kind { end, word, integer, float32, float64, string, symbol };
  Kind kind = Kind::end;
  std::string_view text;
  std::uint64_t bits = 0;  // of a number
  int line = 1;
  bool is(char c) const { return kind == Kind::symbol && text[0] == c; }
  bool is(std::string_view word) const { return kind == Kind::word && text == word; }
};

class Lexer {
 public:
  Lexer(std::string_view file, std::string_view text, int first_line = 1)
      : file_(file), text_(text), line_(first_line) {
    advance();
  }
  const Token& peek() const { return token_; }
  Token take() {
    Token t = token_;
    advance();
    return t;
  }
  // Drops what is left of this token's line: some directives end there, not at a semicolon.
  void skip_line();
  // At a `{`: drops everything to its `}` and returns what lies between, and the line it starts on.
  std::string_view skip_braces(int& first_line);
  [[noreturn]] void fail(std::string_view sentence) const;
  std::string_view file() const { return file_; }

 private:
  void advance();
  void skip_blank();
  void number();
  void word();

  std::string_view file_, text_;
  std::size_t at_ = 0;
  int line_;
  Token token_;
};

}  // namespace emulator
