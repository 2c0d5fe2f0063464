// `tessera demo`: a short story on this machine. What was found, real problems computed, proven against the
// oracle, timed beside plain loops, and the speed-up as a picture.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <span>
#include <thread>

#include "cases/gates.hpp"
#include "cli/check.hpp"
#include "cli/common.hpp"
#include "cli/gpu_timing.hpp"
#include "cli/json.hpp"
#include "cli/measure.hpp"
#include "cli/plain_attention.hpp"
#include "cli/probe.hpp"
#include "cli/select.hpp"
#include "cli/term.hpp"
#include "cli/timing.hpp"
#include "core/plan.hpp"

namespace tessera::cli {
namespace {

struct Scene {
  const char* title;
  const char* words;
  std::int64_t plain_heads;  // how many heads the plain loops are timed on; 0 means all
};

// f32, because plain loops are.
constexpr Scene kScenes[] = {
    {"A small batch", "b2 h8 q512 k512 d64 f32", 0},
    {"Reading a prompt of 2,048 tokens, causal", "b1 h8 q2048 k2048 d128 f32 causal=bottom-right", 1},
    {"Writing the next token after 8,192", "b1 h32/8 q1 k8192 d128 f32", 0},
};
constexpr Scene kQuickScenes[] = {
    {"A very small batch", "b2 h4 q128 k128 d64 f32", 0},
    {"Reading a prompt of 256 tokens, causal", "b1 h8 q256 k256 d64 f32 causal=bottom-right", 1},
    {"Writing the next token after 1,024", "b1 h8/2 q1 k1024 d64 f32", 0},
};

struct DemoOptions {
  bool quick = false;
  bool json = false;
};

struct SceneOutcome {
  const Scene* scene = nullptr;
  cases::Case shape;
  std::string kernel;
  cases::Verdict check;
  double plain_us = 0;      // 1 thread
  double ours_one_us = 0;   // 1 thread
  double ours_all_us = 0;   // all threads
  double plain_all_us = 0;  // heads spread over all threads
  std::int64_t heads_timed = 0;
  double difference = 0;  // largest |plain - tessera| over the heads that plain computed
  // The same problem in f16 on the GPU, if there is one.
  std::string gpu, gpu_kernel;
  cases::Verdict gpu_check;
  double gpu_us = 0;

  [[nodiscard]] bool passed() const { return check.passed && (gpu.empty() || gpu_check.passed); }
};

const float* head(const tessera_tensor& t, std::int64_t b, std::int64_t h) {
  return static_cast<const float*>(t.data) + b * t.strides[0] + h * t.strides[1];
}

struct PlainRun {
  double us = 0;
  std::vector<float> output;  // [head, query, dim] of the heads computed
};

// Plain loops over the first `heads` (batch, head) pairs, shared out over `threads`.
PlainRun run_plain(const cases::Instance& instance, std::int64_t heads, int threads) {
  const cases::Case& c = instance.shape();
  const tessera_attention& p = instance.problem();
  const bool causal = c.align != TESSERA_ALIGN_NONE;
  PlainRun run;
  run.output.resize(static_cast<std::size_t>(heads * c.queries * c.dim));
  const auto work = [&](std::int64_t first) {
    std::vector<float> scores(static_cast<std::size_t>(c.keys));
    for (std::int64_t at = first; at < heads; at += threads) {
      const std::int64_t b = at / c.heads, h = at % c.heads, kv = h / (c.heads / c.kv_heads);
      plain_attention(head(p.query, b, h), head(p.key, b, kv), head(p.value, b, kv),
                      run.output.data() + at * c.queries * c.dim, scores.data(), c.queries, c.keys, c.dim,
                      causal);
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& each : others) each.join();
  run.us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  return run;
}

double time_ours_us(const cases::Instance& instance, int threads) {
  tessera_device device = TESSERA_DEVICE_INIT;
  device.threads = threads;
  const auto call = [&] {
    if (tessera_attend(&instance.problem(), &device) != TESSERA_OK)
      throw Stop(kExitFailed, tessera_last_error());
  };
  return time_interleaved({call}, 0.3).front().p50_us;
}

double largest_difference(const cases::Instance& instance, const std::vector<float>& plain) {
  const std::vector<double> ours = instance.output();
  double largest = 0;
  for (std::size_t i = 0; i < plain.size(); ++i)
    largest = std::max(largest, std::abs(ours[i] - static_cast<double>(plain[i])));
  return largest;
}

// f16, because that is what GPUs are used with. A problem that no GPU kernel takes is left out.
void play_on_gpu(SceneOutcome* out) {
  const cuda::runtime::Gpu* gpu = cuda::runtime::find_gpu(0, nullptr);
  if (gpu == nullptr) return;
  cases::Case shape = out->shape;
  shape.dtype = TESSERA_F16;
  shape.name = cases::words(shape);
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = TESSERA_CUDA;
  core::Plan plan;
  cases::Instance instance(shape, cases::Input::normal, 1);
  if (!core::plan(validated(instance), device, &plan).ok()) return;
  out->gpu = gpu->name;
  out->gpu_kernel = std::string(plan.kernel->name);
  device.kernel = out->gpu_kernel.c_str();
  out->gpu_check = cases::judge(instance, cases::expect(instance), device);
  if (!out->gpu_check.passed) return;
  cases::Mirror* mirror = nullptr;
  if (const core::Status s = instance.mirror(0, &mirror); !s.ok()) throw Stop(kExitUnavailable, s.message);
  const tessera_attention there = mirror->problem(instance.problem());
  const GpuCall call = [&](void* stream) -> core::Status {
    device.stream = stream;
    const tessera_status status = tessera_attend(&there, &device);
    return {status, status == TESSERA_OK ? "" : tessera_last_error()};
  };
  out->gpu_us = time_on_gpu(*gpu, {call}, 0.05).front().graph.p50_us;
}

SceneOutcome play(const Scene& scene) {
  SceneOutcome out;
  std::string error;
  out.scene = &scene;
  out.shape = *cases::parse(scene.words, &error);
  cases::Instance instance(out.shape, cases::Input::normal, 1);

  tessera_device device = TESSERA_DEVICE_INIT;
  core::Plan plan;
  if (const core::Status s = core::plan(validated(out.shape), device, &plan); !s.ok())
    throw Stop(kExitUnavailable, s.message);
  out.kernel = std::string(plan.kernel->name);
  device.kernel = out.kernel.c_str();
  out.check = cases::judge(instance, cases::expect(instance), device);
  if (!out.check.passed) return out;

  const int cores = this_machine().cores;
  const std::int64_t all_heads = out.shape.batch * out.shape.heads;
  out.heads_timed = scene.plain_heads == 0 ? all_heads : std::min(all_heads, scene.plain_heads);
  const double whole = static_cast<double>(all_heads) / static_cast<double>(out.heads_timed);
  out.ours_one_us = time_ours_us(instance, 1);
  out.ours_all_us = cores > 1 ? time_ours_us(instance, 0) : out.ours_one_us;
  const PlainRun plain = run_plain(instance, out.heads_timed, 1);
  out.difference = largest_difference(instance, plain.output);
  out.plain_us = plain.us * whole;
  if (cores > 1) {
    // As many heads as cores at least, or the other cores would have nothing to do.
    const std::int64_t heads = std::min(all_heads, std::max<std::int64_t>(out.heads_timed, cores));
    const double rest = static_cast<double>(all_heads) / static_cast<double>(heads);
    out.plain_all_us = run_plain(instance, heads, cores).us * rest;
  }
  play_on_gpu(&out);
  return out;
}

std::string duration(double us) {
  return us >= 1e6   ? fmt::format("{:.2f} s", us / 1e6)
         : us >= 1e3 ? fmt::format("{:.1f} ms", us / 1e3)
                     : microseconds(us);
}

void tell(const SceneOutcome& o) {
  const int cores = this_machine().cores;
  const cases::Work work = cases::work(o.shape);
  fmt::print("\n{}  {}\n", paint(Ink::bold, o.scene->title), paint(Ink::dim, o.scene->words));
  if (!o.passed()) {
    const cases::Verdict& wrong = o.check.passed ? o.gpu_check : o.check;
    fmt::print("  {} {}\n  {}\n", paint(Ink::red, "✗ WRONG:"), wrong.why, wrong.reproduce);
    return;
  }
  fmt::print("  {} proven with {}: off by at most {:.1e}, {:.0f}% of the error allowed\n",
             paint(Ink::green, "✓"), o.kernel, o.check.worst_error, o.check.worst_ratio * 100);
  fmt::print("    {}\n", paint(Ink::dim, fmt::format("compared with float64 on {}", rows_judged(o.check))));
  if (!o.gpu.empty())
    fmt::print("  {} proven with {} in f16 on {}: {:.0f}% of the error allowed\n", paint(Ink::green, "✓"),
               o.gpu_kernel, o.gpu, o.gpu_check.worst_ratio * 100);
  const auto note = [&](double us) {
    const double gain = o.plain_us / us;
    return fmt::format("{:>8}  {:>6.1f} GFLOP/s  {:>5}", duration(us), work.flops / us / 1e3,
                       us == o.plain_us ? "" : fmt::format("{:.{}f}×", gain, gain < 9.95 ? 1 : 0));
  };
  std::vector<Bar> bars = {{"plain loops, 1 thread", work.flops / o.plain_us, note(o.plain_us), Ink::yellow}};
  if (cores > 1)
    bars.push_back({fmt::format("plain loops, {} threads", cores), work.flops / o.plain_all_us,
                    note(o.plain_all_us), Ink::yellow});
  bars.push_back({"tessera, 1 thread", work.flops / o.ours_one_us, note(o.ours_one_us), Ink::green});
  if (cores > 1)
    bars.push_back({fmt::format("tessera, {} threads", cores), work.flops / o.ours_all_us,
                    note(o.ours_all_us), Ink::green});
  if (!o.gpu.empty())
    bars.push_back(
        {fmt::format("tessera, {}, f16", o.gpu), work.flops / o.gpu_us, note(o.gpu_us), Ink::cyan});
  fmt::print("{}", bar_chart(bars, 30));
  const std::int64_t all_heads = o.shape.batch * o.shape.heads;
  if (o.heads_timed < all_heads)
    fmt::print(
        "    {}\n",
        paint(Ink::dim, fmt::format("plain loops were timed on {} of the {} heads per thread and scaled up",
                                    o.heads_timed, all_heads)));
}

void introduce() {
  const Machine& machine = this_machine();
  fmt::print(
      "{} computes exact attention, softmax(scale·QKᵀ + mask)·V, tile by tile,\n"
      "without ever storing the scores. This is what it does on this machine.\n\n",
      paint(Ink::bold, fmt::format("Tessera {}", tessera_version())));
  fmt::print("  CPU     {}, {} core{}, {}\n", machine.cpu, machine.cores, machine.cores == 1 ? "" : "s",
             probe().name);
  std::string here, not_here, no_gpu;
  for (const core::Kernel& kernel : core::kernels()) {
    tessera_device device = TESSERA_DEVICE_INIT;
    device.kind = kernel.device;
    std::string& list = core::missing(kernel, device).empty() ? here : not_here;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", kernel.name);
  }
  fmt::print("  kernels {}{}\n", here,
             not_here.empty() ? "" : paint(Ink::dim, fmt::format("  (not on this machine: {})", not_here)));
  const cuda::runtime::Gpu* gpu = cuda::runtime::find_gpu(0, &no_gpu);
  fmt::print("  GPU     {}\n", gpu == nullptr
                                   ? "none: " + no_gpu
                                   : fmt::format("{}, sm_{}, {} SMs", gpu->name, gpu->arch, gpu->sms));
}

Json outcome_json(const SceneOutcome& o) {
  Json json = case_json(o.shape);
  json.update({{"title", o.scene->title},
               {"kernel", o.kernel},
               {"passed", o.check.passed},
               {"verification", o.check.passed ? rows_judged(o.check) : o.check.why},
               {"worst_error", o.check.worst_error},
               {"error_over_bound", o.check.worst_ratio}});
  if (o.check.passed)
    json.update({{"plain_us", o.plain_us},
                 {"plain_heads_timed", o.heads_timed},
                 {"tessera_1_thread_us", o.ours_one_us},
                 {"tessera_all_threads_us", o.ours_all_us},
                 {"speedup_1_thread", o.plain_us / o.ours_one_us},
                 {"speedup_all_threads", o.plain_us / o.ours_all_us},
                 {"largest_difference_from_plain", o.difference}});
  if (!o.gpu.empty())
    json["gpu"] = {{"name", o.gpu},
                   {"kernel", o.gpu_kernel},
                   {"dtype", "f16"},
                   {"passed", o.gpu_check.passed},
                   {"error_over_bound", o.gpu_check.worst_ratio},
                   {"graph_us", o.gpu_us}};
  return json;
}

constexpr const char* kNext = R"(

What to try next
  tessera verify --quick                           prove every kernel on every case
  tessera bench                                    how close to this machine's limits?
  tessera roofline --gpu L4 canon_1 --target 30    is that target possible at all?
  tessera kernels --why "b1 h32/8 q1 k8192 d128"   which kernel, and why?
  tessera attend --help                            your own .npy or .safetensors files
)";

int demo(const DemoOptions& options) {
  Json json = {{"version", tessera_version()}, {"cpu", this_machine().cpu}, {"cores", this_machine().cores}};
  bool well = true;
  if (!options.json) introduce();
  std::fflush(stdout);
  for (const Scene& scene : options.quick ? std::span(kQuickScenes) : std::span(kScenes)) {
    const SceneOutcome outcome = play(scene);
    well = well && outcome.passed();
    json["scenes"].push_back(outcome_json(outcome));
    if (!options.json) tell(outcome);
    std::fflush(stdout);
  }
  if (options.json)
    print_json(json);
  else
    fmt::print("\n{}{}",
               paint(Ink::dim,
                     "Plain loops: scores, softmax, product, written the obvious way in C++ and compiled "
                     "by the same compiler."),
               kNext);
  return well ? kExitOk : kExitFailed;
}

}  // namespace

void add_demo(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* verb = app.add_subcommand("demo", "A short story on this machine: computed, proven, timed");
  verb->add_flag("--quick", options->quick, "Smaller problems: a few seconds");
  verb->add_flag("--json", options->json, "The result as JSON on stdout");
  verb->footer(
      "Examples:\n  tessera demo\n  tessera demo --quick --json\n\nExit code 1: a result is wrong. "
      "`tessera --help` has all codes.");
  verb->callback([options, exit_code] { *exit_code = demo(*options); });
}

}  // namespace tessera::cli
