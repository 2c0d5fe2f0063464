// `tessera attend`: attention over arrays in files, written to files, on request proven against the oracle.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cases/mirror.hpp"
#include "cli/attend_check.hpp"
#include "cli/attend_inputs.hpp"
#include "cli/common.hpp"
#include "cli/json.hpp"
#include "cli/select.hpp"
#include "cli/term.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "cuda/runtime/runtime.hpp"
#include "oracle/append.hpp"

namespace tessera::cli {
namespace {

constexpr const char* kAttendFooter = R"(
Files are .npy (NumPy) or .safetensors. A tensor in a .safetensors file is named after a colon,
file.safetensors:name; without a name the usual ones are tried (q or query, k or key, v or value, mask,
key_lengths, alibi_slopes, sinks), then the only tensor of the file. Results there are called output
and lse, and may share one file.

Shapes: query [batch, heads, queries, dim], key [batch, kv_heads, keys, dim], value [batch, kv_heads, keys,
value_dim]; [heads, rows, dim] and [rows, dim] stand for one batch entry and one head. --layout bshd has the
rows before the heads; with --value-transposed the value is [batch, kv_heads, value_dim, keys] in either. The output
has the rank and layout of the query; lse is [batch, heads, queries].
Element types: float32, float16, bfloat16 (in .npy: '<V2', as ml_dtypes writes it); of query, key and value, or of
key and value alone, also float8_e4m3fn and float8_e5m2 (in .npy: bytes, with --dtype), and of key and value int8,
each code times its scale.

Examples:
  tessera attend --query q.npy --key k.npy --value v.npy --output o.npy --causal bottom-right
  tessera attend --query m.safetensors --key m.safetensors --value m.safetensors \
                 --output r.safetensors --lse r.safetensors --check
  tessera attend --query q.npy --key k.npy --value v.npy --output o.npy --window 127,0 --align bottom-right
  tessera attend --query q.npy --key k.npy --value v.npy --output o.npy --device cuda
  tessera attend --query q.npy --key cache_k.npy --value cache_v.npy --output o.npy --causal bottom-right \
                 --key-lengths n.npy --new-key k.npy --new-value v.npy --rope-cos cos.npy --rope-sin sin.npy \
                 --key-output next_k.npy --value-output next_v.npy

Exit code 1: the check failed, and nothing was written. `tessera --help` has all codes.)";

struct Flags : AttendFlags {
  DeviceFlags device;
  bool check = false;
  bool check_all = false;
  bool json = false;
};

struct Outcome {
  tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
  std::string gpu;  // its name, if it computed
  double us = 0;
  std::optional<AttendCheck> check;
};

// Rename or not, an output over an input is more often a slip than a wish.
void refuse_overwriting_inputs(const Flags& flags) {
  for (const std::string* output :
       {&flags.output, &flags.lse, &flags.key_output, &flags.value_output, &flags.key_tail_output}) {
    for (const std::string* input :
         {&flags.query,        &flags.key,        &flags.value,        &flags.mask,
          &flags.key_lengths,  &flags.alibi,      &flags.sinks,        &flags.query_offsets,
          &flags.key_offsets,  &flags.page_table, &flags.prior_output, &flags.prior_lse,
          &flags.query_scales, &flags.key_scales, &flags.value_scales, &flags.new_key,
          &flags.new_value,    &flags.rope_cos,   &flags.rope_sin,     &flags.positions,
          &flags.key_tail}) {
      if (output->empty() || input->empty()) continue;
      const std::string path = files::locate(*output).path;
      if (files::same_file(path, files::locate(*input).path)) {
        usage_error(fmt::format("{} is an input of this command; name another file for the result", path));
      }
    }
  }
}

core::Status attend_on(const tessera_attention& problem, const tessera_device& device) {
  if (device.kind == TESSERA_CUDA) return cases::attend_on_gpu(problem, device);
  const tessera_status code = tessera_attend(&problem, &device);
  return {code, code == TESSERA_OK ? "" : tessera_last_error()};
}

Outcome compute(const AttendProblem& p, const tessera_device& device, const Flags& flags) {
  Outcome outcome;
  stop_unless_ok(tessera_plan(&p.problem, &device, &outcome.plan));
  if (device.kind == TESSERA_CUDA) outcome.gpu = cuda::runtime::find_gpu(device.index, nullptr)->name;
  std::optional<oracle::Rest> rest;  // key and value as the call finds them
  const bool checked = flags.check || flags.check_all;
  if (checked && oracle::has_append(p.problem)) rest.emplace(p.problem);
  const auto start = std::chrono::steady_clock::now();
  core::Status status = attend_on(p.problem, device);
  status.message = naming_page(std::move(status.message), p);
  stop_unless_ok(status);
  outcome.us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  if (checked)
    outcome.check =
        check_against_oracle(p.problem, flags.check_all, device, rest ? &rest->problem() : nullptr);
  return outcome;
}

Json tensor_json(const files::Tensor& t) {
  return {{"source", t.source}, {"dtype", files::element_name(t.element)}, {"shape", t.shape}};
}

void print_as_json(const AttendProblem& p, const Outcome& outcome) {
  Json json = {{"verb", "attend"}};
  const std::array<std::pair<const char*, const files::Tensor*>, 23> tensors = {
      {{"query", &p.query},
       {"key", &p.key},
       {"value", &p.value},
       {"key_tail", &p.key_tail},
       {"mask", &p.mask},
       {"key_lengths", &p.key_lengths},
       {"alibi_slopes", &p.alibi},
       {"sinks", &p.sinks},
       {"query_offsets", &p.query_offsets},
       {"key_offsets", &p.key_offsets},
       {"page_table", &p.page_table},
       {"prior_output", &p.prior_output},
       {"prior_lse", &p.prior_lse},
       {"query_scales", &p.query_scales},
       {"key_scales", &p.key_scales},
       {"value_scales", &p.value_scales},
       {"new_key", &p.new_key},
       {"new_value", &p.new_value},
       {"rope_cos", &p.rope_cos},
       {"rope_sin", &p.rope_sin},
       {"positions", &p.positions},
       {"output", &p.output},
       {"lse", &p.lse}}};
  for (const auto& [name, tensor] : tensors) {
    if (tensor->owner) json[name] = tensor_json(*tensor);
  }
  json["kernel"] = outcome.plan.kernel;
  json["reason"] = outcome.plan.reason;
  json["threads"] = outcome.plan.threads;
  json["device"] = outcome.gpu.empty() ? "cpu" : outcome.gpu;
  json["flops"] = outcome.plan.flops;
  json["us"] = outcome.us;
  if (outcome.check) {
    const AttendCheck& c = *outcome.check;
    json["check"] = {{"passed", c.passed},           {"worst_error", c.worst_error},
                     {"lse_error", c.lse_error},     {"plain_error", c.plain_error},
                     {"worst_ratio", c.worst_ratio}, {"rows", c.rows},
                     {"rows_judged", c.rows_judged}, {"why", c.why}};
  }
  print_json(json);
}

void print_for_people(const AttendProblem& p, const Outcome& outcome, bool written) {
  const auto line = [](std::string_view label, const std::string& text) {
    fmt::print("{}  {}\n", paint(Ink::dim, fmt::format("{:<7}", label)), text);
  };
  const auto described = [](const files::Tensor& t) {
    return fmt::format("{} {} {}", t.source, files::element_name(t.element), files::shape_text(t.shape));
  };
  line("query", described(p.query));
  line("key", described(p.key));
  line("value", described(p.value));
  if (p.key_tail.owner) line("tail", described(p.key_tail));
  line("kernel", fmt::format("{}: {}", outcome.plan.kernel, outcome.plan.reason));
  line("time", outcome.gpu.empty() ? fmt::format("{}, {}", microseconds(outcome.us),
                                                 si(outcome.plan.flops / outcome.us * 1e6, "FLOP/s"))
                                   : fmt::format("{}, most of it copying to {} and back",
                                                 microseconds(outcome.us), outcome.gpu));
  if (outcome.check) {
    const AttendCheck& c = *outcome.check;
    line("check",
         fmt::format("{}: worst error {:.3g} against float64, {:.0f}% of the bound ({})",
                     c.passed ? paint(Ink::green, "passed") : paint(Ink::red, "failed"), c.worst_error,
                     100 * c.worst_ratio,
                     c.rows == c.rows_judged ? "every row"
                                             : fmt::format("{} of {} rows; --check-all judges every one",
                                                           c.rows_judged, c.rows)));
  }
  if (!written) return;
  line("output", described(p.output));
  if (p.lse.owner) line("lse", described(p.lse));
}

int attend(const Flags& flags) {
  refuse_overwriting_inputs(flags);
  tessera_device device = flags.device.resolve();
  const std::vector<Candidate> chosen = candidates(device, flags.device.kernels);
  if (flags.device.kernels.size() > 1) usage_error("--kernel names one kernel here; bench compares several");
  if (!flags.device.kernels.empty()) device.kernel = flags.device.kernels[0].c_str();

  const AttendProblem p = read_problem(flags);
  std::string error;
  files::Outputs outputs;
  std::vector<files::Tensor> results = {p.output};
  if (!outputs.open(flags.output, "output", &error)) usage_error(error);
  if (!flags.lse.empty()) {
    if (!outputs.open(flags.lse, "lse", &error)) usage_error(error);
    results.push_back(p.lse);
  }
  for (const auto& [name, tensor, usual] : {std::tuple{&flags.key_output, &p.key, "key"},
                                            {&flags.value_output, &p.value, "value"},
                                            {&flags.key_tail_output, &p.key_tail, "key_tail"}}) {
    if (name->empty()) continue;
    if (!outputs.open(*name, usual, &error)) usage_error(error);
    results.push_back(*tensor);
  }

  const Outcome outcome = compute(p, device, flags);
  const bool good = !outcome.check || outcome.check->passed;
  if (good && !outputs.save(results, &error)) throw Stop(kExitNoAnswer, error);
  if (flags.json) {
    print_as_json(p, outcome);
  } else {
    print_for_people(p, outcome, good);
  }
  if (!good)
    throw Stop(kExitFailed, fmt::format("the check failed, nothing was written: {}", outcome.check->why));
  return kExitOk;
}

}  // namespace

void add_attend(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand("attend", "Compute attention on arrays from files");
  const auto flags = std::make_shared<Flags>();
  const std::vector<std::string> aligns = {"top-left", "bottom-right"};
  file_name(verb->add_option("--query,-q", flags->query, "Query"))->required();
  file_name(verb->add_option("--key,-k", flags->key, "Key"))->required();
  file_name(verb->add_option("--value,-v", flags->value, "Value"))->required();
  file_name(verb->add_option("--output,-o", flags->output, "Where the result goes"))->required();
  file_name(verb->add_option("--key-tail", flags->key_tail,
                             "The keys' last dimensions, those that --key has not, in the query's type"));
  file_name(verb->add_option("--lse", flags->lse, "Where the log-sum-exp of each row goes (float32)"));
  one_of(verb->add_option("--layout", flags->layout,
                          "bhsd: [batch, heads, rows, dim]; bshd: [batch, rows, heads, dim]"),
         {"bhsd", "bshd"})
      ->capture_default_str();
  one_of(verb->add_option(
             "--dtype", flags->dtype,
             "What elements of no stated float type are: of 16 bits f16 or bf16, bytes f8e4m3 or f8e5m2"),
         {"f16", "bf16", "f8e4m3", "f8e5m2"});
  one_of(verb->add_option("--output-dtype", flags->output_dtype,
                          "Of the output: the query's or f32; of an 8-bit query f16, bf16 or f32"),
         {"f16", "bf16", "f32"});
  file_name(verb->add_option("--query-scales", flags->query_scales,
                             "Of an 8-bit query, float32: one number, or [batch, heads, blocks, 1]"));
  file_name(verb->add_option("--key-scales", flags->key_scales, "The same for a key of 8 bits"));
  file_name(verb->add_option("--value-scales", flags->value_scales,
                             "The same for the value, or [batch, heads, 1, dim]"));
  verb->add_flag(
      "--value-transposed", flags->value_transposed,
      "The value, of 8 bits, is [batch, heads, dim, keys], as `tessera quantise --transpose` has it");
  whole_number(verb->add_option("--scale-rows", flags->scale_rows,
                                "Rows of a block of scales: 64, 128, or 0 for no blocks"),
               0, INT32_MAX);
  one_of(
      verb->add_option("--precision", flags->precision, "Of an 8-bit query: fast allows weights of 8 bits"),
      {"accurate", "fast"});
  verb->add_flag("--convert", flags->convert, "Round float64 inputs to float32");
  one_of(verb->add_option("--causal", flags->causal, "Causal, the queries placed top-left or bottom-right"),
         aligns);
  verb->add_option("--window", flags->window,
                   "Keys seen before and after a query's position; 'unbounded' for all")
      ->type_name("LEFT,RIGHT");
  one_of(verb->add_option("--align", flags->align, "How the queries of --window and --alibi are placed"),
         aligns);
  verb->add_option("--scale", flags->scale, "Scale of the scores; 1/sqrt(dim) if not given")->type_name("X");
  verb->add_option("--softcap", flags->softcap, "Cap scores smoothly at +-X")->type_name("X");
  file_name(verb->add_option("--mask", flags->mask,
                             "Boolean (true = visible) or additive mask, broadcast like NumPy"));
  file_name(verb->add_option("--key-lengths", flags->key_lengths, "Valid keys of each batch entry"));
  one_of(verb->add_option("--mask-align", flags->mask_align,
                          "bottom-right: the mask covers the last keys alone, those before stay visible"),
         {"bottom-right"});
  file_name(verb->add_option(
      "--query-offsets", flags->query_offsets,
      "Where the rows of each entry begin, [batch + 1]; the query is then [1, heads, rows, dim]"));
  file_name(verb->add_option("--key-offsets", flags->key_offsets, "The same for key and value"));
  file_name(
      verb->add_option("--page-table", flags->page_table,
                       "Pages of each entry, [batch, n]; key and value are then [pages, heads, rows, dim]"));
  file_name(verb->add_option("--prior-output", flags->prior_output,
                             "Results over other keys to take in, [parts, heads, rows, dim]"));
  file_name(verb->add_option("--prior-lse", flags->prior_lse, "Their log-sum-exp, [parts, heads, rows]"));
  file_name(verb->add_option("--new-key", flags->new_key,
                             "New keys, a row for each query row: stored at the end of the keys first"));
  file_name(verb->add_option("--new-value", flags->new_value, "New values, likewise"));
  file_name(verb->add_option("--key-output", flags->key_output, "Where the keys with the new ones go"));
  file_name(verb->add_option("--value-output", flags->value_output, "Where the values with the new ones go"));
  file_name(
      verb->add_option("--key-tail-output", flags->key_tail_output, "Where the tails with the new ones go"));
  file_name(verb->add_option("--rope-cos", flags->rope_cos,
                             "Rotary embedding of query and new keys: cosines, [positions, pairs]"));
  file_name(verb->add_option("--rope-sin", flags->rope_sin, "Its sines, [positions, pairs]"));
  verb->add_flag("--rope-interleaved", flags->rope_interleaved,
                 "Pairs are neighbouring dimensions; else one of the first half with one of the second");
  whole_number(verb->add_option("--rope-first", flags->rope_first, "The first dimension that is turned"), 0,
               INT32_MAX);
  file_name(verb->add_option("--positions", flags->positions,
                             "Where rows stand in these tables, [batch, queries], or [rows] with offsets"));
  file_name(verb->add_option("--alibi", flags->alibi, "ALiBi slopes, [heads] or [batch, heads]"));
  file_name(verb->add_option("--sinks", flags->sinks, "Attention sinks, [heads]"));
  flags->device.add_to(*verb, "Use this kernel (`tessera kernels` lists them)");
  verb->add_flag(
      "--check", flags->check,
      "Hold the result against the float64 oracle before it is written; of large problems, a spread of rows");
  verb->add_flag("--check-all", flags->check_all, "The same for every row, however long it takes");
  verb->add_flag("--json", flags->json, "Print what was done as JSON");
  verb->footer(kAttendFooter);
  verb->callback([flags, exit_code] {
    try {
      *exit_code = attend(*flags);
    } catch (const std::bad_alloc&) {
      throw Stop(kExitUnavailable, "not enough memory for this problem");
    }
  });
}

}  // namespace tessera::cli
