// `tessera attend` on 8-bit inputs: bytes of .npy files with --dtype, scales, the output's dtype.
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/files/tensor.hpp"
#include "tests/cli/attend_fixture.hpp"

namespace tessera {
namespace {

using files::Element;
using testing_attend::content;
using testing_attend::Ran;

class AttendCodes : public testing_attend::Attend {
 protected:
  // A query of 1 and keys of 1 and 2 in e4m3; values 4 and 8, which a window of one takes apart.
  void put_codes() const {
    put("q.npy", content(Element::u8, {1, 1, 2, 1}, std::vector<std::uint8_t>{0x38, 0x38}));
    put("k.npy", content(Element::u8, {1, 1, 2, 1}, std::vector<std::uint8_t>{0x38, 0x40}));
    put("v.npy", content(Element::u8, {1, 1, 2, 1}, std::vector<std::uint8_t>{0x48, 0x50}));
  }
};

TEST_F(AttendCodes, FromBytesWithScales) {
  put_codes();
  put("three.npy", content(Element::f32, {}, std::vector<float>{3}));
  put("five.npy", content(Element::f32, {1, 1, 1, 1}, std::vector<float>{5}));
  const std::string common = "--dtype f8e4m3 --scale 1 --window 0,0 --align top-left --lse lse.npy --check ";
  Ran ran = run_qkv(common + "--key-scales three.npy --value-scales five.npy --scale-rows 64 --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_EQ(nlohmann::json::parse(ran.text)["key_scales"]["dtype"], "float32");
  EXPECT_EQ(load("o.npy").element, Element::f16);
  expect_near(load("o.npy"), {20, 40});
  expect_near(load("lse.npy"), {3, 6});

  ran = run_qkv(common + "--output-dtype f32 --precision fast");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_EQ(load("o.npy").element, Element::f32);
  expect_near(load("o.npy"), {4, 8});
}

// Keys and values of 8 bits beside a query of floats: int8 as it is, bytes by --dtype.
TEST_F(AttendCodes, ACacheBesideAWideQuery) {
  put("q.npy", content(Element::f32, {1, 1, 2, 1}, std::vector<float>{0.5f, 0.5f}));
  put("k.npy", content(Element::i8, {1, 1, 2, 1}, std::vector<std::int8_t>{2, -4}));
  put("v.npy", content(Element::i8, {1, 1, 2, 1}, std::vector<std::int8_t>{127, -128}));
  put("three.npy", content(Element::f32, {}, std::vector<float>{3}));
  const std::string common = "--scale 1 --window 0,0 --align top-left --lse lse.npy --check ";
  Ran ran = run_qkv(common + "--key-scales three.npy --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_EQ(nlohmann::json::parse(ran.text)["key"]["dtype"], "int8");
  EXPECT_EQ(load("o.npy").element, Element::f32);
  expect_near(load("o.npy"), {127, -128});
  expect_near(load("lse.npy"), {3, -6});
  ran = run_qkv(common + "--dtype f8e4m3");  // their bits: 2^-8 and -384
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  expect_near(load("lse.npy"), {0.5 * 0x1p-8, -0.5 * 384});
  ran = run("--query k.npy --key k.npy --value v.npy --output o.npy");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.text.find("query.dtype is i8"), std::string::npos) << ran.text;
}

// Values of two dimensions, side by side for each of them.
TEST_F(AttendCodes, TransposedValues) {
  put_codes();
  const std::vector<std::uint8_t> by_dim = {0x38, 0x40, 0x48, 0x50};  // 1 and 2, then 4 and 8
  for (const files::Shape& shape : {files::Shape{1, 1, 2, 2}, {1, 2, 2}, {2, 2}}) {
    const auto leading = shape.size() - 2;
    for (const char* name : {"q.npy", "k.npy"}) {
      files::Shape rows(leading, 1);
      rows.insert(rows.end(), {2, 1});
      put(name, content(Element::u8, rows, std::vector<std::uint8_t>{0x38, 0x38}));
    }
    put("v.npy", content(Element::u8, shape, by_dim));
    for (const char* layout : {"bhsd", "bshd"}) {
      if (leading > 0 && std::string(layout) == "bshd") continue;  // queries would be heads
      const Ran ran = run_qkv(std::string("--dtype f8e4m3 --value-transposed --window 0,0 --align top-left "
                                          "--check --layout ") +
                              layout);
      ASSERT_EQ(ran.exit_code, 0) << ran.text;
      expect_near(load("o.npy"), {1, 4, 2, 8});
    }
  }
  put("v.npy", content(Element::f32, {2, 2}, std::vector<float>{1, 2, 4, 8}));
  const Ran ran = run_qkv("--dtype f8e4m3 --value-transposed");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.text.find("v.npy: it holds float32; with --value-transposed values of 8 bits are accepted"),
            std::string::npos)
      << ran.text;
}

TEST_F(AttendCodes, RefusalsSayWhy) {
  put_codes();
  Ran ran = run_qkv("");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.text.find("--dtype f8e4m3"), std::string::npos) << ran.text;
  ran = run_qkv("--dtype f8e5m2 --scale-rows 32");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.text.find("scale_rows is 32"), std::string::npos) << ran.text;
  ran = run_qkv("--dtype f8e5m2 --precision best");
  EXPECT_EQ(ran.exit_code, 2);
}

}  // namespace
}  // namespace tessera
