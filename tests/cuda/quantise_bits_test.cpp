// The quantiser on a GPU: codes, scales and means have the CPU's bits, whatever the sizes, layouts, options
// and numbers, and nothing else is written.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "on_device.hpp"
#include "oracle/oracle.hpp"

namespace tessera::testing_cuda {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr tessera_dtype kWide[] = {TESSERA_F32, TESSERA_F16, TESSERA_BF16};
constexpr tessera_dtype kCodes[] = {TESSERA_F8E4M3, TESSERA_F8E5M2, TESSERA_I8};
constexpr unsigned char kUntouched = 0xee;

enum class Scales { tensor, outer, heads, head, block64, block128, block_of_heads, channel, channel_of_all };
constexpr Scales kScales[] = {Scales::tensor,         Scales::outer,   Scales::heads,
                              Scales::head,           Scales::block64, Scales::block128,
                              Scales::block_of_heads, Scales::channel, Scales::channel_of_all};

enum class Layout { dense, rows_before_heads, padded, misaligned, broadcast };
constexpr Layout kLayouts[] = {Layout::dense, Layout::rows_before_heads, Layout::padded, Layout::misaligned,
                               Layout::broadcast};

// cancelling: every second row takes away what the one before had, but for a little. What is left of the sums
// is what their order made of it.
enum class Numbers { normal, wild, zeros, cancelling };

struct Wish {
  std::int64_t outer = 2, heads = 3, rows = 130, dim = 80;
  tessera_dtype input = TESSERA_F32, codes = TESSERA_F8E4M3;
  Scales scales = Scales::head;
  bool smooth = false, hadamard = false, transposed = false;
  Layout layout = Layout::dense, output_layout = Layout::dense;
  Numbers numbers = Numbers::normal;
};

std::string words(const Wish& w) {
  return fmt::format(
      "{} x {} x {} x {}, {} to {}, scales {}, smooth {}, hadamard {}, transposed {}, layouts {} and {}, "
      "numbers {}",
      w.outer, w.heads, w.rows, w.dim, tessera_dtype_name(w.input), tessera_dtype_name(w.codes),
      static_cast<int>(w.scales), w.smooth, w.hadamard, w.transposed, static_cast<int>(w.layout),
      static_cast<int>(w.output_layout), static_cast<int>(w.numbers));
}

// A tensor's memory on the host, and on the GPU.
struct Piece {
  tessera_tensor tensor = TESSERA_TENSOR_NONE;
  std::vector<unsigned char> bytes;
  gpu::Memory there;
  std::size_t offset = 0;  // of the tensor

  void make(tessera_dtype dtype, std::int64_t elements, std::size_t at = 0) {
    offset = at;
    bytes.assign(at + static_cast<std::size_t>(elements) * tessera_dtype_size(dtype) + 64, kUntouched);
    tensor.data = bytes.data() + at;
  }
  tessera_tensor on_gpu() {
    tessera_tensor t = tensor;
    if (t.rank == 0) return t;
    EXPECT_TRUE(gpu::Memory::allocate(0, bytes.size(), &there).ok());
    EXPECT_TRUE(there.upload(bytes.data(), bytes.size()).ok());
    t.data = there.data() + offset;
    return t;
  }
};

void lay_out(Piece* piece, const Wish& w, Layout layout, tessera_dtype dtype, bool transposed) {
  tessera_tensor& t = piece->tensor;
  t = tessera_tensor_4d(nullptr, dtype, w.outer, w.heads, w.rows, w.dim);
  const std::int64_t rows = transposed ? w.dim : w.rows, dim = transposed ? w.rows : w.dim;
  const std::int64_t row = std::max<std::int64_t>(layout == Layout::padded ? dim + 5 : dim, 1);
  std::int64_t strides[4] = {w.heads * rows * row, rows * row, row, 1};
  if (layout == Layout::padded) strides[1] += 3, strides[0] = w.heads * strides[1] + 1;
  if (layout == Layout::rows_before_heads) strides[1] = row, strides[2] = w.heads * row;
  if (layout == Layout::broadcast) strides[1] = 0;
  if (transposed) std::swap(strides[2], strides[3]);
  std::copy_n(strides, 4, t.strides);
  piece->make(dtype, w.outer * (strides[0] + row * w.heads * rows + 1),
              layout == Layout::misaligned ? tessera_dtype_size(dtype) : 0);
}

float number(Numbers kind, std::mt19937& random) {
  std::normal_distribution<float> draw;
  if (kind == Numbers::zeros) return random() % 2 == 0 ? 0.0f : -0.0f;
  if (kind != Numbers::wild) return draw(random);
  constexpr float kOdd[] = {kInf,   -kInf,   kNan,     -kNan,   0.0f,   -0.0f,
                            1e-45f, -3e-42f, 65504.0f, 3.4e38f, -3e38f, 1e30f};
  switch (random() % 8) {
    case 0:
      return kOdd[random() % std::size(kOdd)];
    case 1:
      return std::ldexp(draw(random), static_cast<int>(random() % 250) - 125);
    default:
      return draw(random) + 3;
  }
}

void fill(Piece* input, const Wish& w) {
  std::mt19937 random(static_cast<unsigned>(w.rows * 1000 + w.dim));
  const std::size_t size = tessera_dtype_size(w.input);
  const auto count = static_cast<std::int64_t>((input->bytes.size() - input->offset) / size);
  for (std::int64_t n = 0; n < count; ++n) {
    float x = number(w.numbers, random);
    if (w.numbers == Numbers::wild && n % 97 == 0) x *= 500;
    if (w.numbers == Numbers::cancelling)
      x = n / w.dim % 2 == 0 ? std::ldexp(x, static_cast<int>(random() % 60))
                             : x - static_cast<float>(oracle::load(input->tensor.data, w.input, n - w.dim));
    oracle::store(input->tensor.data, w.input, n, x);
  }
}

struct Call {
  Piece input, output, scales, means;
  tessera_quantisation host = TESSERA_QUANTISATION_INIT, gpu = TESSERA_QUANTISATION_INIT;

  explicit Call(const Wish& w) {
    lay_out(&input, w, w.layout, w.input, false);
    lay_out(&output, w, w.output_layout, w.codes, w.transposed);
    fill(&input, w);
    const auto blocks = [&](std::int64_t rows) {
      return std::max<std::int64_t>((w.rows + rows - 1) / rows, 1);
    };
    std::int64_t s[4] = {1, 1, 1, 1};
    if (w.scales != Scales::tensor && w.scales != Scales::heads && w.scales != Scales::channel_of_all)
      s[0] = w.outer;
    if (w.scales >= Scales::heads && w.scales != Scales::block_of_heads && w.scales != Scales::channel_of_all)
      s[1] = w.heads;
    if (w.scales == Scales::block64 || w.scales == Scales::block_of_heads)
      s[2] = blocks(host.scale_rows = 64);
    if (w.scales == Scales::block128) s[2] = blocks(host.scale_rows = 128);
    if (w.scales >= Scales::channel) s[3] = w.dim;
    scales.make(TESSERA_F32, s[0] * s[1] * s[2] * s[3]);
    scales.tensor = tessera_tensor_4d(scales.tensor.data, TESSERA_F32, s[0], s[1], s[2], s[3]);
    if (w.smooth) {
      means.make(TESSERA_F32, w.outer * w.heads * w.dim);
      means.tensor = tessera_tensor_4d(means.tensor.data, TESSERA_F32, w.outer, w.heads, 1, w.dim);
    }
    host.hadamard = w.hadamard ? 1 : 0;
    gpu = host;
    host.input = input.tensor, host.output = output.tensor, host.scales = scales.tensor,
    host.means = means.tensor;
    gpu.input = input.on_gpu(), gpu.output = output.on_gpu(), gpu.scales = scales.on_gpu(),
    gpu.means = means.on_gpu();
  }
  // By the CPU, into the host's memory.
  void on_host() const {
    const tessera_device cpu = TESSERA_DEVICE_INIT;
    ASSERT_EQ(tessera_quantise(&host, &cpu), TESSERA_OK) << tessera_last_error();
  }
  // The GPU's memory is the host's.
  void expect_same(const std::string& what) const {
    for (const Piece* each : {&output, &scales, &means}) {
      if (each->tensor.rank == 0) continue;
      std::vector<unsigned char> got(each->bytes.size());
      ASSERT_TRUE(each->there.download(got.data(), got.size()).ok());
      const auto at = std::mismatch(got.begin(), got.end(), each->bytes.begin());
      if (at.first == got.end()) continue;
      const auto byte = at.first - got.begin();
      ADD_FAILURE() << what << ": "
                    << (each == &output   ? "codes"
                        : each == &scales ? "scales"
                                          : "means")
                    << " differ from byte " << byte << " on: " << int{*at.first} << ", not "
                    << int{*at.second};
      return;
    }
  }
};

void expect_cpu_bits(const Wish& w) {
  Call call(w);
  call.on_host();
  const tessera_device device = gpu_device();
  ASSERT_EQ(tessera_quantise(&call.gpu, &device), TESSERA_OK) << words(w) << ": " << tessera_last_error();
  call.expect_same(words(w));
}

TEST(QuantiseBits, EveryGranularityAndType) {
  SKIP_WITHOUT_GPU();
  for (const Scales scales : kScales)
    for (const tessera_dtype input : kWide)
      for (const tessera_dtype codes : kCodes)
        expect_cpu_bits(
            {.input = input, .codes = codes, .scales = scales, .smooth = codes == TESSERA_F8E5M2});
}

TEST(QuantiseBits, EverySize) {
  SKIP_WITHOUT_GPU();
  std::size_t n = 0;
  for (const std::int64_t rows : {0, 1, 63, 64, 65, 129})
    for (const std::int64_t dim : {1, 7, 33, 64, 80, 128, 256, 300, 1024})
      for (const bool transposed : {false, true}) {
        ++n;
        expect_cpu_bits({.outer = 1,
                         .heads = 2,
                         .rows = rows,
                         .dim = dim,
                         .input = kWide[n % 3],
                         .codes = kCodes[n / 3 % std::size(kCodes)],
                         .scales = kScales[n % std::size(kScales)],
                         .smooth = n % 2 == 0,
                         .transposed = transposed});
      }
}

// Several chunks of rows, whose sums meet in their order.
TEST(QuantiseBits, ManyRows) {
  SKIP_WITHOUT_GPU();
  for (const tessera_dtype input : kWide)
    for (const Numbers numbers : {Numbers::normal, Numbers::wild, Numbers::cancelling})
      for (const std::int64_t rows : {1024, 1025, 3300})
        if (numbers != Numbers::cancelling || input != TESSERA_F16)  // too small for them
          expect_cpu_bits({.outer = 1,
                           .heads = 2,
                           .rows = rows,
                           .dim = 40,
                           .input = input,
                           .scales = Scales::block128,
                           .smooth = true,
                           .numbers = numbers});
}

// So many heads that largest magnitudes are kept for more rows than a tile has.
TEST(QuantiseBits, ManyHeads) {
  SKIP_WITHOUT_GPU();
  for (const Scales scales : {Scales::tensor, Scales::head})
    expect_cpu_bits(
        {.outer = 1, .heads = 4200, .rows = 129, .dim = 2, .input = TESSERA_F16, .scales = scales});
}

TEST(QuantiseBits, Hadamard) {
  SKIP_WITHOUT_GPU();
  std::size_t n = 0;
  for (std::int64_t dim = 1; dim <= 1024; dim *= 2)
    for (const tessera_dtype input : kWide)
      for (const tessera_dtype codes : kCodes)
        expect_cpu_bits({.outer = 1,
                         .heads = 2,
                         .rows = 67,
                         .dim = dim,
                         .input = input,
                         .codes = codes,
                         .scales = ++n % 2 == 0 ? Scales::head : Scales::channel,
                         .smooth = n % 3 == 0,
                         .hadamard = true});
}

TEST(QuantiseBits, EveryLayout) {
  SKIP_WITHOUT_GPU();
  for (const Layout layout : kLayouts)
    for (const tessera_dtype input : kWide)
      for (const bool transposed : {false, true})
        for (const Layout output :
             {Layout::dense, Layout::rows_before_heads, Layout::padded, Layout::misaligned})
          expect_cpu_bits({.rows = 70,
                           .dim = 64,
                           .input = input,
                           .scales = Scales::block64,
                           .smooth = true,
                           .transposed = transposed && output != Layout::rows_before_heads,
                           .layout = layout,
                           .output_layout = output});
}

TEST(QuantiseBits, NumbersOfEveryKind) {
  SKIP_WITHOUT_GPU();
  for (const Numbers numbers : {Numbers::wild, Numbers::zeros})
    for (const Scales scales : {Scales::tensor, Scales::block64, Scales::channel})
      for (const tessera_dtype input : kWide)
        for (const tessera_dtype codes : kCodes)
          for (const bool smooth : {false, true})
            expect_cpu_bits({.outer = 1,
                             .heads = 2,
                             .dim = 64,
                             .input = input,
                             .codes = codes,
                             .scales = scales,
                             .smooth = smooth,
                             .hadamard = numbers == Numbers::wild && codes == TESSERA_F8E5M2,
                             .numbers = numbers});
}

// One call after the other on a stream, each with its own needs of the memory that the stream keeps.
TEST(QuantiseBits, CallsInARow) {
  SKIP_WITHOUT_GPU();
  gpu::Stream stream;
  ASSERT_TRUE(gpu::Stream::create(0, &stream).ok());
  tessera_device device = gpu_device();
  device.stream = stream.get();
  const Wish wishes[] = {{.scales = Scales::channel, .smooth = true},
                         {.outer = 1, .rows = 9, .dim = 64, .hadamard = true},
                         {.rows = 300, .input = TESSERA_F16, .scales = Scales::tensor, .smooth = true}};
  std::vector<Call> calls;
  for (const Wish& wish : wishes) calls.emplace_back(wish);
  for (const Call& call : calls)
    ASSERT_EQ(tessera_quantise(&call.gpu, &device), TESSERA_OK) << tessera_last_error();
  ASSERT_TRUE(stream.synchronize().ok());
  for (std::size_t n = 0; n < calls.size(); ++n) {
    calls[n].on_host();
    calls[n].expect_same(words(wishes[n]));
  }
}

TEST(QuantiseBits, CapturedIntoAGraphAndReplayedOverOtherNumbers) {
  SKIP_WITHOUT_GPU();
  const Wish wish{.input = TESSERA_BF16, .scales = Scales::block64, .smooth = true};
  Call call(wish);
  const Captured step([&](const tessera_device& d) { return status_of(tessera_quantise(&call.gpu, &d)); });
  ASSERT_TRUE(step.status.ok()) << step.status.message;
  for (const Numbers numbers : {Numbers::normal, Numbers::wild}) {
    Wish other = wish;
    other.numbers = numbers;
    fill(&call.input, other);
    ASSERT_TRUE(call.input.there.upload(call.input.bytes.data(), call.input.bytes.size()).ok());
    ASSERT_TRUE(step.replay().ok());
    call.on_host();
    call.expect_same(words(other));
  }
}

TEST(QuantiseBits, AWorkspaceIsTakenOrRefusedWithItsSize) {
  SKIP_WITHOUT_GPU();
  const Wish wish{.outer = 1, .heads = 2, .rows = 1030, .dim = 64, .scales = Scales::block64, .smooth = true};
  // Sums, of 24 bytes, for each channel of two chunks; the 17 magnitudes of a head take less.
  constexpr std::size_t kNeeded = 2 * 2 * 64 * 24;
  Call call(wish);
  gpu::Memory workspace;
  ASSERT_TRUE(gpu::Memory::allocate(0, kNeeded + 256, &workspace).ok());
  tessera_device device = gpu_device();
  device.workspace = workspace.data();
  device.workspace_bytes = kNeeded - 1;
  EXPECT_EQ(tessera_quantise(&call.gpu, &device), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tessera_last_error()),
            fmt::format("device.workspace_bytes is {}; {} are needed", kNeeded - 1, kNeeded));
  device.workspace_bytes = kNeeded;
  ASSERT_TRUE(workspace.fill(kUntouched, kNeeded + 256).ok());
  ASSERT_EQ(tessera_quantise(&call.gpu, &device), TESSERA_OK) << tessera_last_error();
  call.on_host();
  call.expect_same(words(wish));
  std::vector<unsigned char> behind(256);
  ASSERT_TRUE(workspace.download(behind.data(), 256, kNeeded).ok());
  EXPECT_EQ(behind, std::vector<unsigned char>(256, kUntouched));
  device.workspace = workspace.data() + 16;
  EXPECT_EQ(tessera_quantise(&call.gpu, &device), TESSERA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tessera_last_error()).find("a multiple of 256 is accepted"), std::string::npos);
  device.workspace = call.scales.there.data();
  EXPECT_EQ(tessera_quantise(&call.gpu, &device), TESSERA_INVALID_ARGUMENT);
  EXPECT_STREQ(tessera_last_error(), "device.workspace overlaps scales in memory");
  device.workspace = nullptr;
  EXPECT_EQ(tessera_quantise(&call.gpu, &device), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tessera_last_error()),
            fmt::format("device.workspace is null, but device.workspace_bytes is {}", kNeeded));
}

TEST(QuantiseBits, HostMemoryIsRefusedByTheTensorsName) {
  SKIP_WITHOUT_GPU();
  const Wish wish{.smooth = true};
  Call call(wish);
  const tessera_device device = gpu_device();
  struct {
    const char* name;
    tessera_tensor tessera_quantisation::*tensor;
  } const tensors[] = {{"input", &tessera_quantisation::input},
                       {"output", &tessera_quantisation::output},
                       {"scales", &tessera_quantisation::scales},
                       {"means", &tessera_quantisation::means}};
  for (const auto& each : tensors) {
    tessera_quantisation mixed = call.gpu;
    (mixed.*each.tensor).data = (call.host.*each.tensor).data;
    EXPECT_EQ(tessera_quantise(&mixed, &device), TESSERA_INVALID_ARGUMENT) << each.name;
    EXPECT_NE(std::string(tessera_last_error()).find(fmt::format("{} is host memory", each.name)),
              std::string::npos)
        << tessera_last_error();
  }
  expect_cpu_bits(wish);  // still
  // Where nothing lies in a tensor, its address is nobody's.
  const Call empty({.rows = 0});
  tessera_quantisation mixed = empty.gpu;
  mixed.input.data = empty.host.input.data;
  EXPECT_EQ(tessera_quantise(&mixed, &device), TESSERA_OK) << tessera_last_error();
}

}  // namespace
}  // namespace tessera::testing_cuda
