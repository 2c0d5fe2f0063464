// `tessera attend` on batches of sequences: offsets, pages, prior results and masks over the last keys, from
// files.
#include <gtest/gtest.h>

#include <cmath>
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

class AttendBatches : public testing_attend::Attend {};

// The same keys one behind the other and in pages; rows 1 and 2 belong to entry 0 (weights 1 : 3 of 4 and 8),
// row 3 to entry 1 (1 : 2 of 3 and 6), row 0 to none. Then prior results that weigh as much as the keys.
TEST_F(AttendBatches, FromFiles) {
  const float ln2 = std::log(2.0f), ln3 = std::log(3.0f), ln4 = std::log(4.0f);
  put("q.npy", content(Element::f32, {1, 1, 4, 1}, std::vector<float>{9, 1, 1, 1}));
  put("k.npy", content(Element::f32, {1, 1, 4, 1}, std::vector<float>{0, ln3, 0, ln2}));
  put("v.npy", content(Element::f32, {1, 1, 4, 1}, std::vector<float>{4, 8, 3, 6}));
  put("rows.npy", content(Element::i32, {3}, std::vector<std::int32_t>{1, 3, 4}));
  put("keys.npy", content(Element::i64, {3}, std::vector<std::int64_t>{0, 2, 4}));
  const std::vector<double> output = {0, 7, 7, 5},
                            lse = {-INFINITY, std::log(4.0), std::log(4.0), std::log(3.0)};
  Ran ran = run_qkv("--scale 1 --query-offsets rows.npy --key-offsets keys.npy --lse lse.npy --check");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  expect_near(load("o.npy"), output);
  expect_near(load("lse.npy"), lse);

  put("k.npy", content(Element::f32, {3, 1, 2, 1}, std::vector<float>{0, ln2, NAN, NAN, 0, ln3}));
  put("v.npy", content(Element::f32, {3, 1, 2, 1}, std::vector<float>{3, 6, NAN, NAN, 4, 8}));
  put("table.npy", content(Element::i64, {2, 2}, std::vector<std::int64_t>{2, std::int64_t{1} << 40, 0, -1}));
  put("lengths.npy", content(Element::i64, {2}, std::vector<std::int64_t>{2, 2}));
  const std::string paged =
      "--scale 1 --query-offsets rows.npy --page-table table.npy --key-lengths lengths.npy ";
  ran = run_qkv(paged + "--lse lse.npy --check --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_EQ(nlohmann::json::parse(ran.text)["page_table"]["shape"], (std::vector<int>{2, 2}));
  expect_near(load("o.npy"), output);
  expect_near(load("lse.npy"), lse);

  put("prior.npy", content(Element::f32, {1, 1, 4, 1}, std::vector<float>{1, 10, 1, 1}));
  put("prior_lse.npy", content(Element::f32, {1, 1, 4}, std::vector<float>{0, ln4, -INFINITY, -INFINITY}));
  ran = run_qkv(paged + "--prior-output prior.npy --prior-lse prior_lse.npy --check");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  expect_near(load("o.npy"), {0, 8.5, 7, 5});

  put("mask.npy", content(Element::boolean, {1}, std::vector<std::uint8_t>{0}));
  ran = run_qkv(paged + "--mask mask.npy --mask-align bottom-right --check");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  expect_near(load("o.npy"), {0, 4, 4, 3});

  put("lengths.npy", content(Element::i64, {2}, std::vector<std::int64_t>{3, 2}));
  ran = run_qkv(paged);
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.text.find("page_table[0, 1] is 1099511627776, and key 2 of entry 0 needs it"),
            std::string::npos)
      << ran.text;
  EXPECT_NE(ran.text.find("Here page_table is --page-table."), std::string::npos) << ran.text;
}

}  // namespace
}  // namespace tessera
