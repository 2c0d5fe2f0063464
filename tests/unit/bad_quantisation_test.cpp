// What tessera_quantise refuses: the sentence names field, value and what is accepted, and nothing is
// written.
#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera {
namespace {

struct Fixture {
  std::vector<float> input = std::vector<float>(2 * 3 * 100 * 12, 0.5f);
  std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(2 * 3 * 100 * 12, 0xee);
  std::vector<float> scales = std::vector<float>(4096, -1.0f), means = std::vector<float>(4096, -1.0f);
  tessera_quantisation q = TESSERA_QUANTISATION_INIT;
  tessera_device device = TESSERA_DEVICE_INIT;

  Fixture() {
    q.input = tessera_tensor_4d(input.data(), TESSERA_F32, 2, 3, 100, 12);
    q.output = tessera_tensor_4d(codes.data(), TESSERA_F8E4M3, 2, 3, 100, 12);
    scale_as(2, 3, 1, 1);
  }
  void scale_as(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    q.scales = tessera_tensor_4d(scales.data(), TESSERA_F32, a, b, c, d);
  }
  void mean_as(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    q.means = tessera_tensor_4d(means.data(), TESSERA_F32, a, b, c, d);
  }
};

struct Row {
  const char* name;
  std::function<void(Fixture&)> spoil;
  std::string words;
};

const Row kRows[] = {
    {"struct size", [](Fixture& f) { f.q.struct_size = 8; }, "quantisation.struct_size is 8"},
    {"no input", [](Fixture& f) { f.q.input = TESSERA_TENSOR_NONE; }, "input.rank is 0"},
    {"input of codes", [](Fixture& f) { f.q.input.dtype = TESSERA_F8E4M3; },
     "input.dtype is f8e4m3; accepted: f32, f16, bf16"},
    {"wide output", [](Fixture& f) { f.q.output.dtype = TESSERA_F16; },
     "output.dtype is f16; accepted: f8e4m3, f8e5m2"},
    {"scales of 16 bits", [](Fixture& f) { f.q.scales.dtype = TESSERA_F16; },
     "scales.dtype is f16; accepted: f32"},
    {"no scales", [](Fixture& f) { f.q.scales = TESSERA_TENSOR_NONE; }, "scales.rank is 0"},
    {"scattered input", [](Fixture& f) { f.q.input.strides[3] = 2; }, "input.strides[3] is 2"},
    {"scattered output", [](Fixture& f) { f.q.output.strides[3] = 2; },
     "output.strides[2] is 12 and output.strides[3] is 2"},
    {"other rows", [](Fixture& f) { f.q.output.shape[2] = 99; },
     "output.shape[2] is 99, but input.shape[2] is 100"},
    {"output over itself", [](Fixture& f) { f.q.output.strides[1] = 0; }, "overlap each other"},
    {"outer of scales", [](Fixture& f) { f.scale_as(3, 3, 1, 1); },
     "scales.shape[0] is 3; 1 or 2 (input.shape[0]) is accepted"},
    {"heads of scales", [](Fixture& f) { f.scale_as(1, 2, 1, 1); }, "scales.shape[1] is 2; 1 or 3"},
    {"no blocks", [](Fixture& f) { f.scale_as(1, 1, 2, 1); },
     "scales.shape[2] is 2; 1 (scale_rows is 0: there are no blocks)"},
    {"blocks", [](Fixture& f) { f.scale_as(1, 1, 3, 1), f.q.scale_rows = 64; },
     "scales.shape[2] is 3; 1 or 2 (blocks of 64 rows)"},
    {"channels", [](Fixture& f) { f.scale_as(1, 1, 1, 5); }, "scales.shape[3] is 5; 1 or 12"},
    {"blocks and channels", [](Fixture& f) { f.scale_as(1, 1, 2, 12), f.q.scale_rows = 64; }, "not both"},
    {"rows of a block", [](Fixture& f) { f.q.scale_rows = 32; },
     "scale_rows is 32; accepted: 0 (no blocks), 64, 128"},
    {"means", [](Fixture& f) { f.mean_as(2, 3, 2, 12); }, "means.shape[2] is 2"},
    {"heads of means", [](Fixture& f) { f.mean_as(2, 1, 1, 12); },
     "means.shape[1] is 1, but input.shape[1] is 3"},
    {"hadamard", [](Fixture& f) { f.q.hadamard = 1; },
     "hadamard is set, but input.shape[3] is 12; with it, powers of two"},
    {"head dim", [](Fixture& f) { f.q.input.shape[3] = f.q.output.shape[3] = 0; },
     "input.shape[3] is 0; a head dimension from 1"},
    {"scales over input", [](Fixture& f) { f.q.scales.data = f.input.data(); }, "scales overlaps input"},
    {"means over scales", [](Fixture& f) { f.mean_as(2, 3, 1, 12), f.q.means.data = f.scales.data(); },
     "means overlaps scales"},
    {"kernel", [](Fixture& f) { f.device.kernel = "cpu_avx2"; }, "device.kernel is cpu_avx2"},
    {"device", [](Fixture& f) { f.device.kind = 9; }, "device.kind is 9"},
    {"threads", [](Fixture& f) { f.device.threads = -1; }, "device.threads is -1"},
};

TEST(BadQuantisation, IsRefusedWithASentence) {
  for (const Row& row : kRows) {
    Fixture f;
    row.spoil(f);
    EXPECT_EQ(tessera_quantise(&f.q, &f.device), TESSERA_INVALID_ARGUMENT) << row.name;
    const std::string said = tessera_last_error();
    EXPECT_NE(said.find(row.words), std::string::npos) << row.name << ": " << said;
    EXPECT_EQ(f.codes, std::vector<std::uint8_t>(f.codes.size(), 0xee)) << row.name;
    EXPECT_EQ(f.scales[0], -1) << row.name;
  }
  EXPECT_EQ(tessera_quantise(nullptr, nullptr), TESSERA_INVALID_ARGUMENT);
}

TEST(BadQuantisation, OtherDevicesAreToldApart) {
  Fixture f;
  f.device.kind = TESSERA_CUDA;
  const tessera_status status = tessera_quantise(&f.q, &f.device);
  // Without a GPU, because there is none; with one, because the tensors are the host's.
  EXPECT_TRUE(status == TESSERA_INVALID_ARGUMENT || status == TESSERA_DEVICE_UNAVAILABLE) << status;
  EXPECT_NE(std::string(tessera_last_error()).find("device.kind is 2"), std::string::npos);
}

}  // namespace
}  // namespace tessera
