// Small random cases through every gate: whatever shape, options and inputs the fuzzer finds, each kernel
// that runs here must agree with the oracle. Prints the command that repeats a failure.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdio>
#include <cstdlib>

#include "cases/gates.hpp"
#include "core/plan.hpp"

using namespace tessera;
using cases::Case;

namespace {

Case any_case(FuzzedDataProvider& fuzz) {
  const auto size = [&](std::int64_t least, std::int64_t most) {
    return fuzz.ConsumeIntegralInRange<std::int64_t>(least, most);
  };
  Case c;
  c.batch = size(1, 2);
  c.kv_heads = size(1, 2);
  c.heads = c.kv_heads * size(1, 3);
  c.queries = size(1, 40);
  c.keys = fuzz.ConsumeBool() ? c.queries : size(0, 70);
  c.dim = size(1, 40);
  c.value_dim = size(1, 40);
  c.dtype = static_cast<tessera_dtype>(size(TESSERA_F32, TESSERA_F8E5M2));
  if (c.dtype < TESSERA_F8E4M3 && fuzz.ConsumeBool())
    c.cache = fuzz.PickValueInArray({TESSERA_F8E4M3, TESSERA_F8E5M2, TESSERA_I8});
  if (c.dtype >= TESSERA_F8E4M3 || c.cache != 0) {
    c.scales = static_cast<cases::ScaleKind>(size(0, 5));
    c.transposed = fuzz.ConsumeBool();
  }
  c.layout = fuzz.PickValueInArray(
      {cases::Layout::bhsd, cases::Layout::bshd, cases::Layout::padded, cases::Layout::aligned});
  c.align = static_cast<tessera_align>(size(TESSERA_ALIGN_NONE, TESSERA_ALIGN_BOTTOM_RIGHT));
  if (c.align != TESSERA_ALIGN_NONE) {
    c.left = size(-1, 20);
    c.right = size(-1, 20);
    c.alibi = fuzz.ConsumeBool();
  }
  c.mask_shape =
      fuzz.PickValueInArray({cases::MaskShape::none, cases::MaskShape::keys, cases::MaskShape::queries_keys,
                             cases::MaskShape::batch_keys, cases::MaskShape::full});
  c.mask_type = fuzz.ConsumeBool() ? cases::MaskType::boolean : cases::MaskType::additive;
  c.key_lengths = fuzz.ConsumeBool();
  c.sinks = fuzz.ConsumeBool();
  if (fuzz.ConsumeBool()) c.softcap = fuzz.ConsumeFloatingPointInRange<float>(0.5f, 50.0f);
  if (fuzz.ConsumeBool()) c.scale = fuzz.ConsumeFloatingPointInRange<float>(0.01f, 2.0f);
  return c;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider fuzz(data, size);
  const Case c = any_case(fuzz);
  const std::vector<cases::Input>& inputs = cases::all_inputs();
  const cases::Input input = inputs[fuzz.ConsumeIntegralInRange<std::size_t>(0, inputs.size() - 1)];
  cases::Instance instance(c, input, fuzz.ConsumeIntegral<std::uint64_t>());
  const cases::Expected expected = cases::expect(instance);

  tessera_device device = TESSERA_DEVICE_INIT;
  device.threads = fuzz.ConsumeIntegralInRange<std::int32_t>(1, 3);
  for (const core::Kernel& kernel : core::kernels()) {
    if (kernel.device != TESSERA_CPU || !core::missing(kernel, device).empty()) continue;
    const std::string name(kernel.name);
    device.kernel = name.c_str();
    const cases::Verdict verdict = cases::judge(instance, expected, device);
    if (verdict.passed) continue;
    std::fprintf(stderr, "%s\n%s\n", verdict.why.c_str(), verdict.reproduce.c_str());
    std::abort();
  }
  return 0;
}
