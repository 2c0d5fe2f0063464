// Keys in two tensors on a GPU beyond what the list of cases asks: which kernels take them, tails that alone
// decide, and pools that 32 bits cannot count.
#include <cstring>
#include <string_view>
#include <vector>

#include "cases/gpu/memory.hpp"
#include "support.hpp"
#include "tests/support/tail_decides.hpp"

namespace tessera {
namespace {

using testing_cuda::gpu_device;
using testing_cuda::no_gpu;

TEST(Tail, AloneDecides) {
  SKIP_WITHOUT_GPU();
  for (const char* where : testing_tail::kWhere) testing_tail::expect_tail_decides(where, gpu_device());
}

// The one for everything; those that know of tails at all refuse these for other reasons, all others with the
// field's name.
TEST(Tail, OneKernelTakesAll) {
  for (const char* where : testing_tail::kWhere) {
    std::string error;
    const auto c = cases::parse(where, &error);
    ASSERT_TRUE(c.has_value()) << error;
    const cases::Instance x(*c, cases::Input::normal, 1);
    core::Problem problem;
    ASSERT_TRUE(core::validate(x.problem(), &problem).ok());
    for (const core::Kernel& kernel : core::kernels()) {
      if (kernel.device != TESSERA_CUDA) continue;
      const core::Status status = core::takes(kernel, problem);
      EXPECT_EQ(status.ok(), kernel.name == std::string_view("tail_rows")) << kernel.name << " " << where;
      if (status.ok() || kernel.tail || (problem.mixed() && !kernel.mixed)) continue;
      EXPECT_NE(status.message.find("key_tail is set"), std::string::npos) << kernel.name << status.message;
    }
  }
}

// Key, value and tail in one pool of pages, 4 GB; those of the last page are used, and a new row is stored
// there.
TEST(TailPool, BeyondTwoToThe31Elements) {
  SKIP_WITHOUT_GPU();
  constexpr std::int64_t kApart = (std::int64_t{1} << 30) + 64;  // elements of the tail, of 2 bytes
  constexpr std::size_t kAt = 4 * static_cast<std::size_t>(kApart), kTail = 32;
  gpu::Memory pool, rest;
  ASSERT_TRUE(gpu::Memory::allocate(0, kAt + 64, &pool).ok());
  ASSERT_TRUE(gpu::Memory::allocate(0, 1024, &rest).ok());
  ASSERT_TRUE(pool.fill(0, 64, 0).ok());
  ASSERT_TRUE(pool.fill(0, 64, kAt).ok());
  // f16: a query of (1, 1, 1), a new key of (1, 2, 3) and value of 5; two keys in pages 0 and 2.
  const std::uint16_t numbers[] = {0x3c00, 0x3c00, 0x3c00, 0, 0x3c00, 0x4000, 0x4200, 0, 0x4500};
  const std::int32_t places[] = {0, 2, 2};
  ASSERT_TRUE(rest.upload(numbers, sizeof numbers, 0).ok());
  ASSERT_TRUE(rest.upload(places, sizeof places, 256).ok());
  unsigned char* const pages = pool.data();
  tessera_attention p = TESSERA_ATTENTION_INIT;
  p.query = tessera_tensor_4d(rest.data(), TESSERA_F16, 1, 1, 1, 3);
  p.new_key = tessera_tensor_4d(rest.data() + 8, TESSERA_F16, 1, 1, 1, 3);
  p.new_value = tessera_tensor_4d(rest.data() + 16, TESSERA_F16, 1, 1, 1, 1);
  p.output = tessera_tensor_4d(rest.data() + 512, TESSERA_F16, 1, 1, 1, 1);
  p.key = tessera_tensor_4d(pages, TESSERA_I8, 3, 1, 1, 1);
  p.value = tessera_tensor_4d(pages + 16, TESSERA_I8, 3, 1, 1, 1);
  p.key_tail = tessera_tensor_4d(pages + kTail, TESSERA_F16, 3, 1, 1, 2);
  p.key.strides[0] = p.value.strides[0] = 2 * kApart;
  p.key_tail.strides[0] = kApart;
  p.page_table = {rest.data() + 256, TESSERA_I32, 2, {1, 2, 0, 0}, {2, 1, 0, 0}};
  p.key_lengths = {rest.data() + 264, TESSERA_I32, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
  p.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  p.scale = 100;
  const tessera_device device = gpu_device();
  ASSERT_EQ(tessera_attend(&p, &device), TESSERA_OK) << tessera_last_error();
  std::uint16_t output = 0, tail[2] = {};
  unsigned char codes[32] = {};
  ASSERT_TRUE(rest.download(&output, sizeof output, 512).ok());
  ASSERT_TRUE(pool.download(tail, sizeof tail, kAt + kTail).ok());
  ASSERT_TRUE(pool.download(codes, sizeof codes, kAt).ok());
  EXPECT_EQ(output, 0x4500);
  EXPECT_EQ(tail[0], 0x4000);
  EXPECT_EQ(tail[1], 0x4200);
  EXPECT_EQ(codes[0], 1);
  EXPECT_EQ(codes[16], 5);
}

}  // namespace
}  // namespace tessera
