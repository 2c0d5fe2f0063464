// `tessera roofline`: the least time a case can take on a machine, and whether a target is possible at all.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/common.hpp"
#include "cli/floor.hpp"
#include "cli/json.hpp"
#include "cli/measure.hpp"
#include "cli/probe.hpp"
#include "cli/select.hpp"
#include "cli/term.hpp"
#include "cli/values.hpp"

namespace tessera::cli {
namespace {

struct RooflineOptions {
  CaseFlags cases;
  std::string gpu;
  bool measure = false;
  bool list = false;
  double target_us = 0;
  int threads = 0;
  bool json = false;
};

std::string rate(double tflops) { return tflops > 0 ? fmt::format("{:g}", tflops) : "-"; }

void print_list(bool as_json) {
  Json json = Json::array();
  Table table({{"GPU"},
               {"arch"},
               {"SMs", Table::Side::right},
               {"GHz", Table::Side::right},
               {"f16", Table::Side::right},
               {"bf16", Table::Side::right},
               {"f8", Table::Side::right},
               {"f32", Table::Side::right},
               {"GB/s", Table::Side::right},
               {"L2", Table::Side::right}});
  for (const Gpu& g : gpus()) {
    json.push_back({{"name", g.name},
                    {"arch", g.arch},
                    {"sms", g.sms},
                    {"clock_ghz", g.clock_ghz},
                    {"f16_tflops", g.f16_tflops},
                    {"bf16_tflops", g.bf16_tflops},
                    {"f8_tflops", g.f8_tflops},
                    {"f32_tflops", g.f32_tflops},
                    {"memory_gb_per_s", g.memory_gbps},
                    {"l2_mb", g.l2_mb},
                    {"exps_per_clock_per_sm", g.exps_per_clock_per_sm}});
    table.add({std::string(g.name), std::string(g.arch), std::to_string(g.sms),
               fmt::format("{:.2f}", g.clock_ghz), rate(g.f16_tflops), rate(g.bf16_tflops), rate(g.f8_tflops),
               rate(g.f32_tflops), grouped(g.memory_gbps), fmt::format("{:g}", g.l2_mb)});
  }
  if (as_json) return print_json({{"gpus", json}});
  fmt::print("{}\n  Dense TFLOP/s with f32 accumulation; f32 is ordinary arithmetic, not TF32. L2 in MB.\n",
             table.text());
}

const Gpu& gpu_or_stop(const std::string& name) {
  if (const Gpu* gpu = find_gpu(name)) return *gpu;
  std::string known;
  for (const Gpu& gpu : gpus()) known += fmt::format("{}{}", known.empty() ? "" : ", ", gpu.name);
  usage_error(fmt::format("--gpu '{}' is not in the table; known: {}", name, known));
}

Json measure_cpu(int all_threads, bool as_json) {
  const std::size_t buffer = dram_buffer_bytes();
  Json rows = Json::array();
  Table table({{"threads", Table::Side::right},
               {"f32 multiply-add", Table::Side::right},
               {"read, one stream", Table::Side::right},
               {"read, four streams", Table::Side::right}});
  Progress progress("measure", all_threads > 1 ? 6 : 3);
  for (const int threads : {1, all_threads}) {
    if (threads == 1 && !rows.empty()) break;  // one core: both rows would be the same
    const double flops = measure_flops_per_s(threads, 0.25);
    progress.tick("multiply-add");
    const double one = measure_bytes_per_s(buffer, threads, 1, 0.3);
    progress.tick("one stream");
    const double four = measure_bytes_per_s(buffer, threads, 4, 0.3);
    progress.tick("four streams");
    rows.push_back({{"threads", threads},
                    {"flops_per_s", flops},
                    {"read_one_stream_bytes_per_s", one},
                    {"read_four_streams_bytes_per_s", four}});
    table.add({std::to_string(threads), si(flops, "FLOP/s"), si(one, "B/s"), si(four, "B/s")});
  }
  progress.finish();
  if (!as_json)
    fmt::print("{}  {} cores, {}\n{}", paint(Ink::bold, this_machine().cpu), this_machine().cores,
               probe().name, table.text());
  return {{"cpu", this_machine().cpu},
          {"cores", this_machine().cores},
          {"instructions", probe().name},
          {"buffer_bytes", buffer},
          {"rates", rows}};
}

std::string two_digits(double factor) {
  return factor < 9.95 ? fmt::format("{:.1f}", factor) : grouped(factor);
}

// The answer to --target, with the arithmetic behind it.
std::string target_text(const cases::Case& c, const Floor& floor, const Gpu* gpu, double target_us) {
  const double factor = floor.us / target_us;
  if (factor == 0)
    return paint(Ink::green, fmt::format("{:g} µs is possible", target_us)) + ": there is no work";
  if (factor <= 1)
    return fmt::format("{}: {:.2f} × the floor of {}",
                       paint(Ink::green, fmt::format("{:g} µs is possible", target_us)), 1 / factor,
                       microseconds(floor.us));
  std::string text = fmt::format(
      "{}: {} / {:g} µs; the {} wall stands in the way",
      paint(Ink::red, fmt::format("< {:g} µs is impossible by {}×", target_us, two_digits(factor))),
      microseconds(floor.us), target_us, floor.which);
  const bool can_shrink = gpu != nullptr && gpu->f8_tflops > 0 && floor.which == "arithmetic" &&
                          (c.dtype == TESSERA_F16 || c.dtype == TESSERA_BF16);
  if (can_shrink)
    text += fmt::format("\n  In f8 that wall would be at {}.",
                        microseconds(cases::work(c).flops / gpu->f8_tflops / 1e12 * 1e6));
  return text;
}

Json floor_json(const cases::Case& c, const Floor& floor, double target_us) {
  Json json = case_json(c);
  json["floor_us"] = floor.us;
  json["wall"] = floor.which;
  for (const Wall& wall : floor.walls)
    json["walls"].push_back(
        {{"name", wall.name}, {"us", wall.us}, {"applies", wall.applies}, {"arithmetic", wall.arithmetic}});
  if (target_us > 0) {
    json["target_us"] = target_us;
    json["possible"] = target_us >= floor.us;
    json["impossible_by"] = floor.us / target_us;
  }
  return json;
}

void print_floor(const cases::Case& c, const Floor& floor, const std::string& machine) {
  const cases::Work work = cases::work(c);
  fmt::print("{} on {}  {}\n", paint(Ink::bold, c.name), paint(Ink::bold, machine),
             paint(Ink::dim, cases::words(c) == c.name ? "" : cases::words(c)));
  const double intensity = work.bytes > 0 ? work.flops / work.bytes : 0;
  fmt::print("  {}, at least {} of traffic: {} FLOP per byte\n", si(work.flops, "FLOP"), si(work.bytes, "B"),
             intensity < 100 ? fmt::format("{:.3g}", intensity) : grouped(intensity));
  Table table({{"wall"}, {"at least", Table::Side::right}, {"because"}});
  for (const Wall& wall : floor.walls) {
    const bool is_floor = wall.name == floor.which;
    const Ink ink = is_floor ? Ink::bold : wall.applies ? Ink::plain : Ink::dim;
    table.add({paint(ink, wall.name), paint(ink, microseconds(wall.us)), paint(ink, wall.arithmetic)});
  }
  fmt::print("{}  {}\n", table.text(),
             paint(Ink::bold, fmt::format("floor: {} ({})", microseconds(floor.us), floor.which)));
}

void check_flags(const RooflineOptions& o) {
  if (!o.gpu.empty() && o.measure) usage_error("--gpu and --measure: give one of them");
  if (o.gpu.empty() && !o.measure)
    usage_error("for which machine? --gpu NAME (--list shows them) or --measure for this CPU");
  if (!o.gpu.empty() && !o.cases.chosen())
    usage_error(
        "for which case? e.g. `tessera roofline --gpu L4 canon_1`; `tessera kernels --cases` lists them");
  if (o.target_us > 0 && !o.cases.chosen()) usage_error("--target: needs a case");
}

int roofline(const RooflineOptions& options) {
  if (options.list) {
    print_list(options.json);
    return kExitOk;
  }
  check_flags(options);
  const Gpu* gpu = options.gpu.empty() ? nullptr : &gpu_or_stop(options.gpu);
  const std::vector<cases::Case> chosen =
      options.cases.chosen() ? options.cases.resolve({}) : std::vector<cases::Case>{};
  Json json = Json::object();
  if (gpu == nullptr)
    json = measure_cpu(resolve_threads(options.threads), options.json);
  else
    json = {{"gpu", gpu->name}};

  bool possible = true;
  for (const cases::Case& c : chosen) {
    if (gpu != nullptr && gpu->tflops(c.dtype) == 0)
      throw Stop(kExitFailed, fmt::format("{} has no {} arithmetic", gpu->name, tessera_dtype_name(c.dtype)));
    const Floor floor = gpu != nullptr ? gpu_floor(c, *gpu) : cpu_floor(c, measure_for(c, options.threads));
    possible = possible && (options.target_us == 0 || options.target_us >= floor.us);
    json["cases"].push_back(floor_json(c, floor, options.target_us));
    if (options.json) continue;
    if (gpu == nullptr || &c != &chosen.front()) fmt::print("\n");
    print_floor(c, floor, gpu != nullptr ? std::string(gpu->name) : this_machine().cpu);
    if (options.target_us > 0) fmt::print("  {}\n", target_text(c, floor, gpu, options.target_us));
  }
  if (options.json) print_json(json);
  return possible ? kExitOk : kExitFailed;
}

}  // namespace

void add_roofline(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<RooflineOptions>();
  CLI::App* verb =
      app.add_subcommand("roofline", "The least time a case can take on a machine, and which wall says so");
  options->cases.add_to(*verb);
  verb->add_option("--gpu", options->gpu, "A GPU from the table, e.g. L4")->type_name("NAME");
  verb->add_flag("--measure", options->measure, "Measure this CPU: multiply-add rate and read bandwidth");
  verb->add_flag("--list", options->list, "The table of GPUs");
  real_number(verb->add_option("--target", options->target_us, "Is this time, in µs, possible at all?"), 1e-6,
              1e12)
      ->type_name("US");
  thread_count(
      verb->add_option("--threads", options->threads, "CPU threads for --measure; 0 means all cores"));
  verb->add_flag("--json", options->json, "The result as JSON on stdout");
  verb->footer(
      R"(The floor is the highest of three walls: arithmetic at the dense peak, one exponential per visible score,
and every byte once from memory (no wall on repeated calls if everything fits in L2). No kernel goes under it.

Examples:
  tessera roofline --list
  tessera roofline --gpu L4 canon_1 --target 30
  tessera roofline --gpu H200 --group decode
  tessera roofline --gpu "RTX 4090" "b1 h32/8 q8192 k8192 d128 bf16 causal=bottom-right"
  tessera roofline --measure cpu_prefill_2k

Exit code 1: --target is impossible, or the GPU has no such arithmetic. `tessera --help` has all codes.)");
  verb->callback([options, exit_code] { *exit_code = roofline(*options); });
}

}  // namespace tessera::cli
