// From a validated problem to what a kernel receives.
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.hpp"
#include "cuda/dispatch.hpp"
#include "cuda/mixed.hpp"
#include "cuda/params.hpp"
#include "cuda/runtime/step.hpp"

namespace tessera::cuda {

// OK, or why its sizes are beyond what 32-bit positions and the grid can hold.
core::Status within_limits(const core::Problem& problem);

// For kernels without offsets, pages, priors and tensor_align: OK, or which is set. And without f32 beside
// 16-bit inputs.
core::Status dense_batch(const core::Problem& problem);
core::Status dense_only(const core::Problem& problem);

// Within limits, and f16 or bf16 with head dims up to this.
core::Status tensor_cores_take(const core::Problem& problem, int most_dim);
// The same for f32, dense.
core::Status f32_tensor_cores_take(const core::Problem& problem, int most_dim);

// Of a dtype that the CUDA kernels take.
Element element_of(tessera_dtype dtype);
// Of a dtype of 8 bits.
Codes codes_of(tessera_dtype dtype);

// `pack`: query heads that share a block's rows, 1 or problem.group().
Params translate(const core::Problem& problem, int pack);
// The same parameters for tensors elsewhere.
void place(Params* params, const core::Addresses& at);
// What 8-bit inputs add, and for scales elsewhere.
Coded translate_coded(const core::Problem& problem);
void place(Coded* coded, const core::Addresses& at);
// The same where query and keys may differ in type.
Mixed translate_mixed(const core::Problem& problem);
// Null where keys have no tail.
Tail translate_tail(const core::Problem& problem);
// A launch of a kernel that takes Params.
void set_params(runtime::Step* step, const core::Problem& problem, int pack);

// Every row of a tensor of the problem's dtype starts at a multiple of 16 bytes and is one long.
bool rows_of_16_bytes(const core::Problem& problem, const core::Tensor4& tensor, std::int64_t outer,
                      std::int64_t heads, std::int64_t rows, std::int64_t row_elements);
// Every row of key and value, of their dtype, starts at a multiple of 16 bytes and is one long; and of query
// and output, too.
bool keys_of_16_bytes(const core::Problem& problem);
bool rows_of_16_bytes(const core::Problem& problem);
// Of query alone.
bool queries_of_16_bytes(const core::Problem& problem);

// Whether scores are only scaled and hidden by position: no softcap, ALiBi, mask tensor; sinks are fine.
bool plain_scores(const core::Problem& problem);

// With an open left side and a closed right one, later rows see more.
bool later_rows_see_more(const core::Problem& problem);

// Whether keys or values of one sequence differ in scale, by page or by block of rows; both, or one of them.
bool scales_differ(const core::Problem& problem);
bool scales_differ(const core::Problem& problem, const core::Scales& scales);

// For the plan's reason: ", head dims padded to ..." where a kernel's are not the problem's own, else
// nothing.
std::string padding_words(const core::Sizes& sizes, int dim, int value_dim);

}  // namespace tessera::cuda
