// The .safetensors reader and writer against files the format's own Python package wrote, and against
// files made to mislead; then loading and saving through real files.
#include "cli/files/safetensors.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/files/npy.hpp"
#include "cli/files/tensor.hpp"
#include "oracle/oracle.hpp"

namespace tessera::files {
namespace {

namespace fs = std::filesystem;

template <std::size_t N>
std::string literal(const char (&text)[N]) {
  return std::string(text, N - 1);
}

// What safetensors.numpy.save() wrote; a = np.array([[1, 2, 3], [-4, 0.5, 6]]).
// clang-format off
// {'q': a.astype('<f4'), 'lens': np.array([3, 1])}
const std::string kTwo = literal(
    "x\x00\x00\x00\x00\x00\x00\x00{\"lens\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},\"q\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[16,40]}}     "
    "\x03\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80\xc0\x00\x00\x00?\x00\x00\xc0@");
// {'k': a.astype(ml_dtypes.bfloat16), 'm': np.array([True, False, True])}, metadata={'made_by': 'numpy'}
const std::string kMetadata = literal(
    "\x98\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":{\"made_by\":\"numpy\"},\"k\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},\"m\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[12,15]}}   "
    "\x80?\x00@@@\x80\xc0\x00?\xc0@\x01\x00\x01");
// clang-format on

const std::vector<double> kValues = {1, 2, 3, -4, 0.5, 6};

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::vector<double> numbers(const Tensor& tensor, tessera_dtype dtype) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    out.push_back(oracle::load(tensor.bytes.data(), dtype, i));
  return out;
}

std::string file_with(const std::string& json, std::size_t data = 0) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return file + json + std::string(data, '\0');
}
// One tensor 'a' of these fields.
std::string file_of(const std::string& fields, std::size_t data = 0) {
  return file_with("{\"a\":{" + fields + "}}", data);
}

std::string error_of(const std::string& file) {
  std::string error;
  EXPECT_FALSE(parse_safetensors(bytes_of(file), &error)) << "was accepted";
  return error;
}

#define EXPECT_ERROR(file, part) EXPECT_NE(error_of(file).find(part), std::string::npos) << error_of(file)

TEST(SafetensorsRead, WhatThePackageWrote) {
  std::string error;
  std::optional<TensorMap> tensors = parse_safetensors(bytes_of(kTwo), &error);
  ASSERT_TRUE(tensors) << error;
  ASSERT_EQ(tensors->size(), 2U);
  EXPECT_EQ(tensors->at("q").shape, (Shape{2, 3}));
  EXPECT_EQ(numbers(settle(tensors->at("q"), nullptr, "test"), TESSERA_F32), kValues);
  EXPECT_EQ(tensors->at("lens").element, Element::i64);
  tensors = parse_safetensors(bytes_of(kMetadata), &error);
  ASSERT_TRUE(tensors) << error;
  ASSERT_EQ(tensors->size(), 2U);
  EXPECT_EQ(numbers(settle(tensors->at("k"), nullptr, "test"), TESSERA_BF16), kValues);
  EXPECT_EQ(tensors->at("m").element, Element::boolean);
}

TEST(SafetensorsRead, EmptyAndScalarTensors) {
  std::string error;
  EXPECT_TRUE(parse_safetensors(bytes_of(file_with("{}")), &error)) << error;
  EXPECT_TRUE(
      parse_safetensors(bytes_of(file_of(R"("dtype":"F32","shape":[0,7],"data_offsets":[0,0])")), &error));
  const std::string scalar = file_of(R"("dtype":"F32","shape":[],"data_offsets":[0,4])", 4);
  EXPECT_EQ(parse_safetensors(bytes_of(scalar), &error)->at("a").shape, Shape{});
}

TEST(SafetensorsRead, TypesOfNoUseAreCheckedAndLeftOut) {
  std::string error;
  const std::string good = file_of(R"("dtype":"F8_E8M0","shape":[3],"data_offsets":[0,3])", 3);
  EXPECT_TRUE(parse_safetensors(bytes_of(good), &error)->empty());
  EXPECT_ERROR(file_of(R"("dtype":"F8_E8M0","shape":[4],"data_offsets":[0,3])", 3), "needs 4 bytes");
}

TEST(SafetensorsRead, EightBitFloats) {
  std::string error;
  const std::string e4m3 = file_of(R"("dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3])", 3);
  const std::string e5m2 = file_of(R"("dtype":"F8_E5M2","shape":[3],"data_offsets":[0,3])", 3);
  EXPECT_EQ(parse_safetensors(bytes_of(e4m3), &error)->at("a").element, Element::f8e4m3);
  EXPECT_EQ(parse_safetensors(bytes_of(e5m2), &error)->at("a").element, Element::f8e5m2);
}

TEST(SafetensorsRefuse, EveryTruncation) {
  for (const std::string& whole : {kTwo, kMetadata}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_FALSE(error_of(whole.substr(0, size)).empty()) << "cut to " << size;
    }
    EXPECT_ERROR(whole + "x", "but its tensors take");
  }
}

TEST(SafetensorsRefuse, HeaderLengthsThatLie) {
  EXPECT_ERROR(std::string(8, '\xff'), "claims 18446744073709551615 bytes, but only 0 follow");
  EXPECT_ERROR(file_with(""), "does not start with '{'");
  EXPECT_ERROR(file_with("[]"), "does not start with '{'");
  EXPECT_ERROR(file_with("{}  {}"), "no valid JSON");
  // A header past the format's limit, in a sparse way: the bytes exist, but are never looked at.
  std::string huge = file_with("{");
  huge.resize(100'000'100, ' ');
  huge[0] = '\x01', huge[1] = '\xe1', huge[2] = '\xf5', huge[3] = '\x05';  // 100,000,001
  EXPECT_ERROR(huge, "the format allows 100000000");
}

TEST(SafetensorsRefuse, OffsetsThatLie) {
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])", 4), "do not lie in the 4 bytes");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4), "do not lie in");
  EXPECT_ERROR(
      file_of(R"("dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615])", 4),
      "do not lie in");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4), "needs 8 bytes");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])", 8), "leave a gap");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[1],"data_offsets":[0])", 4), "two numbers");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])", 4), "two numbers");
  EXPECT_ERROR(file_with(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                         R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                         6),
               "overlap another tensor");
}

TEST(SafetensorsRefuse, ShapesThatLie) {
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"), "64 bits");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0])"), "64 bits");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0])"), "63 bits");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4), "a negative number");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])", 4), "a fraction");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[99999999999999999999999],"data_offsets":[0,4])", 4),
               "a fraction");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])", 4), "a list");
  std::string ones = "1";
  for (int i = 0; i < 40; ++i) ones += ",1";
  EXPECT_ERROR(file_of("\"dtype\":\"U8\",\"shape\":[" + ones + "],\"data_offsets\":[0,1]", 1), "dimensions");
}

TEST(SafetensorsRefuse, WrongSchemas) {
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":[1])", 4), "no data_offsets");
  EXPECT_ERROR(file_of(R"("dtype":"Q4","shape":[1],"data_offsets":[0,4])", 4), "unknown dtype 'Q4'");
  EXPECT_ERROR(file_of(R"("dtype":3,"shape":[1],"data_offsets":[0,4])", 4), "a number");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":"x","data_offsets":[0,4])", 4), "a string");
  EXPECT_ERROR(file_of(R"("dtype":"F32","shape":null,"data_offsets":[0,4])", 4), "null");
  EXPECT_ERROR(file_of(R"("stride":[1])"), "unknown key 'stride'");
  EXPECT_ERROR(file_of(R"("dtype":"F32","dtype":"F32")"), "'dtype' twice");
  EXPECT_ERROR(file_with(R"({"a":3})"), "a number");
  EXPECT_ERROR(file_with(R"({"a":[]})"), "a list");
  EXPECT_ERROR(file_with(R"({"__metadata__":{"a":{}}})"), "__metadata__ has an object");
  EXPECT_ERROR(file_with(R"({"__metadata__":[]})"), "__metadata__ has a list");
  const std::string twice = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_ERROR(file_with("{" + twice + "," + twice + "}"), "key 'a' twice");
  EXPECT_ERROR(file_with(R"({"__metadata__":{"a":"x","a":"y"}})"), "'a' twice");
}

TEST(SafetensorsRefuse, NestingAndBytesThatAreNoText) {
  EXPECT_ERROR(file_with("{\"a\":" + std::string(1'000'000, '[')), "a list");
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += "{\"a\":";
  EXPECT_ERROR(file_with(deep), "unknown key 'a'");
  EXPECT_ERROR(file_with(R"({"a":{"dtype":{}}})"), "an object");
  EXPECT_ERROR(file_with("{\"\xff\xfe\":{}}"), "no valid JSON");
  EXPECT_ERROR(file_with(std::string("{\0}", 3)), "no valid JSON");
  // Escape codes in a name do not reach the terminal.
  EXPECT_ERROR(file_with("{\"\\u001b[31m\":3}"), "'\\x1b[31m'");
}

TEST(SafetensorsWrite, ReadsBack) {
  const std::vector<NamedShape> shapes = {{"output", Element::bf16, {2, 1}},
                                          {"lse \"x\"", Element::f32, {1}}};
  const std::string file = safetensors_header(shapes) + "abcdEFGH";
  EXPECT_EQ((file.size() - 8) % 8, 0U);
  std::string error;
  const std::optional<TensorMap> tensors = parse_safetensors(bytes_of(file), &error);
  ASSERT_TRUE(tensors) << error;
  EXPECT_EQ(std::memcmp(tensors->at("output").bytes.data(), "abcd", 4), 0);
  EXPECT_EQ(tensors->at("output").element, Element::bf16);
  EXPECT_EQ(std::memcmp(tensors->at("lse \"x\"").bytes.data(), "EFGH", 4), 0);
}

// Real files, in a folder of their own.
class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tessera_files_" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string put(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  std::string get(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static Tensor load(const std::string& name) {
    std::string error;
    std::optional<Tensor> tensor = load_tensor(name, kNames, &error);
    EXPECT_TRUE(tensor) << error;
    return tensor ? *tensor : Tensor{};
  }
  std::string load_error(const std::string& name) const {
    std::string error;
    EXPECT_FALSE(load_tensor(name, kNames, &error)) << "was accepted";
    return error;
  }
  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  static constexpr std::array<std::string_view, 2> kNames = {"q", "query"};
  const Tensor two_floats_{Element::f32, {2}, bytes_of(kFloats), nullptr, "test"};
  const Tensor one_half_{Element::f16, {1}, bytes_of(kFloats).subspan(0, 2), nullptr, "test"};
  fs::path folder_;

 private:
  static inline const std::string kFloats = "abcdefgh";
};

TEST_F(Files, TensorsAreFoundByNameRoleOrAlone) {
  const std::string two = put("two.safetensors", kTwo);
  EXPECT_EQ(load(two).source, two + ":q");
  EXPECT_EQ(load(two + ":lens").element, Element::i64);
  EXPECT_NE(load_error(two + ":nope").find("no tensor 'nope' of an accepted dtype; it holds 'lens', 'q'"),
            std::string::npos);
  const std::string one =
      put("one.safetensors", file_of(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", 4));
  EXPECT_EQ(load(one).source, one + ":a");
  const std::string npy = put("x.npy", npy_header(Element::f32, {1}) + "abcd");
  EXPECT_EQ(load(npy).shape, Shape{1});
}

TEST_F(Files, WhatCannotBeReadIsNamed) {
  EXPECT_NE(load_error(path("missing.npy")).find("missing.npy: No such file"), std::string::npos);
  EXPECT_NE(load_error(folder_.string()).find("it is a directory"), std::string::npos);
  EXPECT_NE(load_error("/dev/zero").find("it is a device"), std::string::npos);
  ASSERT_EQ(::mkfifo(path("pipe.npy").c_str(), 0600), 0);
  EXPECT_NE(load_error(path("pipe.npy")).find("it is a pipe"), std::string::npos);
  EXPECT_NE(load_error(put("empty.npy", "")).find("empty.npy: the file is empty"), std::string::npos);
  EXPECT_NE(load_error(put("e.safetensors", "")).find("e.safetensors: the file is empty"), std::string::npos);
}

TEST_F(Files, ASparseTerabyteCostsNothing) {
  const std::string sparse = put("sparse.npy", npy_header(Element::f32, {1}));
  ASSERT_EQ(::truncate(sparse.c_str(), off_t{1} << 40), 0);
  EXPECT_NE(load_error(sparse).find("needs 4 bytes of data"), std::string::npos);
}

TEST_F(Files, OutputsAppearCompleteOrNotAtAll) {
  std::string error;
  {
    Outputs dropped;
    ASSERT_TRUE(dropped.open(path("o.npy"), "output", &error)) << error;
    EXPECT_FALSE(fs::exists(path("o.npy")));
  }
  EXPECT_EQ(count(), 0U) << "the temporary file is gone too";
  Outputs outputs;
  ASSERT_TRUE(outputs.open(path("o.npy"), "output", &error)) << error;
  ASSERT_TRUE(outputs.save(std::span(&two_floats_, 1), &error)) << error;
  EXPECT_EQ(get("o.npy"), npy_header(Element::f32, {2}) + "abcdefgh");
  EXPECT_EQ(count(), 1U);
}

TEST_F(Files, AWriteThatFailsLeavesNothing) {
  std::string error;
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight = {.rlim_cur = 100, .rlim_max = before.rlim_max};  // less than the header alone
  bool saved = true;
  {
    Outputs outputs;
    ASSERT_TRUE(outputs.open(path("o.npy"), "output", &error)) << error;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
    saved = outputs.save(std::span(&two_floats_, 1), &error);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  }
  EXPECT_FALSE(saved);
  EXPECT_NE(error.find("o.npy: File too large"), std::string::npos) << error;
  EXPECT_EQ(count(), 0U);
}

TEST_F(Files, TwoResultsShareASafetensorsFile) {
  std::string error;
  Outputs outputs;
  ASSERT_TRUE(outputs.open(path("r.safetensors"), "output", &error)) << error;
  ASSERT_TRUE(outputs.open(path("r.safetensors:sums"), "lse", &error)) << error;
  EXPECT_FALSE(outputs.open(path("r.safetensors:output"), "x", &error));
  const std::vector<Tensor> results = {two_floats_, one_half_};
  ASSERT_TRUE(outputs.save(results, &error)) << error;
  EXPECT_EQ(load(path("r.safetensors:sums")).element, Element::f16);
  EXPECT_EQ(std::memcmp(load(path("r.safetensors:output")).bytes.data(), "abcdefgh", 8), 0);
}

TEST_F(Files, PlacesThatCannotBeWrittenAreNamed) {
  std::string error;
  Outputs outputs;
  EXPECT_FALSE(outputs.open(path("no/such/o.npy"), "output", &error));
  EXPECT_NE(error.find("no/such/o.npy: No such file"), std::string::npos) << error;
  EXPECT_FALSE(outputs.open(path("o.txt"), "output", &error));
  EXPECT_NE(error.find(".npy or .safetensors"), std::string::npos) << error;
  fs::create_directory(path("folder.npy"));
  EXPECT_FALSE(outputs.open(path("folder.npy"), "output", &error));
  EXPECT_NE(error.find("it is a directory"), std::string::npos) << error;
  ASSERT_TRUE(outputs.open(path("o.npy"), "output", &error));
  EXPECT_FALSE(outputs.open(path("o.npy"), "lse", &error));
  EXPECT_NE(error.find("two results cannot share"), std::string::npos) << error;
}

TEST_F(Files, AReplacedFileKeepsItsModeAndItsLinks) {
  std::string error;
  put("real.npy", "old");
  fs::permissions(path("real.npy"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(path("real.npy"), path("link.npy"));
  Outputs outputs;
  ASSERT_TRUE(outputs.open(path("link.npy"), "output", &error)) << error;
  EXPECT_EQ(get("real.npy"), "old");
  ASSERT_TRUE(outputs.save(std::span(&two_floats_, 1), &error)) << error;
  EXPECT_TRUE(fs::is_symlink(path("link.npy")));
  EXPECT_EQ(get("real.npy"), npy_header(Element::f32, {2}) + "abcdefgh");
  EXPECT_EQ(fs::status(path("real.npy")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(same_file(path("real.npy"), path("link.npy")));
}

}  // namespace
}  // namespace tessera::files
