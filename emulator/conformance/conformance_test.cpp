// The emulator beside what an H200 computed, form by form.
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/conformance/recording.hpp"

namespace emulator::conformance {
namespace {

const Recording& recording() {
  static const Recording all = load(EMULATOR_RECORDING);
  return all;
}

void compare_family(void (*add)(std::vector<Case>&)) {
  std::vector<Case> cases;
  add(cases);
  for (const Case& one : cases) {
    const auto found = recording().find(one.name);
    if (found == recording().end()) {
      ADD_FAILURE() << one.name << " was never recorded: tessera-conformance record";
      continue;
    }
    try {
      const std::string text = compare(one, found->second, emulate(one));
      EXPECT_EQ(text, "");
    } catch (const std::exception& error) {
      ADD_FAILURE() << one.name << ": " << error.what();
    }
  }
}

TEST(Conformance, Arithmetic) { compare_family(add_lane_cases); }
TEST(Conformance, LanesWithEachOther) { compare_family(add_warp_cases); }
TEST(Conformance, Memory) { compare_family(add_memory_cases); }
TEST(Conformance, Matrices) { compare_family(add_matrix_cases); }
TEST(Conformance, MatricesOf8Bits) { compare_family(add_float8_cases); }

// A difference is found, and shown with operands.
TEST(Conformance, ADifferenceIsShown) {
  std::vector<Case> cases;
  add_lane_cases(cases);
  const Case& one = cases.front();
  std::vector<std::uint32_t> output = emulate(one);
  const Record record = shorten(one, output);
  EXPECT_EQ(compare(one, record, output), "");
  output[5 * one.item_words] ^= 1;
  const std::string kept = compare(one, record, output);
  EXPECT_NE(kept.find(one.name + ", item 5, operands 0x"), std::string::npos) << kept;
  EXPECT_NE(kept.find("on the GPU 0x"), std::string::npos) << kept;
  output[5 * one.item_words] ^= 1;
  output[300 * one.item_words] ^= 1;
  EXPECT_EQ(compare(one, record, output),
            one.name + ": of the results 128 to 383 some differ; only their hash is kept\n");
}

// Approximate results are close, not equal; what is far is found.
TEST(Conformance, BoundsAreKept) {
  Case one;
  one.name = "approximate";
  one.items = one.kept = 2;
  one.item_words = 1;
  one.result_bits = 32;
  one.bound = Bound{0x1p-22, 0};
  const std::vector<std::uint32_t> gpu = {0x3f800000, 0x7f800000};
  const Record record = shorten(one, gpu);
  EXPECT_EQ(compare(one, record, {0x3f800002, 0x7f800000}), "");
  EXPECT_NE(compare(one, record, {0x3f800003, 0x7f800000}), "");
  EXPECT_NE(compare(one, record, {0x3f800000, 0x7f7fffff}), "");
}

TEST(Conformance, AChangedCaseMustBeRecordedAgain) {
  std::vector<Case> cases;
  add_warp_cases(cases);
  Case one = cases.front();
  const auto output = emulate(one);
  const Record record = shorten(one, output);
  one.input[0] ^= 1;
  EXPECT_NE(compare(one, record, output).find("record it again"), std::string::npos);
}

}  // namespace
}  // namespace emulator::conformance
