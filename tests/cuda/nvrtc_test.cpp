// The kernels' headers are for nvcc and NVRTC alike, so they include nothing of the host's, and each includes
// what it uses. Here NVRTC reads every one of them by itself, and compiles some kernels of each folder down
// to PTX. It needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <ostream>
#include <set>
#include <string>
#include <vector>
#ifdef TESSERA_NVRTC
#include <nvrtc.h>
#endif

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path kSources = TESSERA_SOURCES;  // the folder src

// The host's, in folders of kernels.
const std::set<std::string> kHostHeaders = {
    "cuda/decode/choose.hpp",   "cuda/ladder/rows.hpp",        "cuda/mask/plan.hpp",
    "cuda/sm80/choose.hpp",     "cuda/sm80_f32/choose.hpp",    "cuda/sm90/choose.hpp",
    "cuda/sm90/launch.hpp",     "cuda/sm90/make_schedule.hpp", "cuda/sm90/tensors.hpp",
    "cuda/sm90_f32/choose.hpp", "cuda/sm90_f32/launch.hpp",    "cuda/serving/choose.hpp",
    "cuda/sm90/entries.hpp",    "cuda/serving/boxes.hpp",      "cuda/serving/codes.hpp",
    "cuda/serving/work.hpp",    "cuda/serving/dims.hpp",       "cuda/fp8_rows/choose.hpp",
    "cuda/sm89/choose.hpp",     "cuda/sm90/mask_params.hpp",   "cuda/sm90_fp8/choose.hpp",
    "cuda/sm90_fp8/launch.hpp", "cuda/sm90_fp8/values.hpp",    "cuda/quantise/run.hpp",
    "cuda/append/prepare.hpp"};

// A build tree that was carried elsewhere has no sources to read.
#define SKIP_WITHOUT_SOURCES() \
  if (!fs::exists(kSources)) GTEST_SKIP() << "the sources of this build are not here: " << kSources

TEST(KernelHeaders, TheHostsAreStillThere) {
  SKIP_WITHOUT_SOURCES();
  for (const std::string& name : kHostHeaders) EXPECT_TRUE(fs::exists(kSources / name)) << name;
}

#ifdef TESSERA_NVRTC

struct Folder {
  std::string name, arch;
  std::string header;                // that has
  std::vector<std::string> kernels;  // some of each kind
};
void PrintTo(const Folder& folder, std::ostream* out) { *out << folder.name; }

const std::vector<Folder> kShared = {
    {"ptx", "compute_90a", "", {}}, {"tile", "compute_80", "", {}}, {"mask", "compute_80", "", {}}};
const std::vector<Folder> kArchs = {
    {"ladder", "compute_80", "cuda/ladder/tensor_pv.hpp", {"tensor_pv<__half, 64>"}},
    {"decode", "compute_80", "cuda/decode/instance.hpp", {"attend<Element::f16, 64, 64>"}},
    {"serving",
     "compute_90a",
     "cuda/serving/coded_instance.hpp",
     {"attend<Element::f16, 64, 64, Variant::more>",
      "attend_codes<ptx::E4m3, 128, 128, CodedVariant::more>"}},
    {"fp8_rows",
     "compute_80",
     "cuda/fp8_rows/tail.hpp",
     {"attend<ptx::E4m3, __half>", "attend_tails<ptx::I8, __nv_bfloat16>", "attend_tails<float, float>"}},
    {"quantise",
     "compute_80",
     "cuda/quantise/write.hpp",
     {"write_codes<__half, tessera::codes::E4M3, false>", "write_codes<float, tessera::codes::E5M2, true>"}},
    {"append",
     "compute_80",
     "cuda/append/kernel.hpp",
     {"move_rows<__half, Way::wide>", "move_rows<unsigned char, Way::narrow>",
      "move_rows<__half, Way::codes>", "move_rows_with_tails<__half, Way::codes>"}},
    {"sm80", "compute_80", "cuda/sm80/instance.hpp", {"attend<Element::f16, 64, 64, Variant::plain>"}},
    {"sm89",
     "compute_80",
     "cuda/sm89/instance.hpp",
     {"attend<Element::e4m3, 64, Variant::plain>", "attend<Element::e5m2, 128, Variant::general>"}},
    {"sm80_f32", "compute_80", "cuda/sm80_f32/instance.hpp", {"attend<64, Variant::few>"}},
    {"sm90",
     "compute_90a",
     "cuda/sm90/instance.hpp",
     {"attend<Element::bf16, 64, 64, Variant::plain>", "attend<Element::f16, 64, 64, Variant::general>",
      "attend_split<Element::f16, 64, 64, Variant::narrow>"}},
    {"sm90_f32",
     "compute_90a",
     "cuda/sm90_f32/instance.hpp",
     {"attend<64, 64, Variant::plain>", "attend<256, 256, Variant::general>"}},
    {"sm90_fp8",
     "compute_90a",
     "cuda/sm90_fp8/instance.hpp",
     {"attend<sm90::Codes::e4m3, 64, 64, Variant::plain>",
      "attend<sm90::Codes::e5m2, 128, 128, Variant::general>"}}};

// Of a folder whose other kernels are for older archs, too.
const std::vector<Folder> kAda = {
    {"ladder", "compute_89", "cuda/ladder/fp8.hpp", {"fp8<ptx::E4m3, 64>", "fp8<ptx::E5m2, 128>"}}};

std::vector<std::string> kernel_headers(const Folder& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kSources / "cuda" / folder.name)) {
    const std::string name = "cuda/" + folder.name + "/" + entry.path().filename().string();
    if (entry.path().extension() == ".hpp" && kHostHeaders.count(name) == 0) names.push_back(name);
  }
  return names;
}

class Program {
 public:
  Program(const std::string& source, const std::string& arch, const std::vector<std::string>& kernels) {
    nvrtcCreateProgram(&program_, source.c_str(), "kernels.cu", 0, nullptr, nullptr);
    for (const std::string& kernel : kernels) nvrtcAddNameExpression(program_, kernel.c_str());
    // What the host calls in these headers is not compiled, but it is read: as if it were the device's.
    const std::string options[] = {
        "--gpu-architecture=" + arch, "--std=c++20", "--device-as-default-execution-space",
        "--include-path=" + kSources.string(), std::string("--include-path=") + TESSERA_CUDA_INCLUDE};
    const char* words[std::size(options)];
    std::transform(std::begin(options), std::end(options), words,
                   [](const std::string& o) { return o.c_str(); });
    result_ = nvrtcCompileProgram(program_, static_cast<int>(std::size(words)), words);
  }
  ~Program() { nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] bool compiled() const { return result_ == NVRTC_SUCCESS; }
  [[nodiscard]] std::string log() const { return text(nvrtcGetProgramLogSize, nvrtcGetProgramLog); }
  [[nodiscard]] std::string ptx() const { return text(nvrtcGetPTXSize, nvrtcGetPTX); }

 private:
  template <class Size, class Get>
  std::string text(Size size, Get get) const {
    std::size_t bytes = 0;
    if (size(program_, &bytes) != NVRTC_SUCCESS) return "";
    std::string out(bytes, '\0');
    return get(program_, out.data()) == NVRTC_SUCCESS ? out : "";
  }

  nvrtcProgram program_ = nullptr;
  nvrtcResult result_ = NVRTC_ERROR_INTERNAL_ERROR;
};

class KernelHeaders : public testing::TestWithParam<Folder> {};

TEST_P(KernelHeaders, AreReadOneByOne) {
  SKIP_WITHOUT_SOURCES();
  const std::vector<std::string> headers = kernel_headers(GetParam());
  EXPECT_FALSE(headers.empty());
  for (const std::string& name : headers) {
    const Program program("#include \"" + name + "\"\n", GetParam().arch, {});
    EXPECT_TRUE(program.compiled()) << name << "\n" << program.log();
  }
}

class Kernels : public testing::TestWithParam<Folder> {};

TEST_P(Kernels, Compile) {
  SKIP_WITHOUT_SOURCES();
  const Folder& folder = GetParam();
  const std::string source = "#include \"" + folder.header + "\"\nusing namespace tessera::cuda;\n" +
                             "using namespace tessera::cuda::" + folder.name + ";\n";
  const Program program(source, folder.arch, folder.kernels);
  EXPECT_TRUE(program.compiled()) << program.log();
  const std::string ptx = program.ptx();
  std::size_t entries = 0;
  for (std::size_t at = ptx.find(".entry"); at != std::string::npos; at = ptx.find(".entry", at + 1))
    ++entries;
  EXPECT_EQ(entries, folder.kernels.size());
}

std::string name_of(const testing::TestParamInfo<Folder>& folder) { return folder.param.name; }
INSTANTIATE_TEST_SUITE_P(Shared, KernelHeaders, testing::ValuesIn(kShared), name_of);
INSTANTIATE_TEST_SUITE_P(Archs, KernelHeaders, testing::ValuesIn(kArchs), name_of);
INSTANTIATE_TEST_SUITE_P(Archs, Kernels, testing::ValuesIn(kArchs), name_of);
INSTANTIATE_TEST_SUITE_P(Ada, Kernels, testing::ValuesIn(kAda), name_of);

#else

TEST(KernelHeaders, AreReadOneByOne) { GTEST_SKIP() << "this CUDA toolkit has no NVRTC"; }

#endif

}  // namespace
}  // namespace tessera
