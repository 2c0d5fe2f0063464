// What modules and bodies have in common: types, and declarations of variables.
#pragma once

#include <optional>

#include "emulator/ptx/lexer.hpp"
#include "emulator/ptx/module.hpp"

namespace emulator {

std::optional<std::size_t> type_bytes(std::string_view type);  // ".b32": 4
void expect(Lexer& lexer, char symbol);
std::uint64_t expect_integer(Lexer& lexer);
std::string_view expect_name(Lexer& lexer);
// Behind the space's word: .align, type, name, [size], = {...}, up to the semicolon or the end of a
// parameter.
Variable parse_variable(Lexer& lexer, Space space);

}  // namespace emulator
