// `tessera quantise`: from files to files, and on into `tessera attend`.
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/files/tensor.hpp"
#include "tests/cli/attend_fixture.hpp"

namespace tessera {
namespace {

using testing_attend::content;
using testing_attend::Element;
using testing_attend::Ran;
using testing_attend::Shape;

class Quantise : public testing_attend::Attend {
 protected:
  Ran quantise(const std::string& arguments) const { return run_verb("quantise", arguments); }
  std::vector<std::uint8_t> bytes(const files::Tensor& t) const {
    const auto* data = reinterpret_cast<const std::uint8_t*>(t.bytes.data());
    return {data, data + t.bytes.size()};
  }
};

TEST_F(Quantise, ByHand) {
  put("x.npy", content(Element::f32, {2, 2}, std::vector<float>{896, -2, 1, 3}));
  const Ran ran = quantise("--input x.npy --output x8.safetensors --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_EQ(nlohmann::json::parse(ran.text)["codes"]["dtype"], "float8_e4m3fn");
  const files::Tensor codes = load("x8.safetensors:codes"), scales = load("x8.safetensors:scales");
  EXPECT_EQ(codes.shape, (files::Shape{2, 2}));
  EXPECT_EQ(scales.shape, (files::Shape{1, 1, 1, 1}));
  expect_near(scales, {2});
  EXPECT_EQ(bytes(codes), (std::vector<std::uint8_t>{0x7e, 0xb8, 0x30, 0x3c}));  // 448, -1, 0.5, 1.5
}

TEST_F(Quantise, NpyWithFilesOfTheirOwn) {
  const Ran ran = quantise(
      "--input k.npy --output k8.npy --scales-output s.npy --smooth --means-output m.npy --scales channel "
      "--dtype e5m2 --transpose --threads 1");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  using testing_attend::kBatch, testing_attend::kDim, testing_attend::kKeys, testing_attend::kKvHeads;
  EXPECT_EQ(load("k8.npy").shape, (files::Shape{kBatch, kKvHeads, kDim, kKeys}));
  EXPECT_EQ(load("s.npy").shape, (files::Shape{kBatch, kKvHeads, 1, kDim}));
  EXPECT_EQ(load("m.npy").shape, (files::Shape{kBatch, kKvHeads, 1, kDim}));
}

TEST_F(Quantise, AttendTakesWhatItWrites) {
  for (const std::string name : {"query", "key", "value"}) {
    const Ran ran = quantise("--input " + name.substr(0, 1) + ".npy --scales block64 --output " +
                             name.substr(0, 1) + "8.safetensors:" + name);
    ASSERT_EQ(ran.exit_code, 0) << ran.text;
  }
  const Ran ran =
      run("--query q8.safetensors --key k8.safetensors --value v8.safetensors --output o.npy "
          "--query-scales q8.safetensors --key-scales k8.safetensors --value-scales v8.safetensors "
          "--scale-rows 64 --output-dtype f32 --check");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  expect_near(load("o.npy"), oracle::attend(problem_).output, 0.2);  // of numbers up to 2, with 4 bits each
}

// Of any rank, and in any layout: the value is turned over in the file, and the output is as without.
TEST_F(Quantise, AttendTakesTransposedValues) {
  using testing_attend::kDim, testing_attend::kKeys, testing_attend::kQueries, testing_attend::kValueDim;
  const auto wave = testing_attend::waves(2 * kKeys * kValueDim, 0.3);
  for (const std::string layout : {"bhsd", "bshd", "none"}) {
    // Two heads, or without any.
    const auto shape = [&](std::int64_t rows, std::int64_t dim) {
      return layout == "bhsd"   ? Shape{2, rows, dim}
             : layout == "bshd" ? Shape{rows, 2, dim}
                                : Shape{rows, dim};
    };
    const auto put_wave = [&](const std::string& name, const Shape& sizes) {
      std::int64_t count = 1;
      for (const std::int64_t size : sizes) count *= size;
      put(name, content(Element::f32, sizes, std::vector<float>(wave.begin(), wave.begin() + count)));
    };
    put_wave("q.npy", shape(kQueries, kDim));
    put_wave("k.npy", shape(kKeys, kDim));
    put_wave("v.npy", shape(kKeys, kValueDim));
    const std::string order = layout == "bshd" ? " --layout bshd" : "";
    ASSERT_EQ(quantise("--input k.npy --dtype i8 --output k8.safetensors" + order).exit_code, 0);
    ASSERT_EQ(quantise("--input v.npy --dtype i8 --output v8.safetensors" + order).exit_code, 0);
    ASSERT_EQ(quantise("--input v.npy --dtype i8 --transpose --output t8.safetensors" + order).exit_code, 0);
    const std::string rest = order +
                             " --output o.npy --query q.npy --key k8.safetensors:codes --key-scales "
                             "k8.safetensors:scales --value ";
    Ran ran = run("--value-scales v8.safetensors:scales --check " + rest + "v8.safetensors:codes");
    ASSERT_EQ(ran.exit_code, 0) << ran.text;
    const files::Tensor plain = load("o.npy");
    const std::string transposed = "--value-scales t8.safetensors:scales " + rest + "t8.safetensors:codes";
    ran = run("--value-transposed " + transposed);
    ASSERT_EQ(ran.exit_code, 0) << ran.text;
    EXPECT_EQ(load("o.npy").shape, plain.shape);
    EXPECT_EQ(bytes(load("o.npy")), bytes(plain)) << layout;
    EXPECT_EQ(run(transposed).exit_code, 2) << layout;
  }
}

TEST_F(Quantise, WholeNumbersOfACache) {
  for (const std::string name : {"key", "value"}) {
    for (const std::string& end :
         {".safetensors:" + name, std::string(".npy --scales-output ") + name[0] + "s.npy"}) {
      const Ran ran = quantise("--input " + name.substr(0, 1) + ".npy --scales head --dtype i8 --output " +
                               name.substr(0, 1) + "8" + end);
      ASSERT_EQ(ran.exit_code, 0) << ran.text;
    }
  }
  EXPECT_EQ(load("k8.npy").element, Element::i8);
  for (const std::string end : {".safetensors", ".npy"}) {
    const std::string scales = end == ".npy" ? "s.npy " : "8.safetensors ";
    const Ran ran = run("--query q.npy --key k8" + end + " --value v8" + end +
                        " --output o.npy --key-scales k" + scales + "--value-scales v" + scales + "--check");
    ASSERT_EQ(ran.exit_code, 0) << ran.text;
    expect_near(load("o.npy"), oracle::attend(problem_).output, 0.05);  // of numbers up to 2, with 7 bits
  }
}

TEST_F(Quantise, OnAGpuTheSameOrARefusal) {
  const std::string options = "--input k.npy --smooth --scales channel --transpose --output ";
  ASSERT_EQ(quantise(options + "host.safetensors").exit_code, 0);
  const Ran ran = quantise(options + "gpu.safetensors --device cuda");
  if (ran.exit_code == 3) {
    EXPECT_NE(ran.text.find("device.kind is 2 (cuda), but "), std::string::npos) << ran.text;
    GTEST_SKIP() << "skipped: quantise --device cuda, because " << ran.text;
  }
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  for (const std::string name : {"codes", "scales", "means"})
    EXPECT_EQ(bytes(load("gpu.safetensors:" + name)), bytes(load("host.safetensors:" + name))) << name;
}

TEST_F(Quantise, RefusalsSayWhy) {
  const struct {
    const char* arguments;
    const char* words;
  } all[] = {
      {"--input q.npy --output q8.npy", "pass --scales-output"},
      {"--input q.npy --output q8.npy --scales-output s.npy --smooth", "pass --means-output"},
      {"--input q.npy --output q8.safetensors --means-output m.npy", "without --smooth"},
      {"--input q.npy --output q8.safetensors --hadamard", "hadamard is set, but input.shape[3] is 3"},
      {"--input q.npy --output q8.safetensors --scales row", "--scales"},
      {"--input q.npy --output q8.safetensors --dtype f16", "--dtype"},
      {"--input no.npy --output q8.safetensors", "no.npy"},
      {"--input q.npy --output q.npy --scales-output s.npy", "is the input of this command"},
      {"--input q.npy", "--output"},
      {"--input q.npy --output q8.safetensors --device tpu",
       "--device 'tpu' is unknown; accepted: cpu, cuda"},
  };
  const std::size_t before = file_count();
  for (const auto& each : all) {
    const Ran ran = quantise(each.arguments);
    EXPECT_EQ(ran.exit_code, 2) << each.arguments;
    EXPECT_NE(ran.text.find(each.words), std::string::npos) << each.arguments << ": " << ran.text;
  }
  EXPECT_EQ(file_count(), before);
}

}  // namespace
}  // namespace tessera
