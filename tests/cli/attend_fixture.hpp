// What the tests of `tessera attend` share: a folder of files, the real binary run in it, and a small
// problem.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/files/npy.hpp"
#include "cli/files/tensor.hpp"
#include "oracle/oracle.hpp"

namespace tessera::testing_attend {

namespace fs = std::filesystem;
using files::Element;
using files::Shape;

extern const char* const kBinary;  // tessera; attend_test.cpp knows where it is

struct Ran {
  int exit_code = -1;
  std::string text;  // stdout and stderr
};

// 2 batch entries, 4 heads over 2, 5 queries, 7 keys, dim 3, value_dim 4.
inline constexpr std::int64_t kBatch = 2, kHeads = 4, kKvHeads = 2, kQueries = 5, kKeys = 7, kDim = 3,
                              kValueDim = 4;

inline std::vector<float> waves(std::int64_t count, double phase) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>(2 * std::sin(phase + 1.7 * static_cast<double>(i))));
  return out;
}

template <class T>
std::string content(Element element, const Shape& shape, const std::vector<T>& values) {
  std::string file = files::npy_header(element, shape);
  return file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

class Attend : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tessera_attend_" + std::to_string(::getpid()));
    fs::create_directory(folder_);
    put("q.npy", content(Element::f32, {kBatch, kHeads, kQueries, kDim}, q_));
    put("k.npy", content(Element::f32, {kBatch, kKvHeads, kKeys, kDim}, k_));
    put("v.npy", content(Element::f32, {kBatch, kKvHeads, kKeys, kValueDim}, v_));
    problem_.query = tessera_tensor_4d(q_.data(), TESSERA_F32, kBatch, kHeads, kQueries, kDim);
    problem_.key = tessera_tensor_4d(k_.data(), TESSERA_F32, kBatch, kKvHeads, kKeys, kDim);
    problem_.value = tessera_tensor_4d(v_.data(), TESSERA_F32, kBatch, kKvHeads, kKeys, kValueDim);
    problem_.output = tessera_tensor_4d(nullptr, TESSERA_F32, kBatch, kHeads, kQueries, kValueDim);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  // Runs the binary inside the folder.
  Ran run(const std::string& arguments, const std::string& binary = kBinary) const {
    return run_verb("attend", arguments, binary);
  }
  Ran run_verb(const std::string& verb, const std::string& arguments,
               const std::string& binary = kBinary) const {
    const std::string command =
        "cd '" + folder_.string() + "' && '" + binary + "' " + verb + " " + arguments + " 2>&1";
    FILE* pipe = ::popen(command.c_str(), "r");
    Ran ran;
    std::array<char, 4096> buffer;
    for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      ran.text.append(buffer.data(), n);
    const int status = ::pclose(pipe);
    ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return ran;
  }
  Ran run_qkv(const std::string& arguments) const {
    return run("--query q.npy --key k.npy --value v.npy --output o.npy " + arguments);
  }

  files::Tensor load(const std::string& name) const {
    std::string error;
    const auto tensor = files::load_tensor((folder_ / name).string(), {}, &error);
    EXPECT_TRUE(tensor) << error;
    return tensor ? *tensor : files::Tensor{};
  }

  std::size_t file_count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  // Every element near the oracle's. What "near" must mean is the gates' business, and --check asks them;
  // here a wrong flag is to be found, and that is never a matter of 1e-4.
  void expect_near(const files::Tensor& got, const std::vector<double>& want, double tolerance = 1e-4) const {
    ASSERT_EQ(got.count(), static_cast<std::int64_t>(want.size()));
    const tessera_dtype dtype = got.element == Element::f32   ? TESSERA_F32
                                : got.element == Element::f16 ? TESSERA_F16
                                                              : TESSERA_BF16;
    for (std::int64_t i = 0; i < got.count(); ++i) {
      const double value = oracle::load(got.bytes.data(), dtype, i),
                   expected = want[static_cast<std::size_t>(i)];
      if (std::isfinite(expected)) {
        ASSERT_NEAR(value, expected, tolerance) << "element " << i;
      } else {
        ASSERT_EQ(value, expected) << "element " << i;
      }
    }
  }

  std::vector<float> q_ = waves(kBatch * kHeads * kQueries * kDim, 0.1);
  std::vector<float> k_ = waves(kBatch * kKvHeads * kKeys * kDim, 0.5);
  std::vector<float> v_ = waves(kBatch * kKvHeads * kKeys * kValueDim, 0.9);
  tessera_attention problem_ = TESSERA_ATTENTION_INIT;
  fs::path folder_;
};

}  // namespace tessera::testing_attend
