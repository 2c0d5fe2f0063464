// Cases in words, as tests write them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cases/case.hpp"

namespace tessera::testing_cases {

// A failure of the test if the words are none.
inline cases::Case case_of(const std::string& words) {
  std::string error;
  const auto c = cases::parse(words, &error);
  EXPECT_TRUE(c.has_value()) << words << " : " << error;
  return c.value_or(cases::Case{});
}

// The sentence about words that are no case.
inline std::string mistake_in(const std::string& words) {
  std::string error;
  EXPECT_FALSE(cases::parse(words, &error).has_value()) << words;
  return error;
}

}  // namespace tessera::testing_cases
