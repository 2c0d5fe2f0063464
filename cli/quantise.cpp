// `tessera quantise`: arrays from files as 8-bit codes and scales, for `tessera attend` and for others.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cases/gpu/memory.hpp"
#include "cli/common.hpp"
#include "cli/file_tensors.hpp"
#include "cli/json.hpp"
#include "cli/select.hpp"
#include "cli/term.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"

namespace tessera::cli {
namespace {

constexpr const char* kQuantiseFooter = R"(
Each number becomes the nearest 8-bit float, or whole number (i8), of number / scale, where scale is the largest
magnitude of what shares it, divided by 448 (e4m3), 57344 (e5m2) or 127 (i8: for key and value). --scales says what
shares one: the whole tensor, a head, 64 or 128 rows of a head, a channel of a head (for values). NaN stays (in
i8: 0), infinity becomes the largest number.

Files are as for `tessera attend`. In a .safetensors file the results are called codes, scales and means or, where
--output ends in :NAME, NAME, NAME_scales and NAME_means, all in one file. Beside a .npy, --scales-output and
--means-output name the others. --smooth is for keys: the mean of each channel is subtracted, the output of attention
stays, and its lse is too small by scale * dot(query, mean). --hadamard rotates rows: for query and key, both or
neither. --transpose writes [batch, heads, dim, rows], which `tessera attend` takes with --value-transposed.

Examples:
  tessera quantise --input k.npy --output k8.safetensors:key --scales block64
  tessera quantise --input v.npy --output v8.safetensors:value --scales channel --dtype e5m2
  tessera quantise --input k.npy --output k8.npy --scales-output s.npy --smooth --means-output m.npy
  tessera quantise --input q.npy --output q8.safetensors --scales head --device cuda
  tessera attend --query q8.safetensors --key k8.safetensors --value v8.safetensors --output o.npy \
                 --query-scales q8.safetensors --key-scales k8.safetensors --value-scales v8.safetensors

Exit code 2: the input or a flag is wrong, and nothing was written. `tessera --help` has all codes.)";

struct QuantiseFlags : LoadFlags {
  std::string input, output, scales_output, means_output;
  std::string format = "e4m3", scales = "tensor", layout = "bhsd";
  bool smooth = false, hadamard = false, transpose = false, json = false;
  DeviceFlags device;
};

// Where the three results go, as names on a command line.
struct Places {
  std::string codes, scales, means;
};

// Beside codes in a .safetensors file; of a .npy there is no beside.
std::string beside(const QuantiseFlags& flags, const std::string& given, const std::string& flag,
                   std::string_view what) {
  if (!given.empty()) return given;
  const files::Location at = files::locate(flags.output);
  if (!at.safetensors)
    usage_error(fmt::format("{} holds one array; pass {} for the {}, or an --output in .safetensors", at.path,
                            flag, what));
  return fmt::format("{}:{}{}", at.path, at.tensor.empty() ? "" : at.tensor + "_", what);
}

Places places_of(const QuantiseFlags& flags) {
  if (!flags.smooth && !flags.means_output.empty())
    usage_error("--means-output is given without --smooth; there are no means then");
  Places places{flags.output, beside(flags, flags.scales_output, "--scales-output", "scales"), ""};
  if (flags.smooth) places.means = beside(flags, flags.means_output, "--means-output", "means");
  for (const std::string* each : {&places.codes, &places.scales, &places.means}) {
    if (each->empty()) continue;
    const std::string path = files::locate(*each).path;
    if (files::same_file(path, files::locate(flags.input).path))
      usage_error(fmt::format("{} is the input of this command; name another file for the result", path));
  }
  return places;
}

// The scales' shape for what --scales says, and the rows of a block.
std::pair<files::Shape, std::int32_t> scale_shape(const std::string& kind, const std::int64_t* shape) {
  if (kind == "tensor") return {{1, 1, 1, 1}, 0};
  if (kind == "channel") return {{shape[0], shape[1], 1, shape[3]}, 0};
  const std::int32_t rows = kind == "block64" ? 64 : kind == "block128" ? 128 : 0;
  const std::int64_t blocks = rows == 0 ? 1 : std::max<std::int64_t>((shape[2] + rows - 1) / rows, 1);
  return {{shape[0], shape[1], blocks, 1}, rows};
}

struct Quantised {
  files::Tensor input, codes, scales, means;
};

// On a GPU over copies there, whose results come back.
core::Status quantise_on_gpu(const tessera_quantisation& host, const Quantised& r,
                             const tessera_device& device) {
  tessera_quantisation q = host;
  const struct {
    tessera_tensor tessera_quantisation::*tensor;
    std::size_t bytes;
  } all[] = {{&tessera_quantisation::input, r.input.bytes.size()},
             {&tessera_quantisation::output, r.codes.bytes.size()},
             {&tessera_quantisation::scales, r.scales.bytes.size()},
             {&tessera_quantisation::means, r.means.bytes.size()}};
  std::array<gpu::Memory, std::size(all)> there;
  for (std::size_t n = 0; n < std::size(all); ++n) {
    if (all[n].bytes == 0) continue;
    if (core::Status s = gpu::Memory::allocate(device.index, all[n].bytes, &there[n]); !s.ok()) return s;
    if (n == 0)
      if (core::Status s = there[n].upload(host.input.data, all[n].bytes); !s.ok()) return s;
    (q.*all[n].tensor).data = there[n].data();
  }
  if (const tessera_status code = tessera_quantise(&q, &device); code != TESSERA_OK)
    return {code, tessera_last_error()};
  for (std::size_t n = 1; n < std::size(all); ++n) {
    if (all[n].bytes == 0) continue;
    if (core::Status s = there[n].download((host.*all[n].tensor).data, all[n].bytes); !s.ok()) return s;
  }
  return {};
}

Quantised compute(const QuantiseFlags& flags, const Places& places) {
  const tessera_device device = flags.device.resolve();
  Quantised r;
  const bool rows_before_heads = flags.layout == "bshd";
  r.input = load_numbers(flags.input, std::array<std::string_view, 1>{"input"}, flags, false);
  tessera_quantisation q = TESSERA_QUANTISATION_INIT;
  q.input = view_4d(r.input, rows_before_heads);
  const files::Element element = element_of(flags.format == "i8" ? "i8" : "f8" + flags.format);
  const auto [sizes, scale_rows] = scale_shape(flags.scales, q.input.shape);
  const std::int64_t* const shape = q.input.shape;
  if (flags.transpose) {
    files::Shape transposed = {shape[0], shape[1], shape[3], shape[2]};
    transposed.erase(transposed.begin(), transposed.end() - std::ssize(r.input.shape));
    r.codes = allocate(element, std::move(transposed), places.codes);
    q.output = transposed_view_4d(r.codes);
  } else {
    r.codes = allocate(element, r.input.shape, places.codes);
    q.output = view_4d(r.codes, rows_before_heads);
  }
  r.scales = allocate(files::Element::f32, sizes, places.scales);
  q.scales = view(r.scales, "scales", 4);
  q.scale_rows = scale_rows;
  q.hadamard = flags.hadamard ? 1 : 0;
  if (flags.smooth) {
    r.means = allocate(files::Element::f32, {shape[0], shape[1], 1, shape[3]}, places.means);
    q.means = view(r.means, "means", 4);
  }
  if (device.kind == TESSERA_CUDA)
    stop_unless_ok(quantise_on_gpu(q, r, device));
  else
    stop_unless_ok(tessera_quantise(&q, &device));
  return r;
}

Json described(const files::Tensor& t) {
  return {{"source", t.source}, {"dtype", files::element_name(t.element)}, {"shape", t.shape}};
}

void print(const Quantised& r, const QuantiseFlags& flags) {
  const std::array<std::pair<const char*, const files::Tensor*>, 4> all = {
      {{"input", &r.input}, {"codes", &r.codes}, {"scales", &r.scales}, {"means", &r.means}}};
  Json json = {{"verb", "quantise"}, {"scales_for", flags.scales}};
  for (const auto& [name, tensor] : all) {
    if (!tensor->owner) continue;
    if (flags.json)
      json[name] = described(*tensor);
    else
      fmt::print("{}  {} {} {}\n", paint(Ink::dim, fmt::format("{:<7}", name)), tensor->source,
                 files::element_name(tensor->element), files::shape_text(tensor->shape));
  }
  if (flags.json) print_json(json);
}

int quantise(const QuantiseFlags& flags) {
  const Places places = places_of(flags);
  const Quantised r = compute(flags, places);
  files::Outputs outputs;
  std::string error;
  std::vector<files::Tensor> results = {r.codes, r.scales};
  if (!outputs.open(places.codes, "codes", &error) || !outputs.open(places.scales, "scales", &error))
    usage_error(error);
  if (flags.smooth) {
    if (!outputs.open(places.means, "means", &error)) usage_error(error);
    results.push_back(r.means);
  }
  if (!outputs.save(results, &error)) throw Stop(kExitNoAnswer, error);
  print(r, flags);
  return kExitOk;
}

}  // namespace

void add_quantise(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand("quantise", "Turn an array into 8-bit codes and their scales");
  const auto flags = std::make_shared<QuantiseFlags>();
  file_name(verb->add_option("--input,-i", flags->input, "Numbers: float32, float16 or bfloat16"))
      ->required();
  file_name(verb->add_option("--output,-o", flags->output, "Where the codes go, and the rest beside them"))
      ->required();
  file_name(verb->add_option("--scales-output", flags->scales_output, "Where the scales go instead"));
  file_name(
      verb->add_option("--means-output", flags->means_output, "Where the means of --smooth go instead"));
  one_of(verb->add_option("--dtype", flags->format, "Of the codes"), {"e4m3", "e5m2", "i8"})
      ->capture_default_str();
  one_of(verb->add_option("--scales", flags->scales, "What shares a scale"),
         {"tensor", "head", "block64", "block128", "channel"})
      ->capture_default_str();
  one_of(verb->add_option("--layout", flags->layout,
                          "bhsd: [batch, heads, rows, dim]; bshd: [batch, rows, heads, dim]"),
         {"bhsd", "bshd"})
      ->capture_default_str();
  verb->add_flag("--smooth", flags->smooth, "Subtract the mean of each channel, and write the means");
  verb->add_flag("--hadamard", flags->hadamard, "Rotate rows; the head dimension is a power of two");
  verb->add_flag("--transpose", flags->transpose, "Write codes as [batch, heads, dim, rows], for values");
  one_of(verb->add_option("--input-dtype", flags->dtype, "What 16-bit elements of no stated float type are"),
         {"f16", "bf16"});
  verb->add_flag("--convert", flags->convert, "Round a float64 input to float32");
  flags->device.add_to(*verb);
  verb->add_flag("--json", flags->json, "Print what was done as JSON");
  verb->footer(kQuantiseFooter);
  verb->callback([flags, exit_code] {
    try {
      *exit_code = quantise(*flags);
    } catch (const std::bad_alloc&) {
      throw Stop(kExitUnavailable, "not enough memory for this input");
    }
  });
}

}  // namespace tessera::cli
