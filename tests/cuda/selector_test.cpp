// The selector on GPUs that are not here: every arch gets a kernel it can run, or the sentence why not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "cases/case.hpp"
#include "cases/tensors.hpp"
#include "core/plan.hpp"
#include "cuda/backend.hpp"
#include "tests/cuda/pretend.hpp"

namespace tessera {
namespace {

using cuda::runtime::Gpu;
using testing_cuda::Pretend;

core::Problem problem_of(const cases::Case& c) {
  core::Problem problem;
  const core::Status status = cases::validated(c, &problem);
  EXPECT_TRUE(status.ok()) << c.name << ": " << status.message;
  return problem;
}

Gpu gpu_of(int arch) {
  Gpu gpu;
  gpu.name = fmt::format("pretended sm_{}", arch);
  gpu.arch = arch;
  gpu.sms = arch == 89 ? 58 : 132;
  // CUDA programming guide, technical specifications by compute capability.
  const bool large = arch == 80 || arch == 90 || arch == 100;
  gpu.shared_block_bytes = large ? (arch == 80 ? 163 : 227) * 1024 : 99 * 1024;
  gpu.shared_sm_bytes = gpu.shared_block_bytes + 1024;
  gpu.l2_bytes = 40 << 20;
  gpu.memory_bytes = std::int64_t{24} << 30;
  return gpu;
}

tessera_device cuda_device() {
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = TESSERA_CUDA;
  return device;
}

class Selector : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!cuda::runtime::in_build()) GTEST_SKIP() << "this build has no CUDA kernels";
    if (cuda::kernels().empty()) GTEST_SKIP() << "no CUDA kernel is in the table yet";
    pretend_.emplace(std::vector<Gpu>{gpu_of(GetParam())});
  }

 private:
  std::optional<Pretend> pretend_;
};

TEST_P(Selector, EveryNamedHalfPrecisionCaseGetsAKernel) {
  for (cases::Case c : cases::named()) {
    if (c.dim > 512 || c.value_dim > 512 || (c.dtype != TESSERA_F16 && c.dtype != TESSERA_BF16)) continue;
    core::Plan plan;
    const core::Status status = core::plan(problem_of(c), cuda_device(), &plan);
    ASSERT_TRUE(status.ok()) << c.name << ": " << status.message;
    EXPECT_GT(plan.prepared->threads, 0) << c.name;
    EXPECT_LE(plan.prepared->threads, 1024) << c.name;
    EXPECT_GE(plan.prepared->work_items, 0) << c.name;
    EXPECT_FALSE(core::why(plan, problem_of(c), cuda_device()).empty()) << c.name;
    EXPECT_FALSE(plan.prepared->words().empty()) << c.name;
    EXPECT_EQ(plan.kernel->device, TESSERA_CUDA);
    EXPECT_EQ(plan.kernel->rung, 0) << c.name << " got " << plan.kernel->name << ", a rung of the ladder";
  }
}

TEST_P(Selector, F32GetsTensorCoresToHeadDim256) {
  for (cases::Case c : cases::named()) {
    // The scalar kernel's, and of 8 bits.
    if (c.group == "serving" || c.group.starts_with("append") || c.group.starts_with("fp8")) continue;
    if (c.tail > 0) continue;
    c.dtype = TESSERA_F32;
    core::Plan plan;
    const core::Status status = core::plan(problem_of(c), cuda_device(), &plan);
    ASSERT_TRUE(status.ok()) << c.name << ": " << status.message;
    if (c.dim <= 256 && c.value_dim <= 256)
      EXPECT_EQ(plan.kernel->rung, 0) << c.name << " got " << plan.kernel->name << ", a rung of the ladder";
    else
      EXPECT_EQ(plan.kernel->name, "scalar") << c.name;
  }
}

// By tensor cores where rows are aligned and the batch is dense.
TEST_P(Selector, Every8BitCaseGetsAKernel) {
  for (const cases::Case& c : cases::named()) {
    if (!c.group.starts_with("fp8")) continue;
    core::Plan plan;
    const core::Status status = core::plan(problem_of(c), cuda_device(), &plan);
    ASSERT_TRUE(status.ok()) << c.name << ": " << status.message;
    const std::string_view name = plan.kernel->name;
    const bool by_tiles =
        name == "sm89" || name == "serving_codes" || (GetParam() == 90 && name == "sm90_fp8");
    if (c.name == "fp8_head" || c.name == "fp8_block64_e5m2" || c.name == "fp8_gemma_like") {
      EXPECT_TRUE(by_tiles) << c.name << " got " << name;
    }
    if (c.name == "cache8_no_keys") continue;  // whichever starts sooner
    // The slow way out: rows that are no whole chunks, values that are transposed, queries of f32, scales by
    // page and channel, scales by key beside an output of f32.
    const bool by_block = c.scales == cases::ScaleKind::block64 || c.scales == cases::ScaleKind::block128;
    const bool slow =
        c.name == "fp8_d3" || c.transposed || c.dtype == TESSERA_F32 ||
        (c.page > 0 && c.scales == cases::ScaleKind::channel) ||
        (c.output_dtype == TESSERA_F32 && (by_block || (c.page > 0 && c.scales == cases::ScaleKind::head)));
    if (c.cache != 0 || c.name == "fp8_d3" || c.name == "fp8_pages_16") {
      EXPECT_EQ(name, slow || c.dim % 16 != 0 ? "fp8_rows" : "serving_codes") << c.name;
    }
  }
}

// Latent attention by tensor cores, where tiles have room for key and tail; all others by the kernel for all.
TEST_P(Selector, KeysInTwoTensorsGetAKernel) {
  for (const cases::Case& c : cases::in_group("tail")) {
    core::Plan plan;
    const core::Status status = core::plan(problem_of(c), cuda_device(), &plan);
    ASSERT_TRUE(status.ok()) << c.name << ": " << status.message;
    const bool coded = c.cache != 0 && c.dtype != TESSERA_F32;
    const bool whole = coded ? (c.dim - c.tail) % 16 == 0 && c.tail % 8 == 0 : (c.dim - c.tail) % 64 == 0;
    const bool tiles =
        c.latent && whole && c.dtype != TESSERA_F32 && c.tail <= 64 && c.layout != cases::Layout::padded;
    const bool by_block = c.scales == cases::ScaleKind::block64 || c.scales == cases::ScaleKind::block128;
    const bool rounds = coded && by_block && c.output_dtype == TESSERA_F32;  // weights times scales
    EXPECT_EQ(plan.kernel->name, !tiles || rounds ? "tail_rows"
                                 : coded          ? "serving_codes"
                                                  : "serving")
        << c.name;
  }
}

TEST_P(Selector, AKernelAskedForByNameIsTakenOrRefusedWithAReason) {
  const core::Problem problem = problem_of(*cases::find("mission512"));
  for (const core::Kernel& kernel : core::kernels()) {
    if (kernel.device != TESSERA_CUDA) continue;
    tessera_device device = cuda_device();
    device.kernel = kernel.name.data();  // names are literals
    core::Plan plan;
    const core::Status status = core::plan(problem, device, &plan);
    if (status.ok())
      EXPECT_EQ(plan.kernel->name, kernel.name);
    else
      EXPECT_NE(status.message.find(kernel.name), std::string::npos) << status.message;
  }
}

// The rung of 8-bit tensor cores: by name, and from Ada on.
TEST_P(Selector, TheRungOf8BitsIsForAdaAndNewer) {
  tessera_device device = cuda_device();
  device.kernel = "fp8";
  core::Plan plan;
  std::string error;
  const auto c = cases::parse("b2 h8 q512 d64 f8e4m3 scales=head", &error);
  ASSERT_TRUE(c.has_value()) << error;
  const core::Status status = core::plan(problem_of(*c), device, &plan);
  if (GetParam() >= 89) {
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(plan.kernel->name, "fp8");
    EXPECT_EQ(plan.prepared->words(), "blocks of 64 query rows");
  } else {
    EXPECT_EQ(status.code, TESSERA_DEVICE_UNAVAILABLE);
    EXPECT_NE(status.message.find(fmt::format(
                  "is sm_{}; this rung needs sm_89 or newer, whose tensor cores take 8 bits", GetParam())),
              std::string::npos)
        << status.message;
  }
}

INSTANTIATE_TEST_SUITE_P(Archs, Selector, testing::Values(80, 86, 89, 90, 100, 120),
                         [](const auto& param) { return fmt::format("sm_{}", param.param); });

TEST(RungOf8Bits, RefusesInWordsWhatItDoesNotTake) {
  if (!cuda::runtime::in_build()) GTEST_SKIP() << "this build has no CUDA kernels";
  const Pretend pretend({gpu_of(89)});
  tessera_device device = cuda_device();
  device.kernel = "fp8";
  const auto plan_of = [&](const char* words) {
    std::string error;
    const auto c = cases::parse(words, &error);
    EXPECT_TRUE(c.has_value()) << words << ": " << error;
    core::Plan plan;
    return core::plan(problem_of(*c), device, &plan);
  };
  for (const char* words :
       {"b2 h4/2 q70 k100 d128 f8e4m3", "b1 h2 q9 k70 d48 v16 f8e5m2 scales=channel out=bf16",
        "b1 h2 q9 d64 f8e4m3 scales=block64",
        "b1 h2 q9 k70 d64 f8e4m3 scales=head causal=bottom-right window=30,0 lengths out=f32"}) {
    const core::Status status = plan_of(words);
    EXPECT_TRUE(status.ok()) << words << ": " << status.message;
  }
  struct {
    const char *words, *says;
  } const refused[] = {
      {"b1 h2 q9 d64 f16", "dtype is f16; this rung takes f8e4m3 and f8e5m2"},
      {"b1 h2 q9 d160 f8e4m3", "dim is 160 and value dim 160; this rung takes up to 128"},
      {"b1 h2 q9 d64 f8e4m3 softcap=30", "softcap, ALiBi, mask tensors and sinks are not for this rung"},
      {"b1 h2 q9 d64 f8e4m3 sinks", "softcap, ALiBi, mask tensors and sinks are not for this rung"},
      {"b2 h2 q9 d64 f8e4m3 ragged", "query_offsets is set; this kernel takes dense batches without it"},
      {"b1 h2 q9 d64 f8e4m3 transposed",
       "value is transposed; this rung takes value rows of contiguous elements"},
      {"b1 h2 q9 d24 f8e4m3", "rows are not aligned to 16 bytes or not a multiple of 16 elements long"},
  };
  for (const auto& row : refused) {
    const core::Status status = plan_of(row.words);
    EXPECT_FALSE(status.ok()) << row.words;
    EXPECT_NE(status.message.find(row.says), std::string::npos) << row.words << ": " << status.message;
  }
}

TEST(SelectorWithout, OldGpusAndMissingOnesAreRefusedInWords) {
  if (!cuda::runtime::in_build() || cuda::kernels().empty()) GTEST_SKIP() << "this build has no CUDA kernels";
  const core::Problem problem = problem_of(*cases::find("mission512"));
  core::Plan plan;
  core::Status status;
  {
    const Pretend old({gpu_of(75)});
    status = core::plan(problem, cuda_device(), &plan);
  }
  EXPECT_EQ(status.code, TESSERA_DEVICE_UNAVAILABLE);
  EXPECT_NE(status.message.find("is sm_75; sm_80 or newer is needed"), std::string::npos) << status.message;

  {
    const Pretend none({});
    status = core::plan(problem, cuda_device(), &plan);
  }
  EXPECT_EQ(status.code, TESSERA_DEVICE_UNAVAILABLE);
  EXPECT_NE(status.message.find("finds no GPU"), std::string::npos) << status.message;

  const Pretend two({gpu_of(90), gpu_of(75)});
  tessera_device second = cuda_device();
  second.index = 1;
  EXPECT_EQ(core::plan(problem, second, &plan).code, TESSERA_DEVICE_UNAVAILABLE);
  second.index = 2;
  status = core::plan(problem, second, &plan);
  EXPECT_NE(status.message.find("there is no GPU 2: this machine has 2, numbers 0 to 1"), std::string::npos)
      << status.message;
}

// What `kernel` would launch for the case, over addresses that stand for every tensor; false: it is not in
// this build.
bool holds_every_address(const char* kernel, const tessera_attention& attention, const Pretend& pretend) {
  tessera_device device = cuda_device();
  device.kernel = kernel;
  core::Problem problem;
  core::Plan plan;
  EXPECT_TRUE(core::validate(attention, &problem).ok());
  const core::Status status = core::plan(problem, device, &plan);
  if (status.code == TESSERA_DEVICE_UNAVAILABLE) return false;  // a build without sm_90a
  EXPECT_TRUE(status.ok()) << status.message;
  core::Addresses at;
  std::uintptr_t next = 0x7000000000;
  for (void*& address : at.values) address = reinterpret_cast<void*>(next += 0x100000);
  EXPECT_TRUE(plan.prepared->submit(at, device).ok());
  const auto& step = pretend.launched().back();
  EXPECT_NE(step.function, nullptr);
  const auto holds = [&](const void* address) {
    for (std::size_t n = 0; n + sizeof address <= step.params_bytes; n += sizeof address)
      if (std::memcmp(step.params.data() + n, &address, sizeof address) == 0) return true;
    return false;
  };
  for (const core::TensorField& field : core::kTensorFields.values) {
    if (field.id >= core::TensorId::new_key) break;  // no kernel knows of those: append_test has them
    const bool scales = field.id >= core::TensorId::query_scales;  // those come with 8-bit inputs alone
    if (scales && !core::is_8_bit(problem.dtype)) continue;
    EXPECT_TRUE(holds(at[field.id])) << kernel << " " << field.name;
  }
  return true;
}

// One plan serves every call that differs in addresses alone: they are put in when it is submitted.
TEST(Steps, AddressesArePutInWhenAPlanIsSubmitted) {
  if (!cuda::runtime::in_build()) GTEST_SKIP() << "this build has no CUDA kernels";
  const Pretend pretend({gpu_of(90)});
  std::string error;
  int judged = 0;
  const auto judge = [&](const char* words, std::initializer_list<const char*> kernels) {
    const auto c = cases::parse(words, &error);
    ASSERT_TRUE(c.has_value()) << error;
    for (const tessera_dtype lengths : {TESSERA_I32, TESSERA_I64}) {
      tessera_attention attention = cases::shape_only(*c);
      attention.key_lengths.dtype = lengths;
      for (const char* kernel : kernels) judged += holds_every_address(kernel, attention, pretend) ? 1 : 0;
    }
  };
  judge("b2 h8 q512 d64 f16 lengths", {"sm90", "sm80", "scalar", "persistent"});
  judge("b2 h8 q512 d64 f32 lengths", {"sm90_f32"});
  judge("b2 h8 q512 d64 f8e4m3 lengths scales=head", {"sm90_fp8", "sm89", "fp8_rows", "fp8"});
  EXPECT_GE(judged, 12);
}

}  // namespace
}  // namespace tessera
