#include "emulator/ptx/lexer.hpp"

#include <string>

#include "emulator/ptx/error.hpp"

namespace emulator {
namespace {

bool starts_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%' || c == '.';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_word(char c) { return starts_word(c) || is_digit(c); }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void Lexer::fail(std::string_view sentence) const { throw PtxError(file_, token_.line, sentence); }

void Lexer::skip_blank() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (c == '\n') {
      ++line_, ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && next == '/') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '/' && next == '*') {
      const std::size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) {
        token_.line = line_;
        fail("a comment that does not end");
      }
      for (; at_ < end + 2; ++at_) line_ += text_[at_] == '\n';
    } else {
      return;
    }
  }
}

void Lexer::number() {
  const std::size_t start = at_;
  const auto hex = [&](std::size_t digits) {
    std::uint64_t value = 0;
    std::size_t n = 0;
    for (; at_ < text_.size() && hex_digit(text_[at_]) >= 0; ++at_, ++n)
      value = value << 4 | static_cast<std::uint64_t>(hex_digit(text_[at_]));
    if (n == 0 || n > 16 || (digits != 0 && n != digits)) fail("a number that cannot be read");
    return value;
  };
  token_.kind = Token::Kind::integer;
  const char form = text_[at_] == '0' && at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  if (form == 'x' || form == 'X') {
    at_ += 2;
    token_.bits = hex(0);
  } else if (form == 'f' || form == 'F') {
    at_ += 2;
    token_.kind = Token::Kind::float32;
    token_.bits = hex(8);
  } else if (form == 'd' || form == 'D') {
    at_ += 2;
    token_.kind = Token::Kind::float64;
    token_.bits = hex(16);
  } else {
    std::uint64_t value = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (value > (~std::uint64_t{0} - digit) / 10) fail("a number over 64 bits");
      value = value * 10 + digit;
    }
    token_.bits = value;
  }
  if (at_ < text_.size() && text_[at_] == 'U') ++at_;
  if (at_ < text_.size() && in_word(text_[at_])) fail("a number that cannot be read");
  token_.text = text_.substr(start, at_ - start);
}

void Lexer::word() {
  const std::size_t start = at_;
  while (at_ < text_.size()) {
    if (in_word(text_[at_])) {
      ++at_;
    } else if (text_[at_] == ':' && at_ + 2 < text_.size() && text_[at_ + 1] == ':' &&
               in_word(text_[at_ + 2])) {
      at_ += 2;
    } else {
      break;
    }
  }
  token_.kind = Token::Kind::word;
  token_.text = text_.substr(start, at_ - start);
}

void Lexer::advance() {
  skip_blank();
  token_ = Token{};
  token_.line = line_;
  if (at_ >= text_.size()) return;
  const char c = text_[at_];
  if (is_digit(c)) {
    number();
  } else if (starts_word(c)) {
    word();
  } else if (c == '"') {
    const std::size_t end = text_.find_first_of("\"\n", at_ + 1);
    if (end == std::string_view::npos || text_[end] == '\n') fail("a string that does not end");
    token_.kind = Token::Kind::string;
    token_.text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
  } else if (std::string_view(",;[]{}()|+-=<>@!:*~/").find(c) != std::string_view::npos) {
    token_.kind = Token::Kind::symbol;
    token_.text = text_.substr(at_++, 1);
  } else {
    fail("a character that PTX does not have: code " + std::to_string(static_cast<unsigned char>(c)));
  }
}

void Lexer::skip_line() {
  const int line = token_.line;
  while (token_.kind != Token::Kind::end && token_.line == line) {
    if (line_ == line && at_ < text_.size()) {  // nothing of the next line was read yet
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    }
    advance();
  }
}

std::string_view Lexer::skip_braces(int& first_line) {
  if (!token_.is('{')) fail("expected {");
  first_line = line_;
  const std::size_t start = at_;
  int depth = 1;
  std::size_t end = at_;
  while (true) {
    end = at_;
    advance();
    if (token_.kind == Token::Kind::end) fail("a { that is never closed");
    if (token_.is('{')) ++depth;
    if (token_.is('}') && --depth == 0) break;
  }
  advance();
  return text_.substr(start, end - start);
}

}  // namespace emulator
