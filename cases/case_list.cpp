// The named cases, written in their own words: name, then the case. Groups "mission" to "cpu" are the
// shapes people measure, and in "costs" each option stands beside the same shape without it; "few",
// "options", "edge", "serving", "fp8" and the generated "pairs" and "masks" are small and there to find
// mistakes.
#include <cstdlib>

#include "cases/case.hpp"
#include "cases/option_lists.hpp"

namespace tessera::cases {
namespace {

struct Entry {
  const char* group;
  const char* name;
  const char* words;
};

constexpr Entry kEntries[] = {
    {"mission", "mission256", "b2 h8 q256 d64 f16"},
    {"mission", "mission512", "b2 h8 q512 d64 f16"},
    {"mission", "mission512_causal", "b2 h8 q512 d64 f16 causal=bottom-right"},
    {"mission", "mission_b8", "b8 h8 q512 d64 f16"},
    {"mission", "mission256_bf16", "b2 h8 q256 d64 bf16"},
    {"mission", "mission512_bf16", "b2 h8 q512 d64 bf16"},
    {"mission", "mission512_causal_bf16", "b2 h8 q512 d64 bf16 causal=bottom-right"},
    {"mission", "mission_b8_bf16", "b8 h8 q512 d64 bf16"},

    {"canonical", "canon_1", "b4 h16 q2048 d128 f16"},
    {"canonical", "canon_1_causal", "b4 h16 q2048 d128 f16 causal=bottom-right"},
    {"canonical", "canon_1_bf16", "b4 h16 q2048 d128 bf16"},
    {"canonical", "canon_1_causal_bf16", "b4 h16 q2048 d128 bf16 causal=bottom-right"},

    {"prefill", "d64_1k", "b16 h32 q1024 d64 bf16"},
    {"prefill", "d64_4k", "b4 h32 q4096 d64 bf16"},
    {"prefill", "d64_16k", "b1 h32 q16384 d64 bf16"},
    {"prefill", "d64_16k_causal", "b1 h32 q16384 d64 bf16 causal=bottom-right"},
    {"prefill", "d128_1k", "b16 h16 q1024 d128 bf16"},
    {"prefill", "d128_4k", "b4 h16 q4096 d128 bf16"},
    {"prefill", "d128_4k_causal", "b4 h16 q4096 d128 bf16 causal=bottom-right"},
    {"prefill", "d128_16k", "b1 h16 q16384 d128 bf16"},
    {"prefill", "d128_16k_causal", "b1 h16 q16384 d128 bf16 causal=bottom-right"},
    {"prefill", "d256_16k", "b1 h8 q16384 d256 bf16"},
    {"prefill", "d256_16k_causal", "b1 h8 q16384 d256 bf16 causal=bottom-right"},
    {"prefill", "gqa_prefill_8k_causal", "b1 h32/8 q8192 d128 bf16 causal=bottom-right"},
    {"prefill", "gqa_prefill_16k_causal", "b1 h64/8 q16384 d128 bf16 causal=bottom-right"},
    {"prefill", "short_128_b256", "b256 h12 q128 d64 bf16"},
    {"prefill", "d72_729", "b32 h16 q729 d72 bf16"},

    {"decode", "decode_1k_b1", "b1 h32/8 q1 k1024 d128 bf16"},
    {"decode", "decode_4k_b1", "b1 h32/8 q1 k4096 d128 bf16"},
    {"decode", "decode_8k_b1", "b1 h32/8 q1 k8192 d128 bf16"},
    {"decode", "decode_32k_b1", "b1 h32/8 q1 k32768 d128 bf16"},
    {"decode", "decode_32k_mqa", "b1 h8/1 q1 k32768 d128 bf16"},
    {"decode", "decode_8k_b4_h64", "b4 h64/8 q1 k8192 d128 bf16"},
    {"decode", "decode_4k_b8", "b8 h32/8 q1 k4096 d128 bf16"},
    {"decode", "decode_1k_b64", "b64 h32/8 q1 k1024 d128 bf16"},
    {"decode", "decode_4k_b32", "b32 h32/8 q1 k4096 d128 bf16"},
    {"decode", "decode_2k_b128", "b128 h32/8 q1 k2048 d128 bf16"},
    {"decode", "decode_32k_b4", "b4 h32/8 q1 k32768 d128 bf16"},
    {"decode", "decode_128k_b1", "b1 h32/8 q1 k131072 d128 bf16"},
    {"decode", "tokens4_16k_b8", "b8 h32/8 q4 k16384 d128 bf16 causal=bottom-right"},
    {"decode", "tokens16_16k_b8", "b8 h32/8 q16 k16384 d128 bf16 causal=bottom-right"},
    {"decode", "tokens8_32k_b1", "b1 h32/8 q8 k32768 d128 bf16 causal=bottom-right"},

    {"costs", "plain_h32_4k_causal", "b2 h32 q4096 d128 bf16 causal=bottom-right"},
    {"costs", "alibi_4k", "b2 h32 q4096 d128 bf16 causal=bottom-right alibi"},
    {"costs", "plain_h16_8k_causal", "b1 h16 q8192 d128 bf16 causal=bottom-right"},
    {"costs", "softcap_8k", "b1 h16 q8192 d128 bf16 causal=bottom-right softcap=30"},
    {"costs", "plain_d256_8k_causal", "b1 h16/8 q8192 d256 bf16 causal=bottom-right"},
    {"costs", "softcap_d256_8k", "b1 h16/8 q8192 d256 bf16 causal=bottom-right softcap=50"},
    {"costs", "plain_h16_8k", "b1 h16 q8192 d128 bf16"},
    {"costs", "documents_8k", "b1 h16 q8192 d128 bf16 mask=boolean:queries-keys:documents700"},
    {"costs", "plain_d64_1k", "b16 h16 q1024 d64 bf16"},
    {"costs", "padding_1k", "b16 h16 q1024 d64 bf16 mask=boolean:batch-keys:padding"},
    {"costs", "lengths_1k", "b16 h16 q1024 d64 bf16 lengths"},
    {"costs", "plain_d64_2k", "b4 h16 q2048 d64 bf16"},
    {"costs", "bias_2k", "b4 h16 q2048 d64 bf16 mask=additive-bf16:heads-queries-keys:bias"},
    {"costs", "plain_h64_8k_causal", "b1 h64/8 q8192 d64 bf16 causal=bottom-right"},
    {"costs", "window_128_8k", "b1 h64/8 q8192 d64 bf16 causal=bottom-right window=127,0"},
    {"costs", "sinks_8k", "b1 h64/8 q8192 d64 bf16 causal=bottom-right sinks"},
    {"costs", "plain_32k_causal", "b1 h32/8 q32768 d128 bf16 causal=bottom-right"},
    {"costs", "window_4096_32k", "b1 h32/8 q32768 d128 bf16 causal=bottom-right window=4095,0"},
    {"costs", "plain_4k_causal", "b4 h16 q4096 d128 bf16 causal=bottom-right"},
    {"costs", "negative_scale_4k", "b4 h16 q4096 d128 bf16 causal=bottom-right scale=-0.0884"},
    {"costs", "plain_d64_1k_b4", "b4 h16 q1024 d64 bf16"},
    {"costs", "f32_1k", "b4 h16 q1024 d64 f32"},

    {"cpu", "cpu_prefill_256", "b2 h8 q256 d64 f32"},
    {"cpu", "cpu_prefill_512", "b2 h8 q512 d64 f32"},
    {"cpu", "cpu_prefill_2k", "b1 h16 q2048 d128 f32"},
    {"cpu", "cpu_prefill_2k_causal", "b1 h16 q2048 d128 f32 causal=bottom-right"},
    {"cpu", "cpu_decode_4k", "b1 h32/8 q1 k4096 d128 f32"},
    {"cpu", "cpu_decode_32k", "b1 h32/8 q1 k32768 d128 f32"},
    {"cpu", "cpu_decode_4k_b8", "b8 h32/8 q1 k4096 d128 f32"},
    {"cpu", "cpu_few_8x4k", "b1 h32/8 q8 k4096 d128 f32"},
    {"cpu", "cpu_prefill_256_f16", "b2 h8 q256 d64 f16"},
    {"cpu", "cpu_prefill_512_f16", "b2 h8 q512 d64 f16"},
    {"cpu", "cpu_prefill_2k_f16", "b1 h16 q2048 d128 f16"},
    {"cpu", "cpu_prefill_2k_causal_f16", "b1 h16 q2048 d128 f16 causal=bottom-right"},
    {"cpu", "cpu_decode_4k_f16", "b1 h32/8 q1 k4096 d128 f16"},
    {"cpu", "cpu_decode_32k_f16", "b1 h32/8 q1 k32768 d128 f16"},
    {"cpu", "cpu_decode_4k_b8_f16", "b8 h32/8 q1 k4096 d128 f16"},
    {"cpu", "cpu_few_8x4k_f16", "b1 h32/8 q8 k4096 d128 f16"},
    {"cpu", "cpu_prefill_2k_bf16", "b1 h16 q2048 d128 bf16"},
    {"cpu", "cpu_decode_32k_bf16", "b1 h32/8 q1 k32768 d128 bf16"},

    {"few", "few_2", "b1 h8/2 q2 k700 d64 f16 causal=bottom-right"},
    {"few", "few_3", "b1 h8/1 q3 k513 d128 f32"},
    {"few", "few_4", "b1 h8/4 q4 k300 d64 bf16 causal=bottom-right"},
    {"few", "few_5", "b2 h6/2 q5 k257 d80 f32 layout=bshd"},
    {"few", "few_7", "b1 h8/2 q7 k640 d128 f16 causal=bottom-right"},
    {"few", "few_8", "b1 h8/2 q8 k1024 d128 f32 causal=bottom-right"},
    {"few", "few_12", "b1 h4 q12 k400 d96 bf16"},
    {"few", "few_16", "b1 h8/2 q16 k512 d128 f16 causal=bottom-right layout=bshd"},
    {"few", "few_17", "b1 h8/2 q17 k300 d64 f32 lengths"},
    {"few", "few_24", "b2 h4/1 q24 k333 d64 f16 causal=bottom-right lengths"},
    {"few", "few_31", "b1 h4/2 q31 k256 d64 bf16 layout=padded"},
    {"few", "few_33", "b1 h4/2 q33 k500 d128 f32 causal=bottom-right"},
    {"few", "few_48", "b1 h4/2 q48 k256 d64 f16 causal=bottom-right sinks"},
    {"few", "few_63", "b1 h4/2 q63 k320 d64 f32 causal=bottom-right"},

    {"options", "plain_f32", "b2 h4 q96 k130 d64 f32"},
    {"options", "plain_f16", "b2 h4 q96 k130 d64 f16"},
    {"options", "plain_bf16", "b2 h4 q96 k130 d64 bf16"},
    {"options", "layout_bshd", "b2 h4/2 q96 k130 d64 f16 layout=bshd"},
    {"options", "layout_padded", "b2 h4/2 q96 k130 d64 f32 layout=padded"},
    {"options", "gqa", "b2 h8/2 q70 k130 d64 f16"},
    {"options", "mqa", "b2 h8/1 q70 k130 d64 bf16"},
    {"options", "scale", "b1 h2 q96 k130 d64 f32 scale=0.3"},
    {"options", "scale_negative", "b1 h2 q96 k130 d64 f32 scale=-0.125"},
    {"options", "scale_zero", "b1 h4/2 q96 k130 d64 f16 causal=bottom-right scale=0"},
    {"options", "scale_zero_decode", "b1 h4/2 q1 k4200 d64 f32 align=bottom-right window=4100,0 scale=0"},
    {"options", "causal_top_left", "b1 h4 q130 k96 d64 f32 causal=top-left"},
    {"options", "causal_top_left_wide", "b1 h4 q96 k130 d64 f16 causal=top-left"},
    {"options", "causal_bottom_right", "b1 h4 q96 k130 d64 f32 causal=bottom-right"},
    {"options", "window_causal", "b1 h4 q160 k200 d64 f16 causal=bottom-right window=31,0"},
    {"options", "window_both_sides", "b1 h4 q160 k200 d64 f32 align=top-left window=17,40"},
    {"options", "window_right_only", "b1 h4 q160 k200 d64 f32 align=bottom-right window=inf,9"},
    {"options", "window_left_only", "b1 h4 q160 k200 d64 bf16 align=bottom-right window=9,inf"},
    {"options", "mask_boolean_full", "b2 h3 q70 k90 d64 f32 mask=boolean"},
    {"options", "mask_boolean_keys", "b2 h3 q70 k90 d64 f16 mask=boolean:keys"},
    {"options", "mask_boolean_queries_keys", "b2 h3 q70 k90 d64 f16 mask=boolean:queries-keys"},
    {"options", "mask_boolean_batch_keys", "b3 h3 q70 k90 d64 bf16 mask=boolean:batch-keys"},
    {"options", "mask_boolean_heads", "b2 h3 q70 k90 d64 f32 mask=boolean:heads-queries-keys layout=padded"},
    {"options", "mask_additive_full", "b2 h3 q70 k90 d64 f32 mask=additive"},
    {"options", "mask_additive_keys", "b2 h3 q70 k90 d64 bf16 mask=additive:keys"},
    {"options", "mask_additive_queries_keys", "b2 h3 q70 k90 d64 f16 mask=additive:queries-keys"},
    {"options", "mask_additive_batch_keys", "b3 h3 q70 k90 d64 f16 mask=additive:batch-keys"},
    {"options", "mask_additive_heads",
     "b2 h3 q70 k90 d64 f16 mask=additive:heads-queries-keys layout=padded"},
    {"options", "lengths", "b5 h4/2 q40 k130 d64 f16 lengths"},
    {"options", "lengths_causal", "b5 h4/2 q40 k130 d64 f32 lengths causal=bottom-right"},
    {"options", "lengths_decode", "b6 h8/2 q1 k600 d128 f16 lengths"},
    {"options", "softcap", "b1 h4 q96 k130 d64 f32 softcap=30"},
    {"options", "softcap_tight", "b1 h4 q96 k130 d64 f16 softcap=0.5"},
    {"options", "alibi", "b2 h4 q96 k130 d64 f32 alibi align=top-left"},
    {"options", "alibi_bottom_right", "b2 h4 q96 k130 d64 f16 alibi align=bottom-right"},
    {"options", "sinks", "b2 h4 q96 k130 d64 f32 sinks"},
    {"options", "sinks_decode", "b2 h8/2 q1 k900 d128 bf16 sinks"},
    {"options", "mask_and_causal", "b2 h4/2 q70 k90 d64 f32 mask=additive causal=bottom-right"},
    {"options", "mask_and_window",
     "b2 h4/2 q70 k90 d64 f16 mask=boolean:queries-keys causal=top-left window=40,0"},
    {"options", "gemma_like",
     "b1 h8/4 q90 k200 d256 bf16 causal=bottom-right window=64,0 softcap=50 scale=0.0625"},
    {"options", "d192_general", "b1 h2 q130 k150 d192 f16 causal=bottom-right mask=additive alibi"},
    {"options", "gpt_oss_like", "b1 h8/1 q90 k200 d64 bf16 causal=bottom-right window=127,0 sinks"},
    {"options", "everything_f32",
     "b3 h6/2 q65 k130 d72 v40 f32 causal=bottom-right window=50,0 scale=0.2 softcap=20 mask=additive "
     "lengths "
     "alibi sinks layout=padded"},
    {"options", "everything_f16",
     "b3 h6/2 q65 k130 d64 f16 align=top-left window=50,20 softcap=10 mask=boolean:batch-keys lengths alibi "
     "sinks "
     "layout=bshd"},
    {"options", "everything_decode",
     "b4 h8/2 q1 k777 d128 bf16 causal=bottom-right window=600,0 softcap=15 mask=additive:batch-keys lengths "
     "alibi "
     "sinks"},

    {"edge", "one_by_one", "b1 h1 q1 k1 d1 f32"},
    {"edge", "one_by_one_f16", "b1 h1 q1 k1 d64 f16"},
    {"edge", "two_by_two", "b1 h1 q2 k2 d2 f32 causal=top-left"},
    {"edge", "square_63", "b1 h2 q63 d64 f16 causal=bottom-right"},
    {"edge", "square_65", "b1 h2 q65 d64 f32"},
    {"edge", "square_511", "b1 h1 q511 d64 f32 causal=bottom-right"},
    {"edge", "square_513", "b1 h1 q513 d64 f16 causal=top-left"},
    {"edge", "long_row_1x513", "b1 h3 q1 k513 d64 f32"},
    {"edge", "long_row_2x4097", "b1 h2/1 q2 k4097 d64 f16"},
    {"edge", "tall_513x1", "b1 h2 q513 k1 d64 f32"},
    {"edge", "tall_bottom_right", "b1 h2 q130 k66 d64 f32 causal=bottom-right"},
    {"edge", "tall_bottom_right_window", "b1 h2 q130 k66 d64 f16 causal=bottom-right window=5,0"},
    {"edge", "window_of_one", "b1 h2 q96 k96 d64 f32 causal=top-left window=0,0"},
    {"edge", "window_past_the_keys", "b1 h2 q200 k64 d64 f32 align=top-left window=3,3"},
    {"edge", "d1", "b1 h2 q65 k70 d1 f32"},
    {"edge", "d3", "b1 h2 q65 k70 d3 f16"},
    {"edge", "d3_padded", "b2 h2 q33 k37 d3 v5 f32 layout=padded"},
    {"edge", "d8", "b1 h2 q65 k70 d8 bf16"},
    {"edge", "d40", "b1 h2 q65 k70 d40 f16"},
    {"edge", "d60_v44_aligned", "b2 h2 q65 k70 d60 v44 f16 layout=aligned"},
    {"edge", "d120_v100_aligned", "b1 h2 q70 k65 d120 v100 bf16 causal=bottom-right layout=aligned"},
    {"edge", "d80", "b1 h2 q65 k70 d80 f32"},
    {"edge", "d96", "b1 h2 q65 k70 d96 bf16"},
    {"edge", "d192_v128", "b1 h2 q65 k70 d192 v128 f16 causal=bottom-right"},
    {"edge", "d256", "b1 h2 q65 k70 d256 f32"},
    {"edge", "d512", "b2 h4/2 q70 k130 d512 bf16 causal=bottom-right"},
    {"edge", "d512_options", "b1 h4/2 q33 k90 d512 f16 softcap=20 alibi sinks mask=additive align=top-left"},
    {"edge", "d300_v270_padded", "b2 h2 q37 k67 d300 v270 f16 lengths layout=padded"},
    {"edge", "d64_v512", "b1 h2 q130 k70 d64 v512 bf16"},
    {"edge", "d512_v64", "b1 h2 q65 k70 d512 v64 f16 causal=bottom-right"},
    {"edge", "d576_v512", "b1 h4/1 q5 k130 d576 v512 bf16"},
    {"edge", "d100_v36_f32",
     "b2 h4/2 q70 k130 d100 v36 f32 causal=bottom-right softcap=20 alibi layout=padded"},
    {"edge", "d200_f32_mask", "b1 h4/2 q37 k90 d200 f32 mask=additive sinks scale=-0.05"},
    {"edge", "one_query_f32", "b2 h8/2 q1 k3000 d128 f32 lengths"},
    {"edge", "d1024", "b1 h1 q9 k33 d1024 f32"},
    {"edge", "v1", "b1 h2 q33 k40 d64 v1 f32"},
    {"edge", "v7", "b1 h2 q33 k40 d64 v7 f16"},
    {"edge", "no_keys", "b2 h2 q5 k0 d64 f32"},
    {"edge", "no_keys_sinks", "b2 h2 q5 k0 d64 f16 sinks"},
    {"edge", "no_queries", "b2 h2 q0 k5 d64 f32"},
    {"edge", "no_batch", "b0 h2 q5 k5 d64 f32"},
    {"edge", "many_heads", "b3 h40/5 q1 k33 d64 f16"},
    {"edge", "mqa_wide", "b1 h71/1 q1 k100 d64 f32"},

    {"serving", "serving_decode_16", "b4 h8/2 q1 k300 d128 bf16 lengths pages=16"},
    {"serving", "serving_decode_64", "b4 h8/2 q1 k300 d128 f16 lengths ragged pages=64"},
    {"serving", "serving_decode_long", "b3 h8/2 q1 k4500 d64 bf16 lengths ragged pages=16"},
    {"serving", "serving_decode_slot", "b5 h4/1 q1 k200 d64 f32 lengths ragged pages=784"},
    {"serving", "serving_prefill", "b4 h4/2 q70 d64 bf16 causal=bottom-right ragged packed"},
    {"serving", "serving_prefill_f32", "b5 h2 q40 k90 d72 f32 causal=bottom-right ragged packed layout=bshd"},
    {"serving", "serving_chunk", "b4 h4/2 q48 k200 d64 f16 causal=bottom-right lengths ragged pages=48"},
    {"serving", "serving_dense_keys", "b4 h4/2 q9 k130 d64 f32 causal=bottom-right lengths ragged"},
    {"serving", "serving_more_rows", "b4 h4/2 q90 k20 d64 bf16 causal=bottom-right ragged lengths pages=16"},
    {"serving", "serving_page_1", "b4 h4/2 q3 k70 d64 bf16 causal=bottom-right ragged lengths pages=1"},
    {"serving", "serving_window",
     "b4 h8/1 q4 k400 d64 bf16 causal=bottom-right window=127,0 sinks ragged lengths pages=16"},
    {"serving", "serving_tree",
     "b4 h8/2 q8 k200 d128 bf16 lengths ragged pages=16 mask=boolean:queries-keys:last8"},
    {"serving", "serving_tree_prefix", "b3 h4 q20 k90 d64 f32 mask=additive:last33 causal=bottom-right"},
    {"serving", "serving_merge", "b3 h4/2 q7 k0 d64 f32 ragged prior=3"},
    {"serving", "serving_merge_f16", "b3 h4/2 q7 k0 d64 f16 ragged prior=2 sinks"},
    {"serving", "serving_cascade",
     "b4 h8/2 q5 k90 d64 f16 causal=bottom-right ragged lengths pages=16 prior=1"},
    {"serving", "serving_out_f32", "b2 h4/2 q33 k130 d64 bf16 out=f32"},
    {"serving", "serving_out_f32_decode", "b3 h8/2 q1 k300 d128 f16 lengths ragged pages=16 out=f32 prior=2"},
    {"serving", "serving_latent",
     "b2 h16/1 q2 k100 d576 v512 bf16 causal=bottom-right lengths ragged pages=64"},
    {"serving", "serving_latent_keys",
     "b2 h16/1 q2 k300 d576 v512 bf16 causal=bottom-right lengths ragged pages=64 latent"},
    {"serving", "serving_latent_window",
     "b1 h20/2 q3 k260 d576 v512 f16 causal=bottom-right window=100,0 sinks latent"},
    {"serving", "serving_latent_options",
     "b2 h8/1 q5 k90 d576 v512 f16 causal=bottom-right softcap=15 ragged lengths pages=16 prior=1 out=f32 "
     "latent"},
    {"serving", "serving_groups", "b3 h35/5 q3 k65 d64 f16 causal=bottom-right ragged lengths pages=16"},
    {"serving", "serving_tiny", "b4 h2/1 q2 k300 d8 v3 f16 ragged lengths pages=16"},
    {"serving", "serving_one_key", "b4 h4/2 q3 k1 d64 f32 ragged lengths pages=16"},
    {"serving", "serving_two_keys", "b4 h4/2 q9 k2 d64 bf16 ragged lengths pages=16"},
    {"serving", "serving_no_batch", "b0 h4/2 q3 k9 d64 f32 ragged lengths pages=16"},
    {"serving", "serving_no_rows", "b3 h4/2 q0 k9 d64 f32 ragged lengths pages=16"},
    {"serving", "serving_no_keys", "b3 h4/2 q3 k0 d64 f32 ragged lengths pages=16"},

    {"fp8_prefill", "fp8_mission512", "b2 h8 q512 d64 f8e4m3 scales=head"},
    {"fp8_prefill", "fp8_mission512_fast", "b2 h8 q512 d64 f8e4m3 scales=head transposed precision=fast"},
    {"fp8_prefill", "fp8_d64_16k", "b1 h32 q16384 d64 f8e4m3 scales=head"},
    {"fp8_prefill", "fp8_d64_16k_fast", "b1 h32 q16384 d64 f8e4m3 scales=head transposed precision=fast"},
    {"fp8_prefill", "fp8_d64_16k_causal", "b1 h32 q16384 d64 f8e4m3 scales=head causal=bottom-right"},
    {"fp8_prefill", "fp8_d64_16k_causal_fast",
     "b1 h32 q16384 d64 f8e4m3 scales=head transposed precision=fast causal=bottom-right"},
    {"fp8_prefill", "fp8_d128_16k", "b1 h16 q16384 d128 f8e4m3 scales=head"},
    {"fp8_prefill", "fp8_d128_16k_fast", "b1 h16 q16384 d128 f8e4m3 scales=head transposed precision=fast"},
    {"fp8_prefill", "fp8_d128_16k_causal", "b1 h16 q16384 d128 f8e4m3 scales=head causal=bottom-right"},
    {"fp8_prefill", "fp8_d128_16k_causal_fast",
     "b1 h16 q16384 d128 f8e4m3 scales=head transposed precision=fast causal=bottom-right"},
    {"fp8_prefill", "fp8_d256_16k", "b1 h8 q16384 d256 f8e4m3 scales=head"},
    {"fp8_prefill", "fp8_d256_16k_fast", "b1 h8 q16384 d256 f8e4m3 scales=head transposed precision=fast"},
    {"fp8_prefill", "fp8_d256_16k_causal", "b1 h8 q16384 d256 f8e4m3 scales=head causal=bottom-right"},
    {"fp8_prefill", "fp8_d256_16k_causal_fast",
     "b1 h8 q16384 d256 f8e4m3 scales=head transposed precision=fast causal=bottom-right"},
    {"fp8_prefill", "fp8_d128_16k_block128_fast",
     "b1 h16 q16384 d128 f8e4m3 scales=block128 transposed precision=fast"},

    {"fp8", "fp8_plain", "b2 h4 q96 k130 d64 f8e4m3"},
    {"fp8", "fp8_plain_e5m2", "b2 h4 q96 k130 d64 f8e5m2"},
    {"fp8", "fp8_tensor", "b2 h4/2 q96 k130 d128 f8e4m3 scales=tensor"},
    {"fp8", "fp8_head", "b2 h4/2 q96 k130 d64 f8e4m3 scales=head"},
    {"fp8", "fp8_block64", "b2 h4/2 q130 k200 d128 f8e4m3 scales=block64"},
    {"fp8", "fp8_block64_e5m2", "b2 h4/2 q130 k200 d64 f8e5m2 scales=block64 out=bf16"},
    {"fp8", "fp8_block128", "b1 h4/2 q150 k300 d64 f8e4m3 scales=block128 out=f32"},
    {"fp8", "fp8_channel", "b2 h4/2 q96 k130 d128 f8e4m3 scales=channel"},
    {"fp8", "fp8_channel_e5m2", "b2 h4/2 q33 k130 d64 f8e5m2 scales=channel layout=padded"},
    {"fp8", "fp8_transposed", "b2 h4/2 q96 k144 d64 f8e4m3 scales=head transposed"},
    {"fp8", "fp8_transposed_odd", "b2 h4/2 q65 k129 d72 v40 f8e4m3 scales=channel transposed layout=padded"},
    {"fp8", "fp8_transposed_bshd", "b2 h4/2 q65 k128 d128 f8e5m2 scales=block64 transposed layout=bshd"},
    {"fp8", "fp8_fast", "b2 h4/2 q128 k256 d128 f8e4m3 scales=head transposed precision=fast"},
    {"fp8", "fp8_fast_block",
     "b1 h4/2 q200 k300 d64 f8e4m3 scales=block64 transposed precision=fast out=bf16"},
    {"fp8", "fp8_fast_channel",
     "b1 h4/2 q130 k260 d256 f8e4m3 scales=channel transposed precision=fast causal=bottom-right"},
    {"fp8", "fp8_fast_f32", "b1 h2 q70 k200 d128 f8e5m2 precision=fast out=f32"},
    {"fp8", "fp8_d96", "b1 h2 q65 k130 d96 f8e4m3 scales=head causal=bottom-right"},
    {"fp8", "fp8_d192_v128", "b1 h2 q65 k130 d192 v128 f8e4m3 scales=block64 causal=bottom-right"},
    {"fp8", "fp8_d256", "b1 h2 q65 k130 d256 f8e4m3 scales=head transposed"},
    {"fp8", "fp8_d72", "b1 h2 q65 k70 d72 f8e4m3 scales=head"},
    {"fp8", "fp8_d40", "b1 h2 q65 k70 d40 f8e5m2 scales=tensor"},
    {"fp8", "fp8_d3", "b2 h2 q33 k37 d3 v5 f8e4m3 scales=channel layout=padded"},
    {"fp8", "fp8_d8_decode", "b2 h2 q2 k300 d8 v7 f8e4m3 scales=channel transposed"},
    {"fp8", "fp8_causal_top_left", "b1 h4 q130 k96 d64 f8e4m3 scales=head causal=top-left"},
    {"fp8", "fp8_window_both_sides",
     "b1 h4/1 q160 k200 d64 f8e4m3 scales=block64 align=top-left window=17,40"},
    {"fp8", "fp8_gpt_oss_like",
     "b1 h8/1 q90 k200 d64 f8e4m3 scales=head causal=bottom-right window=127,0 sinks"},
    {"fp8", "fp8_gemma_like",
     "b1 h8/4 q90 k200 d256 f8e5m2 scales=tensor causal=bottom-right window=64,0 softcap=50 scale=0.0625"},
    {"fp8", "fp8_everything",
     "b3 h6/2 q65 k130 d72 v40 f8e4m3 scales=block64 transposed causal=bottom-right window=50,0 scale=0.2 "
     "softcap=20 mask=additive lengths alibi sinks layout=padded"},
    {"fp8", "fp8_decode", "b2 h8/2 q1 k600 d128 f8e4m3 scales=head lengths"},
    {"fp8", "fp8_decode_block", "b2 h8/2 q1 k900 d128 f8e4m3 scales=block128 sinks"},
    {"fp8", "fp8_decode_long", "b1 h8/1 q1 k4500 d64 f8e5m2 scales=channel"},
    {"fp8", "fp8_one_key", "b2 h4/2 q9 k1 d64 f8e4m3 scales=channel transposed"},
    {"fp8", "fp8_one_by_one", "b1 h1 q1 k1 d1 f8e4m3 scales=tensor"},
    {"fp8", "fp8_no_keys", "b2 h2 q5 k0 d64 f8e4m3 scales=head sinks"},
    {"fp8", "fp8_pages_16", "b4 h8/2 q1 k300 d128 f8e4m3 scales=head lengths ragged pages=16"},
    {"fp8", "fp8_pages_16_channel",
     "b4 h8/2 q5 k200 d64 f8e4m3 scales=channel causal=bottom-right lengths ragged pages=16 transposed"},
    {"fp8", "fp8_pages_64",
     "b3 h4/2 q33 k300 d64 f8e4m3 scales=block64 causal=bottom-right lengths pages=64"},
    {"fp8", "fp8_pages_192",
     "b3 h4/2 q70 k300 d72 f8e5m2 scales=block64 causal=bottom-right lengths ragged pages=192 out=bf16"},
    {"fp8", "fp8_pages_1",
     "b4 h4/2 q3 k70 d64 f8e4m3 scales=head causal=bottom-right ragged lengths pages=1"},
    {"fp8", "fp8_packed", "b4 h4/2 q70 d64 f8e4m3 scales=block64 causal=bottom-right ragged packed"},
    {"fp8", "fp8_packed_transposed",
     "b5 h2 q40 k90 d72 f8e4m3 scales=block128 causal=bottom-right ragged packed layout=bshd transposed"},
    {"fp8", "fp8_packed_keys", "b3 h4/2 q9 k130 d128 f8e5m2 scales=block64 packed"},
    {"fp8", "fp8_prior", "b4 h8/2 q5 k90 d64 f8e4m3 scales=head ragged lengths pages=16 prior=2"},
    {"fp8", "fp8_prior_bf16", "b3 h4/2 q7 k40 d64 f8e4m3 scales=block64 ragged packed prior=2 out=bf16"},
    {"fp8", "fp8_tree",
     "b4 h8/2 q8 k200 d128 f8e4m3 scales=head lengths ragged pages=16 mask=boolean:queries-keys:last8"},
    {"fp8", "cache8_prefill", "b2 h4/2 q130 k200 d128 bf16 cache=f8e4m3 scales=block64 causal=bottom-right"},
    {"fp8", "cache8_decode", "b2 h8/2 q1 k600 d128 bf16 cache=f8e4m3 scales=head lengths"},
    {"fp8", "cache8_decode_i8", "b2 h8/2 q1 k600 d128 bf16 cache=i8 scales=block128 lengths"},
    {"fp8", "cache8_decode_long", "b1 h8/1 q1 k4500 d64 f16 cache=f8e5m2 scales=channel"},
    {"fp8", "cache8_plain", "b2 h4/2 q33 k130 d64 f16 cache=i8"},
    {"fp8", "cache8_f32", "b2 h4/2 q65 k130 d72 v40 f32 cache=i8 scales=channel transposed layout=padded"},
    {"fp8", "cache8_d3", "b2 h2 q33 k37 d3 v5 f32 cache=f8e4m3 scales=channel layout=padded"},
    {"fp8", "cache8_one_key", "b2 h4/2 q9 k1 d64 bf16 cache=i8 scales=channel transposed"},
    {"fp8", "cache8_no_keys", "b2 h2 q5 k0 d64 f16 cache=i8 scales=head sinks"},
    {"fp8", "cache8_pages_16",
     "b4 h8/2 q5 k200 d128 bf16 cache=f8e4m3 scales=head causal=bottom-right lengths ragged pages=16"},
    {"fp8", "cache8_pages_16_i8",
     "b4 h8/2 q5 k200 d64 f16 cache=i8 scales=channel causal=bottom-right lengths ragged pages=16"},
    {"fp8", "cache8_pages_192",
     "b3 h4/2 q70 k300 d72 bf16 cache=i8 scales=block64 causal=bottom-right lengths ragged pages=192 "
     "out=f32"},
    {"fp8", "cache8_packed",
     "b4 h4/2 q70 d64 f16 cache=f8e5m2 scales=block64 causal=bottom-right ragged packed"},
    {"fp8", "cache8_prior", "b4 h8/2 q5 k90 d64 bf16 cache=i8 scales=head ragged lengths pages=16 prior=2"},
    {"fp8", "cache8_tree",
     "b4 h8/2 q8 k200 d128 f16 cache=f8e4m3 scales=head lengths ragged pages=16 "
     "mask=boolean:queries-keys:last8"},
    {"fp8", "cache8_everything",
     "b3 h6/2 q65 k130 d72 v40 bf16 cache=i8 scales=block64 transposed causal=bottom-right window=50,0 "
     "scale=0.2 "
     "softcap=20 mask=additive lengths alibi sinks layout=padded"},
};

struct Alias {
  const char* alias;
  const char* name;
};
constexpr Alias kAliases[] = {{"canon_3", "mission512"}, {"canon_3_causal", "mission512_causal"}};

}  // namespace

const std::vector<Case>& named() {
  static const std::vector<Case> list = [] {
    std::vector<Case> cases;
    const auto add = [&](const std::string& group, const std::string& name, const std::string& words) {
      std::string error;
      // parse() looks the first word up in this very list unless it is a batch size, as it is throughout.
      std::optional<Case> c = parse(words, &error);
      if (!c) std::abort();  // a slip in the table above; the tests read every line of it
      c->name = name;
      c->group = group;
      cases.push_back(*c);
    };
    for (const Entry& entry : kEntries) add(entry.group, entry.name, entry.words);
    for (const Generated& entry : pair_list()) add("pairs", "pair_" + entry.name, entry.words);
    for (const Generated& entry : mask_list()) add("masks", "mask_" + entry.name, entry.words);
    for (const Generated& entry : serving_list()) add("serving", "serving_" + entry.name, entry.words);
    for (const Generated& entry : append_list()) add("append", "append_" + entry.name, entry.words);
    for (const Generated& entry : append_costs())
      add("append_costs", "append_costs_" + entry.name, entry.words);
    for (const Generated& entry : cache_costs()) add("cache_costs", "cache_costs_" + entry.name, entry.words);
    for (const Generated& entry : tail_list()) add("tail", "tail_" + entry.name, entry.words);
    for (const Generated& entry : fp8_list()) add("fp8", "fp8_" + entry.name, entry.words);
    return cases;
  }();
  return list;
}

const std::vector<std::string>& groups() {
  static const std::vector<std::string> list = {
      "mission", "canonical",   "prefill", "decode",       "costs",       "cpu",
      "few",     "options",     "pairs",   "masks",        "edge",        "serving",
      "fp8",     "fp8_prefill", "append",  "append_costs", "cache_costs", "tail"};
  return list;
}

std::optional<Case> find(std::string_view name) {
  // Sizes are never names: this also keeps named() from being asked while it is being filled.
  if (name.size() > 1 && name[0] == 'b' && name[1] >= '0' && name[1] <= '9') return std::nullopt;
  for (const Alias& a : kAliases) {
    if (a.alias == name) name = a.name;
  }
  for (const Case& c : named()) {
    if (c.name == name) return c;
  }
  return std::nullopt;
}

}  // namespace tessera::cases
