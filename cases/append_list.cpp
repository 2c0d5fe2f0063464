// The cases of append and rope that were written down one by one; option_lists.cpp makes more of them.
#include "cases/option_lists.hpp"

namespace tessera::cases {

std::vector<Generated> append_by_hand() {
  return {
      {"by_hand", "b1 h1 q1 k2 d2 f32 causal=bottom-right append rope=halves:1+0"},
      {"decode", "b4 h8/2 q1 k300 d128 bf16 causal=bottom-right append rope=halves:64+0"},
      {"decode_lengths", "b4 h8/2 q1 k300 d128 f16 causal=bottom-right lengths append rope=interleaved:64+0"},
      {"decode_16",
       "b4 h8/2 q1 k300 d128 bf16 causal=bottom-right lengths ragged pages=16 append rope=halves:64+0"},
      {"decode_long",
       "b3 h8/2 q1 k4500 d64 bf16 causal=bottom-right lengths ragged pages=16 append rope=halves:32+0"},
      {"without_rope", "b4 h4/2 q7 k90 d64 f16 causal=bottom-right lengths pages=16 append"},
      {"page_1",
       "b4 h4/2 q3 k70 d64 bf16 causal=bottom-right ragged lengths pages=1 append rope=halves:32+0"},
      {"page_5",
       "b4 h4/2 q13 k70 d64 f32 causal=bottom-right ragged lengths pages=5 append rope=interleaved:32+0"},
      {"page_784",
       "b3 h4/1 q9 k900 d64 f32 causal=bottom-right ragged lengths pages=784 append rope=halves:16+0"},
      {"chunk",
       "b4 h4/2 q100 k300 d128 bf16 causal=bottom-right lengths ragged pages=64 append rope=halves:64+0"},
      {"chunk_dense", "b2 h4/2 q130 k300 d64 f16 causal=bottom-right append rope=halves:32+0"},
      {"prompt", "b2 h4/2 q150 d64 bf16 causal=bottom-right append rope=halves:32+0"},
      {"prompt_f32", "b2 h4/2 q65 d80 f32 causal=bottom-right append rope=interleaved:40+0"},
      {"more_rows",
       "b4 h4/2 q90 k20 d64 bf16 causal=bottom-right ragged lengths pages=16 append rope=halves:32+0"},
      {"more_rows_dense", "b2 h4/2 q30 k20 d64 f16 causal=bottom-right lengths append"},
      {"window",
       "b4 h8/1 q4 k400 d64 bf16 causal=bottom-right window=127,0 sinks ragged lengths pages=16 append "
       "rope=halves:32+0"},
      {"tree",
       "b4 h8/2 q8 k200 d128 bf16 align=bottom-right lengths ragged pages=16 mask=boolean:queries-keys:last8 "
       "append rope=halves:64+0 positions"},
      {"tree_dense",
       "b3 h4 q8 k90 d64 f32 align=bottom-right mask=additive:batch-queries-keys:last8 append "
       "rope=interleaved:32+0 positions layout=padded"},
      {"rope_packed", "b4 h4/2 q9 k70 d64 bf16 causal=bottom-right ragged packed rope=halves:32+0"},
      {"rope_packed_dense", "b3 h4/2 q5 k60 d64 f16 causal=bottom-right packed rope=interleaved:16+8"},
      {"positions_unaligned", "b3 h4/2 q9 k70 d64 f16 lengths rope=halves:32+0 positions"},
      {"partial_rope",
       "b3 h8/2 q5 k90 d96 bf16 causal=bottom-right lengths pages=16 append rope=halves:12+0"},
      {"partial_rope_behind",
       "b3 h8/2 q5 k90 d96 f32 causal=bottom-right lengths pages=16 append rope=interleaved:16+64"},
      {"odd", "b3 h6/2 q7 k37 d13 v5 f16 causal=bottom-right lengths append rope=halves:5+3 layout=padded"},
      {"odd_dim", "b2 h2 q3 k37 d3 v1 bf16 causal=bottom-right append rope=interleaved:1+1"},
      {"bshd",
       "b3 h6/2 q20 k80 d64 f16 causal=bottom-right ragged lengths append rope=halves:32+0 layout=bshd"},
      {"latent",
       "b2 h16/1 q2 k100 d576 v512 bf16 causal=bottom-right lengths ragged pages=64 latent append "
       "rope=interleaved:32+512"},
      {"latent_dense",
       "b2 h8/1 q5 k70 d96 v64 f32 causal=bottom-right latent append rope=halves:16+64 layout=padded"},
      {"latent_alone", "b2 h8/1 q5 k70 d96 v64 f16 causal=bottom-right latent"},
      {"groups",
       "b3 h35/5 q3 k65 d64 f16 causal=bottom-right ragged lengths pages=16 append rope=halves:32+0"},
      {"cascade",
       "b4 h8/2 q5 k90 d64 f16 causal=bottom-right ragged lengths pages=16 prior=1 append rope=halves:32+0"},
      {"out_f32", "b4 h8/2 q5 k90 d64 bf16 causal=bottom-right lengths out=f32 append rope=halves:32+0"},
      {"codes", "b3 h4/2 q9 k90 d64 f8e4m3 scales=head causal=bottom-right lengths pages=16 append"},
      {"codes_transposed",
       "b3 h4/2 q9 k90 d64 f8e5m2 scales=channel transposed causal=bottom-right lengths append"},
      {"no_rows",
       "b3 h4/2 q0 k9 d64 f32 causal=bottom-right ragged lengths pages=16 append rope=halves:32+0"},
      {"no_keys",
       "b3 h4/2 q3 k0 d64 f32 causal=bottom-right ragged lengths pages=16 append rope=halves:32+0"},
      {"no_batch",
       "b0 h4/2 q3 k9 d64 f32 causal=bottom-right ragged lengths pages=16 append rope=halves:32+0"},
      {"one_key", "b4 h4/2 q3 k1 d64 f32 causal=bottom-right ragged lengths pages=16 append"},

  };
}

// A decode step of 8 entries with 4k keys and its like, each with its plain twin: what storing and turning
// cost beside attention alone.
std::vector<Generated> append_costs() {
  return {
      {"8x4k_twin", "b8 h32/8 q1 k4096 d128 bf16 causal=bottom-right pages=16"},
      {"8x4k", "b8 h32/8 q1 k4096 d128 bf16 causal=bottom-right pages=16 append"},
      {"8x4k_rope", "b8 h32/8 q1 k4096 d128 bf16 causal=bottom-right pages=16 append rope=halves:64+0"},
      {"64x1k_twin", "b64 h32/8 q1 k1024 d128 bf16 causal=bottom-right pages=16"},
      {"64x1k_rope", "b64 h32/8 q1 k1024 d128 bf16 causal=bottom-right pages=16 append rope=halves:64+0"},
      {"dense_twin", "b8 h32/8 q1 k4096 d128 bf16 causal=bottom-right"},
      {"dense_rope", "b8 h32/8 q1 k4096 d128 bf16 causal=bottom-right append rope=halves:64+0"},
      {"chunk_twin", "b1 h32/8 q512 k4608 d128 bf16 causal=bottom-right pages=16"},
      {"chunk_rope", "b1 h32/8 q512 k4608 d128 bf16 causal=bottom-right pages=16 append rope=halves:64+0"},
      {"latent_twin", "b8 h16/1 q1 k4096 d576 v512 bf16 causal=bottom-right pages=64 latent"},
      {"latent_rope",
       "b8 h16/1 q1 k4096 d576 v512 bf16 causal=bottom-right pages=64 latent append "
       "rope=interleaved:32+512"},
  };
}

// Decode steps over caches of 8 bits, each with its twin of 16: what half the bytes gain. And latent
// attention, bound by products with 128 heads, by reading with 16.
std::vector<Generated> cache_costs() {
  struct Named {
    std::string name, words;
  };
  const Named shapes[] = {
      {"1x32k", "b1 h32/8 q1 k32768 d128"},          {"8x4k", "b8 h32/8 q1 k4096 d128"},
      {"8x4k_5rows", "b8 h32/8 q5 k4096 d128"},      {"32x4k", "b32 h32/8 q1 k4096 d128"},
      {"32x4k_16_heads", "b32 h64/4 q1 k4096 d128"}, {"32x4k_d64", "b32 h64/8 q1 k4096 d64"},
      {"32x4k_d256", "b32 h16/4 q1 k4096 d256"},     {"4x2k_prompts", "b4 h32/8 q2048 k2048 d128"}};
  const Named caches[] = {{"twin", ""},
                          {"e4m3", " cache=f8e4m3 scales=head"},
                          {"i8", " cache=i8 scales=head"},
                          {"e4m3_blocks", " cache=f8e4m3 scales=block64"}};
  const std::string rest = " bf16 causal=bottom-right lengths";
  std::vector<Generated> all;
  for (const Named& shape : shapes)
    for (const Named& cache : caches)
      all.push_back({shape.name + "_" + cache.name, shape.words + rest + cache.words});
  for (const char* pages : {"", "_pages"})
    for (const char* heads : {"16", "128"})
      all.push_back({std::string("latent_") + heads + "_heads" + pages,
                     std::string("b64 h") + heads + "/1 q1 k4096 d576 v512" + rest + " latent" +
                         (*pages != 0 ? " pages=64" : "")});
  return all;
}

}  // namespace tessera::cases
