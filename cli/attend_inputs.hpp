// From the files named on the command line to one attention problem over their memory.
#pragma once

#include <tessera/tessera.h>

#include <memory>
#include <string>

#include "cli/file_tensors.hpp"
#include "cli/files/tensor.hpp"

namespace tessera::cli {

// The flags of `attend` that say what is computed, as typed; empty where not given.
struct AttendFlags : LoadFlags {
  std::string query, key, value, key_tail, mask, key_lengths, alibi, sinks;
  std::string query_offsets, key_offsets, page_table, prior_output, prior_lse;
  std::string query_scales, key_scales, value_scales;
  std::string new_key, new_value, rope_cos, rope_sin, positions;
  bool rope_interleaved = false;
  std::int32_t rope_first = 0;
  std::string output, lse, key_output, value_output, key_tail_output;
  std::string layout = "bhsd";
  std::string output_dtype, precision;
  std::int32_t scale_rows = 0;
  bool value_transposed = false;
  std::string causal, window, align, mask_align;
  std::string scale, softcap;
};

// A problem together with the memory it views. Output and lse are allocated, not initialised.
struct AttendProblem {
  tessera_attention problem = TESSERA_ATTENTION_INIT;
  files::Tensor query, key, value, key_tail, mask, key_lengths, alibi, sinks;
  files::Tensor query_offsets, key_offsets, page_table, prior_output, prior_lse;
  files::Tensor narrow_page_table;  // what the problem views of page_table
  files::Tensor query_scales, key_scales, value_scales;
  files::Tensor new_key, new_value, rope_cos, rope_sin, positions;
  // As they will be written: the rank of the query, its dimensions in the order of the layout.
  files::Tensor output, lse;
};

// New rows, rope and positions. Where rows are stored, key, its tail and value become copies of what the
// files hold.
void read_append(const AttendFlags& flags, AttendProblem* problem);

// A refusal of the library's that names a page, with the number as the file has it.
std::string naming_page(std::string sentence, const AttendProblem& problem);

// Stops with kExitUsage and a sentence that names the flag or the file.
AttendProblem read_problem(const AttendFlags& flags);

}  // namespace tessera::cli
