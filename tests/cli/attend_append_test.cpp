// `tessera attend` on a cache that grows: new keys and values from files, rope, and the caches written back.
#include <gtest/gtest.h>

#include <cmath>
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

class AttendAppend : public testing_attend::Attend {
 protected:
  // One query among three keys, of which the last is new: weights 1 : 1 : 2 of 4, 8 and 6. Dimension 1 is
  // there to be turned into.
  void put_files() const {
    const float ln2 = std::log(2.0f);
    put("q.npy", content(Element::f32, {1, 1, 1, 2}, std::vector<float>{1, 0}));
    put("k.npy", content(Element::f32, {1, 1, 3, 2}, std::vector<float>{0, 5, 0, 7, NAN, NAN}));
    put("v.npy", content(Element::f32, {1, 1, 3, 1}, std::vector<float>{4, 8, NAN}));
    put("nk.npy", content(Element::f32, {1, 1, 1, 2}, std::vector<float>{ln2, 9}));
    put("nv.npy", content(Element::f32, {1, 1, 1, 1}, std::vector<float>{6}));
  }
  std::vector<float> floats(const std::string& name) const {
    const files::Tensor t = load(name);
    std::vector<float> out(static_cast<std::size_t>(t.count()));
    std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
    return out;
  }
  static constexpr const char* kNew = "--scale 1 --causal bottom-right --new-key nk.npy --new-value nv.npy ";
};

TEST_F(AttendAppend, StoresAndWritesTheCachesBack) {
  put_files();
  const Ran ran =
      run_qkv(kNew + std::string("--key-output k2.npy --value-output v2.npy --lse lse.npy --check --json"));
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  const nlohmann::json json = nlohmann::json::parse(ran.text);
  EXPECT_EQ(json["new_key"]["shape"], (std::vector<int>{1, 1, 1, 2}));
  EXPECT_TRUE(json["check"]["passed"]);
  expect_near(load("o.npy"), {6});
  expect_near(load("lse.npy"), {std::log(4.0)});
  EXPECT_EQ(floats("k2.npy"), (std::vector<float>{0, 5, 0, 7, std::log(2.0f), 9}));
  EXPECT_EQ(floats("v2.npy"), (std::vector<float>{4, 8, 6}));
  EXPECT_TRUE(std::isnan(floats("k.npy")[4])) << "the file that was read was written to";
}

// The row stands at position 2, whose angle is a quarter turn: (1, 0) becomes (0, 1), the new key (ln 2, 9)
// becomes (-9, ln 2). The keys that were there are taken as they are: their second dimensions 5 and 7 count
// now.
TEST_F(AttendAppend, Rope) {
  put_files();
  put("cos.npy", content(Element::f32, {3, 1}, std::vector<float>{1, 0.6f, 0}));
  put("sin.npy", content(Element::f32, {3, 1}, std::vector<float>{0, 0.8f, 1}));
  const std::string rope = kNew + std::string("--rope-cos cos.npy --rope-sin sin.npy --check ");
  const double sum = std::exp(5.0) + std::exp(7.0) + 2;
  const double turned = (4 * std::exp(5.0) + 8 * std::exp(7.0) + 6 * 2) / sum;
  for (const char* kind : {"", "--rope-interleaved "}) {
    const Ran ran = run_qkv(rope + kind + "--key-output k2.npy --lse lse.npy");
    ASSERT_EQ(ran.exit_code, 0) << ran.text;
    expect_near(load("o.npy"), {turned});
    expect_near(load("lse.npy"), {std::log(sum)});
    EXPECT_EQ(floats("k2.npy"), (std::vector<float>{0, 5, 0, 7, -9, std::log(2.0f)}));
  }
  // At position 0 nothing turns.
  put("at.npy", content(Element::i32, {1, 1}, std::vector<std::int32_t>{0}));
  const Ran ran = run_qkv(rope + "--positions at.npy");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  expect_near(load("o.npy"), {6});
}

// Values of the file of the keys lie in them: one cache.
TEST_F(AttendAppend, ValuesInKeys) {
  put_files();
  const Ran ran =
      run("--query q.npy --key k.npy --value k.npy --output o.npy --scale 1 --causal bottom-right --new-key "
          "nk.npy "
          "--check");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  expect_near(load("o.npy"), {std::log(2.0) / 2, (5 + 7 + 18) / 4.0});
}

// One file with both is no cache in which values lie in keys, though they have the same shape.
TEST_F(AttendAppend, ValuesBesideKeysInOneFileNeedNewOnes) {
  put_files();
  put("w.npy", content(Element::f32, {1, 1, 3, 2}, std::vector<float>{4, 1, 8, 2, NAN, NAN}));
  const std::string append = "--output o.npy --scale 1 --causal bottom-right --new-key nk.npy ";
  Ran ran = run("--query q.npy --key k.npy --value w.npy --new-value nk.npy " + append +
                "--key-output both.safetensors:key --value-output both.safetensors:value");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  const std::string cache = "--query q.npy --key both.safetensors --value both.safetensors " + append;
  ran = run(cache);
  EXPECT_EQ(ran.exit_code, 2) << ran.text;
  EXPECT_NE(ran.text.find("new_value"), std::string::npos) << ran.text;
  ran = run(cache + "--new-value nk.npy --check");
  EXPECT_EQ(ran.exit_code, 0) << ran.text;
}

TEST_F(AttendAppend, RefusalsSayWhy) {
  put_files();
  const struct {
    std::string flags, words;
  } bad[] = {
      {"--new-key nk.npy --new-value nv.npy", "new_key needs mask.align = bottom-right"},
      {"--causal bottom-right --new-key nk.npy", "without new_value the values lie in key, row by row"},
      {"--causal bottom-right --new-value nv.npy", "new_value is set and new_key is not"},
      {"--causal bottom-right --new-key nv.npy --new-value nv.npy", "new_key.shape[3] is 1"},
      {"--key-output k2.npy", "--key-output, --value-output and --key-tail-output need --new-key"},
      {kNew + std::string("--key-output k.npy"), "k.npy is an input of this command"},
      {kNew + std::string("--key-output nk.npy"), "nk.npy is an input of this command"},
      {"--rope-first 1", "rope.first is 1, but there is no rope.cos"},
      {"--rope-first 1", "Here rope.first is --rope-first, rope.cos is --rope-cos."},
      {"--new-key nk.npy --new-value nv.npy",
       "Here new_key is --new-key, mask.align is --causal or --align."},
      {"--causal bottom-right --rope-cos nv.npy", "a table of cosines"},
  };
  for (const auto& each : bad) {
    const Ran ran = run_qkv(each.flags);
    EXPECT_EQ(ran.exit_code, 2) << each.flags << ran.text;
    EXPECT_NE(ran.text.find(each.words), std::string::npos) << each.flags << ": " << ran.text;
  }
}

}  // namespace
}  // namespace tessera
