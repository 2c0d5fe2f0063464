// `tessera attend` end to end: files in, the real binary, files out; every option against the oracle, every
// refusal with its exit code, its sentence and nothing left behind.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/attend_check.hpp"
#include "cli/files/npy.hpp"
#include "cli/files/safetensors.hpp"
#include "cli/files/tensor.hpp"
#include "oracle/oracle.hpp"
#include "tests/cli/attend_fixture.hpp"

namespace tessera {

const char* const testing_attend::kBinary = TESSERA_BINARY;

namespace {

namespace fs = std::filesystem;
using files::Element;
using files::Shape;
using namespace testing_attend;

TEST_F(Attend, AProblemWorkedOutByHand) {
  // Scores of row 0: 1 and 0; of row 1: 2 and 0. Values 10 and 20.
  put("q.npy", content(Element::f32, {2, 1}, std::vector<float>{1, 2}));
  put("k.npy", content(Element::f32, {2, 1}, std::vector<float>{1, 0}));
  put("v.npy", content(Element::f32, {2, 1}, std::vector<float>{10, 20}));
  const Ran ran = run_qkv("--lse lse.npy --check");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  const double p0 = std::exp(1.0) / (std::exp(1.0) + 1), p1 = std::exp(2.0) / (std::exp(2.0) + 1);
  EXPECT_EQ(load("o.npy").shape, (Shape{2, 1}));
  expect_near(load("o.npy"), {20 - 10 * p0, 20 - 10 * p1});
  EXPECT_EQ(load("lse.npy").shape, Shape{2});
  expect_near(load("lse.npy"), {std::log(std::exp(1.0) + 1), std::log(std::exp(2.0) + 1)});
}

TEST_F(Attend, EveryOptionReachesTheKernel) {
  std::vector<float> slopes = {0.5f, 0.25f, 0.125f, 1.0f}, sinks = {0.3f, -1.0f, 2.0f, 0.0f},
                     bias = waves(kKeys, 3);
  std::vector<std::uint8_t> visible = {1, 0, 1, 1, 0, 1, 1};
  std::vector<std::int64_t> lengths = {0, 4};
  std::vector<std::int16_t> short_lengths = {0, 4};
  put("slopes.npy", content(Element::f32, {kHeads}, slopes));
  put("sinks.npy", content(Element::f32, {kHeads}, sinks));
  put("bias.npy", content(Element::f32, {kKeys}, bias));
  put("visible.npy", content(Element::boolean, {1, kKeys}, visible));
  put("lengths.npy", content(Element::i64, {kBatch}, lengths));
  put("short_lengths.npy", content(Element::i16, {kBatch}, short_lengths));
  const auto list = [](void* data, tessera_dtype dtype, std::int64_t size) {
    return tessera_tensor{data, dtype, 1, {size, 0, 0, 0}, {1, 0, 0, 0}};
  };
  const auto band = [](tessera_attention* p, tessera_align align, std::int64_t left, std::int64_t right) {
    p->mask.align = align;
    p->mask.left = left;
    p->mask.right = right;
  };
  const struct {
    const char* flags;
    std::function<void(tessera_attention*)> same;
  } options[] = {
      {"", [](auto*) {}},
      {"--causal top-left", [&](auto* p) { band(p, TESSERA_ALIGN_TOP_LEFT, -1, 0); }},
      {"--causal bottom-right", [&](auto* p) { band(p, TESSERA_ALIGN_BOTTOM_RIGHT, -1, 0); }},
      {"--window 1,2 --align top-left", [&](auto* p) { band(p, TESSERA_ALIGN_TOP_LEFT, 1, 2); }},
      {"--window unbounded,1 --align bottom-right",
       [&](auto* p) { band(p, TESSERA_ALIGN_BOTTOM_RIGHT, -1, 1); }},
      {"--window 2,9 --causal bottom-right", [&](auto* p) { band(p, TESSERA_ALIGN_BOTTOM_RIGHT, 2, 0); }},
      {"--scale 0.2", [](auto* p) { p->scale = 0.2f; }},
      {"--scale 0", [](auto* p) { p->scale = TESSERA_SCALE_ZERO; }},
      {"--softcap 1.5", [](auto* p) { p->softcap = 1.5f; }},
      {"--mask bias.npy", [&](auto* p) { p->mask.tensor = list(bias.data(), TESSERA_F32, kKeys); }},
      {"--mask visible.npy", [&](auto* p) { p->mask.tensor = list(visible.data(), TESSERA_BOOL, kKeys); }},
      {"--key-lengths lengths.npy",
       [&](auto* p) { p->key_lengths = list(lengths.data(), TESSERA_I64, kBatch); }},
      {"--key-lengths short_lengths.npy",
       [&](auto* p) { p->key_lengths = list(lengths.data(), TESSERA_I64, kBatch); }},
      {"--sinks sinks.npy", [&](auto* p) { p->sinks = list(sinks.data(), TESSERA_F32, kHeads); }},
      {"--alibi slopes.npy --align bottom-right",
       [&](auto* p) {
         p->alibi_slopes = list(slopes.data(), TESSERA_F32, kHeads);
         p->mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
       }},
      {"--kernel cpu_scalar --threads 1", [](auto*) {}},
  };
  for (const auto& option : options) {
    SCOPED_TRACE(option.flags);
    const Ran ran = run_qkv(std::string(option.flags) + " --lse lse.npy --check");
    ASSERT_EQ(ran.exit_code, 0) << ran.text;
    tessera_attention p = problem_;
    option.same(&p);
    const oracle::Result want = oracle::attend(p);
    expect_near(load("o.npy"), want.output);
    expect_near(load("lse.npy"), want.lse);
  }
}

TEST_F(Attend, LayoutsAndRanks) {
  const std::vector<double> want = oracle::attend(problem_).output;
  const auto swapped = [](const std::vector<float>& from, std::int64_t heads, std::int64_t rows,
                          std::int64_t dim) {
    std::vector<float> to(from.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(from.size()); ++i) {
      const std::int64_t d = i % dim, row = i / dim % rows, head = i / dim / rows % heads,
                         b = i / dim / rows / heads;
      to[static_cast<std::size_t>(((b * rows + row) * heads + head) * dim + d)] =
          from[static_cast<std::size_t>(i)];
    }
    return to;
  };
  put("q2.npy", content(Element::f32, {kBatch, kQueries, kHeads, kDim}, swapped(q_, kHeads, kQueries, kDim)));
  put("k2.npy", content(Element::f32, {kBatch, kKeys, kKvHeads, kDim}, swapped(k_, kKvHeads, kKeys, kDim)));
  put("v2.npy",
      content(Element::f32, {kBatch, kKeys, kKvHeads, kValueDim}, swapped(v_, kKvHeads, kKeys, kValueDim)));
  Ran ran = run("--query q2.npy --key k2.npy --value v2.npy --output o.npy --layout bshd");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_EQ(load("o.npy").shape, (Shape{kBatch, kQueries, kHeads, kValueDim}));
  std::vector<float> flat(want.begin(), want.end());
  flat = swapped(flat, kHeads, kQueries, kValueDim);
  expect_near(load("o.npy"), {flat.begin(), flat.end()});

  // The first batch entry alone, without its dimension.
  const auto half = [](const std::vector<float>& v) {
    return std::vector<float>(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2));
  };
  put("q3.npy", content(Element::f32, {kHeads, kQueries, kDim}, half(q_)));
  put("k3.npy", content(Element::f32, {kKvHeads, kKeys, kDim}, half(k_)));
  put("v3.npy", content(Element::f32, {kKvHeads, kKeys, kValueDim}, half(v_)));
  ran = run("--query q3.npy --key k3.npy --value v3.npy --output o.npy --lse lse.npy");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_EQ(load("o.npy").shape, (Shape{kHeads, kQueries, kValueDim}));
  EXPECT_EQ(load("lse.npy").shape, (Shape{kHeads, kQueries}));
  expect_near(load("o.npy"), {want.begin(), want.begin() + static_cast<std::ptrdiff_t>(want.size() / 2)});
}

TEST_F(Attend, SixteenBitFloatsAndConversions) {
  const std::vector<double> want = oracle::attend(problem_).output;
  const auto rounded = [](const std::vector<float>& values, tessera_dtype dtype) {
    std::vector<std::uint16_t> bits(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      oracle::store(bits.data(), dtype, static_cast<std::int64_t>(i), values[i]);
    return bits;
  };
  const auto put_all = [&](Element element, tessera_dtype dtype) {
    put("q.npy", content(element, {kBatch, kHeads, kQueries, kDim}, rounded(q_, dtype)));
    put("k.npy", content(element, {kBatch, kKvHeads, kKeys, kDim}, rounded(k_, dtype)));
    put("v.npy", content(element, {kBatch, kKvHeads, kKeys, kValueDim}, rounded(v_, dtype)));
  };
  put_all(Element::f16, TESSERA_F16);
  ASSERT_EQ(run_qkv("--check").exit_code, 0);
  EXPECT_EQ(load("o.npy").element, Element::f16);
  expect_near(load("o.npy"), want, 0.02);
  put_all(Element::bf16, TESSERA_BF16);
  ASSERT_EQ(run_qkv("--check").exit_code, 0);
  expect_near(load("o.npy"), want, 0.1);
  put_all(Element::u16, TESSERA_BF16);
  Ran ran = run_qkv("");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.text.find("--dtype bf16"), std::string::npos) << ran.text;
  ASSERT_EQ(run_qkv("--dtype bf16").exit_code, 0);
  expect_near(load("o.npy"), want, 0.1);

  const auto wide = [](const std::vector<float>& v) { return std::vector<double>(v.begin(), v.end()); };
  put("q.npy", content(Element::f64, {kBatch, kHeads, kQueries, kDim}, wide(q_)));
  put("k.npy", content(Element::f64, {kBatch, kKvHeads, kKeys, kDim}, wide(k_)));
  put("v.npy", content(Element::f64, {kBatch, kKvHeads, kKeys, kValueDim}, wide(v_)));
  ran = run_qkv("");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_NE(ran.text.find("pass --convert"), std::string::npos) << ran.text;
  ASSERT_EQ(run_qkv("--convert").exit_code, 0);
  expect_near(load("o.npy"), want);
}

TEST_F(Attend, SafetensorsInAndOutAndJson) {
  std::string file =
      files::safetensors_header({{"q", Element::f32, {kBatch, kHeads, kQueries, kDim}},
                                 {"my.key", Element::f32, {kBatch, kKvHeads, kKeys, kDim}},
                                 {"value", Element::f32, {kBatch, kKvHeads, kKeys, kValueDim}}});
  for (const auto* values : {&q_, &k_, &v_}) {
    file.append(reinterpret_cast<const char*>(values->data()), values->size() * sizeof(float));
  }
  put("m.safetensors", file);
  const Ran ran =
      run("--query m.safetensors --key m.safetensors:my.key --value m.safetensors --output r.safetensors "
          "--lse r.safetensors --json --check");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  const auto json = nlohmann::json::parse(ran.text);
  EXPECT_EQ(json["key"]["source"], "m.safetensors:my.key");
  EXPECT_EQ(json["output"]["shape"], (std::vector<std::int64_t>{kBatch, kHeads, kQueries, kValueDim}));
  EXPECT_TRUE(json["check"]["passed"].get<bool>());
  EXPECT_LE(json["check"]["worst_ratio"].get<double>(), 1.0);
  EXPECT_EQ(json["check"]["rows_judged"], kBatch * kHeads * kQueries);
  const oracle::Result want = oracle::attend(problem_);
  expect_near(load("r.safetensors:output"), want.output);
  expect_near(load("r.safetensors:lse"), want.lse);
}

TEST_F(Attend, RefusalsSayWhyAndLeaveNothing) {
  put("short.npy", content(Element::f32, {kBatch, kHeads, kQueries, kDim}, std::vector<float>(3)));
  put("text.npy", "hello");
  put("seven_heads.npy",
      content(Element::f32, {kBatch, 7, kKeys, kDim}, std::vector<float>(kBatch * 7 * kKeys * kDim)));
  put("too_long.npy", content(Element::i64, {kBatch}, std::vector<std::int64_t>{kKeys + 1, 0}));
  put("flat.npy", content(Element::f32, {4}, std::vector<float>(4)));
  put("no_keys.npy", content(Element::f32, {kBatch, kKvHeads, 0, kDim}, std::vector<float>()));
  put("wide_no_keys.npy", content(Element::f32, {kBatch, kKvHeads, 0, 1 << 30}, std::vector<float>()));
  put("bad.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}");
  fs::create_directory(folder_ / "folder.npy");
  const std::size_t before = file_count();
  const std::string good = "--query q.npy --key k.npy --value v.npy ";
  const struct {
    std::string arguments;
    int exit_code;
    const char* says;
  } refusals[] = {
      {"", 2, "--query is required"},
      {"--query missing.npy --key k.npy --value v.npy --output o.npy", 2, "missing.npy: No such file"},
      {"--query folder.npy --key k.npy --value v.npy --output o.npy", 2, "it is a directory"},
      {"--query short.npy --key k.npy --value v.npy --output o.npy", 2, "short.npy: the shape"},
      {"--query text.npy --key k.npy --value v.npy --output o.npy", 2, "text.npy: this is no .npy file"},
      {"--query flat.npy --key flat.npy --value flat.npy --output o.npy", 2, "[batch, heads, rows, dim]"},
      {"--query q.npy --key flat.npy --value v.npy --output o.npy", 2, "same number of dimensions"},
      {"--query q.npy --key seven_heads.npy --value v.npy --output o.npy", 2, "key.shape[1] is 7"},
      {"--query q.npy --key no_keys.npy --value wide_no_keys.npy --output o.npy", 2,
       "head dimension is 1073741824"},
      {"--query bad.safetensors --key k.npy --value v.npy --output o.npy", 2,
       "bad.safetensors: the header claims"},
      {good + "--output q.npy", 2, "q.npy is an input"},
      {good + "--output ../" + folder_.filename().string() + "/v.npy", 2, "v.npy is an input"},
      {good + "--output o.txt", 2, ".npy or .safetensors"},
      {good + "--output no/such/o.npy", 2, "no/such/o.npy: No such file"},
      {good + "--output folder.npy", 2, "it is a directory"},
      {good + "--output o.npy --lse o.npy", 2, "two results cannot share"},
      {good + "--output o.npy --lse ./o.npy", 2, "two results cannot share"},
      {good + "--output o.npy --key-lengths too_long.npy", 2, "key_lengths[0] is 8"},
      {good + "--output o.npy --key-lengths flat.npy", 2, "integers are needed"},
      {good + "--output o.npy --window 3,1", 2, "--window needs --align"},
      {good + "--output o.npy --window 3 --causal top-left", 2, "LEFT,RIGHT"},
      {good + "--output o.npy --window=-2,1 --align top-left", 2, "LEFT,RIGHT"},
      {good + "--output o.npy --window=-1,0 --align top-left", 2, "--window is '-1,0'; accepted: LEFT,RIGHT"},
      {good + "--output o.npy --window=0,-1 --align top-left", 2, "--window is '0,-1'"},
      {good + "--output o.npy --window 1,2x --align top-left", 2, "--window is '1,2x'"},
      {good + "--output o.npy --window 99999999999999999999,0 --align top-left", 2, "LEFT,RIGHT"},
      {good + "--output o.npy --lse ''", 2, "'' is no file name"},
      {good + "--output o.npy --causal top-left --align bottom-right", 2, "contradict"},
      {good + "--output o.npy --causal sideways", 2, "sideways"},
      {good + "--output o.npy --scale nan", 2, "--scale is 'nan'"},
      {good + "--output o.npy --scale 1e39", 2, "--scale is '1e39'"},
      {good + "--output o.npy --softcap inf", 2, "--softcap is 'inf'"},
      {good + "--output o.npy --softcap=-1", 2, "softcap is -1"},
      {good + "--output o.npy --mask q.npy", 2, "mask.tensor.shape"},
      {good + "--output o.npy --kernel nonsense", 2, "'nonsense' is unknown"},
      {good + "--output o.npy --device toaster", 2, "toaster"},
  };
  for (const auto& refusal : refusals) {
    const Ran ran = run(refusal.arguments);
    EXPECT_EQ(ran.exit_code, refusal.exit_code) << refusal.arguments << "\n" << ran.text;
    EXPECT_NE(ran.text.find(refusal.says), std::string::npos) << refusal.arguments << "\n" << ran.text;
    EXPECT_EQ(file_count(), before) << refusal.arguments;
  }
}

// A file size limit of nothing stands for a full disk.
TEST_F(Attend, AFullDiskIsNotAFailedCheck) {
  const std::size_t before = file_count();
  const Ran ran = run("--query q.npy --key k.npy --value v.npy --output o.npy --lse lse.npy --check",
                      "/bin/sh' -c 'ulimit -f 0; exec \"$0\" \"$@\"' '" TESSERA_BINARY);
  EXPECT_EQ(ran.exit_code, 4) << ran.text;
  EXPECT_NE(ran.text.find("cannot write o.npy: File too large"), std::string::npos) << ran.text;
  EXPECT_EQ(file_count(), before);
}

TEST_F(Attend, ANameOfAnyBytesIsReportedInJson) {
  fs::copy(folder_ / "q.npy", folder_ / "q\377.npy");
  const Ran ran = run("--query q\377.npy --key k.npy --value v.npy --output o\377.npy --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  const auto json = nlohmann::json::parse(ran.text, nullptr, false);
  ASSERT_TRUE(json.is_object()) << ran.text;
  EXPECT_EQ(json["query"]["source"], "q\uFFFD.npy");
  EXPECT_TRUE(fs::exists(folder_ / "o\377.npy"));
}

TEST_F(Attend, AWrongResultIsNotWritten) {
  const std::size_t before = file_count();
  const Ran ran = run("--query q.npy --key k.npy --value v.npy --output o.npy --kernel cpu_faulty --check",
                      TESSERA_FAULTY);
  EXPECT_EQ(ran.exit_code, 1) << ran.text;
  EXPECT_NE(ran.text.find("the check failed, nothing was written: output[1,3,4]"), std::string::npos)
      << ran.text;
  EXPECT_EQ(file_count(), before);
}

TEST_F(Attend, NoQueriesAreNoWork) {
  put("q.npy", content(Element::f32, {kBatch, kHeads, 0, kDim}, std::vector<float>()));
  const Ran ran = run_qkv("--lse lse.npy --check");
  ASSERT_EQ(ran.exit_code, 0) << ran.text;
  EXPECT_EQ(load("o.npy").shape, (Shape{kBatch, kHeads, 0, kValueDim}));
}

// The judge itself: right results pass, one wrong element anywhere does not.
TEST_F(Attend, TheCheckFindsOneWrongElement) {
  const oracle::Result truth = oracle::attend(problem_);
  std::vector<float> output(truth.output.begin(), truth.output.end()),
      lse(truth.lse.begin(), truth.lse.end());
  tessera_attention p = problem_;
  p.output.data = output.data();
  p.lse = {lse.data(), TESSERA_F32, 3, {kBatch, kHeads, kQueries, 0}, {kHeads * kQueries, kQueries, 1, 0}};
  EXPECT_TRUE(cli::check_against_oracle(p, false).passed);
  for (std::vector<float>* results : {&output, &lse}) {
    for (float& element : *results) {
      for (float wrong : {element + 1e-4f, NAN, INFINITY}) {
        const float right = std::exchange(element, wrong);
        const cli::AttendCheck check = cli::check_against_oracle(p, true);
        EXPECT_FALSE(check.passed);
        EXPECT_GT(check.worst_ratio, 1);
        EXPECT_FALSE(check.why.empty());
        element = right;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
