// `tessera attend` on keys in two tensors: --key-tail, and new rows that go to both.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
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

class AttendTail : public testing_attend::Attend {
 protected:
  // A query (1 | 1) among two keys, of codes 0 and of tails 0 and ln 3: weights 1 : 3 of 4 and 8.
  void put_files() const {
    put("q.npy", content(Element::f32, {1, 1, 1, 2}, std::vector<float>{1, 1}));
    put("k.npy", content(Element::i8, {1, 1, 2, 1}, std::vector<std::int8_t>{0, 0}));
    put("t.npy", content(Element::f32, {1, 1, 2, 1}, std::vector<float>{0, std::log(3.0f)}));
    put("v.npy", content(Element::i8, {1, 1, 2, 1}, std::vector<std::int8_t>{4, 8}));
  }
  std::vector<float> floats(const std::string& name) const {
    const files::Tensor t = load(name);
    std::vector<float> out(static_cast<std::size_t>(t.count()));
    std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
    return out;
  }
};

TEST_F(AttendTail, OnlyTheTailDecides) {
  put_files();
  const Ran ran = run_qkv("--key-tail t.npy --scale 1 --lse lse.npy --check --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  const nlohmann::json json = nlohmann::json::parse(ran.text);
  EXPECT_EQ(json["key_tail"]["shape"], (std::vector<int>{1, 1, 2, 1}));
  expect_near(load("o.npy"), {7});
  expect_near(load("lse.npy"), {std::log(4.0)});
}

TEST_F(AttendTail, NewRowsGoToBoth) {
  put_files();
  put("nk.npy", content(Element::f32, {1, 1, 1, 2}, std::vector<float>{-2, 2 + std::log(3.0f)}));
  put("nv.npy", content(Element::f32, {1, 1, 1, 1}, std::vector<float>{12}));
  const Ran ran = run_qkv(
      "--key-tail t.npy --scale 1 --causal bottom-right --new-key nk.npy --new-value nv.npy "
      "--key-output k2.npy --value-output v2.npy --key-tail-output t2.npy --check");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  expect_near(load("o.npy"), {10});  // 4 and 12, 1 : 3
  EXPECT_EQ(static_cast<int>(load("k2.npy").bytes[1]), 0xfe);
  EXPECT_EQ(floats("t2.npy"), (std::vector<float>{0, 2 + std::log(3.0f)}));
  EXPECT_EQ(floats("t.npy")[1], std::log(3.0f)) << "the file that was read was written to";
}

TEST_F(AttendTail, RefusalsSayWhy) {
  put_files();
  Ran ran = run_qkv("");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.text.find("key.shape[3] is 1, but query's head dimension is 2"), std::string::npos)
      << ran.text;
  ran = run_qkv("--key-tail t.npy --key-tail-output t2.npy");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.text.find("need --new-key"), std::string::npos) << ran.text;
  ran = run_qkv("--key-tail-output t2.npy");
  EXPECT_NE(ran.text.find("--key-tail-output needs --key-tail"), std::string::npos) << ran.text;
  ran = run("--query q.npy --key k.npy --value v.npy --key-tail t.npy --output t.npy");
  EXPECT_NE(ran.text.find("is an input of this command"), std::string::npos) << ran.text;
  put("t.npy", content(Element::f32, {1, 2, 1}, std::vector<float>{0, 0}));
  ran = run_qkv("--key-tail t.npy");
  EXPECT_NE(ran.text.find("need the same number of dimensions"), std::string::npos) << ran.text;
}

}  // namespace
}  // namespace tessera
