// The cases of keys in two tensors that were written down one by one; option_lists.cpp makes more of them.
#include "cases/option_lists.hpp"

namespace tessera::cases {

std::vector<Generated> tail_by_hand() {
  return {
      {"by_hand", "b1 h1 q1 k2 d2 f32 tail=1"},
      {"latent",
       "b2 h16/1 q1 k100 d576 v512 bf16 causal=bottom-right tail=64 latent cache=f8e4m3 scales=tensor"},
      {"latent_pages",
       "b3 h16/1 q2 k150 d576 v512 bf16 causal=bottom-right lengths ragged pages=64 tail=64 latent "
       "cache=f8e4m3 "
       "scales=tensor append rope=interleaved:32+512"},
      {"latent_codes_i8",
       "b3 h8/1 q3 k70 d96 v64 f16 causal=bottom-right lengths pages=16 tail=32 latent cache=i8 "
       "scales=block64 "
       "append rope=halves:16+64"},
      {"latent_16_bits",
       "b2 h8/1 q5 k70 d96 v64 bf16 causal=bottom-right ragged lengths pages=16 tail=32 latent append "
       "rope=halves:16+64"},
      {"page_1", "b4 h4/2 q3 k70 d80 v64 bf16 causal=bottom-right ragged lengths pages=1 tail=16 append"},
      {"page_5",
       "b4 h4/2 q13 k70 d71 v64 f32 causal=bottom-right ragged lengths pages=5 tail=7 append "
       "rope=interleaved:3+65"},
      {"long", "b2 h8/2 q1 k4500 d80 v64 bf16 causal=bottom-right lengths pages=16 tail=16 cache=f8e4m3"},
      {"prompt", "b2 h4/2 q150 d192 v128 bf16 causal=bottom-right tail=64"},
      {"prompt_codes", "b2 h4/2 q150 d192 v128 f16 causal=bottom-right tail=64 cache=i8 scales=head append"},
      {"tiny_dims", "b2 h2 q3 k37 d3 v1 bf16 causal=bottom-right tail=2 append rope=interleaved:1+0"},
      {"mostly_tail", "b2 h4/2 q9 k60 d72 v40 f16 tail=71 lengths"},
      {"one_key", "b4 h4/2 q3 k1 d71 v64 f32 causal=bottom-right ragged lengths pages=16 tail=7 append"},
      {"one_key_codes", "b4 h4/2 q3 k1 d71 v64 bf16 lengths tail=7 cache=f8e5m2 scales=head"},
      {"cascade", "b4 h8/2 q5 k90 d80 v64 f16 causal=bottom-right ragged lengths pages=16 prior=1 tail=16"},
      {"tree",
       "b4 h8/2 q8 k200 d192 v128 bf16 align=bottom-right lengths ragged pages=16 tail=64 "
       "mask=boolean:queries-keys:last8 cache=f8e4m3 append rope=halves:32+128 positions"},
      {"unaligned", "b3 h6/2 q20 k80 d41 v24 f16 ragged lengths tail=17 layout=padded"},
      {"no_rows", "b3 h4/2 q0 k9 d80 v64 f32 causal=bottom-right ragged lengths pages=16 tail=16 append"},
      {"no_keys", "b3 h4/2 q3 k0 d80 v64 f32 causal=bottom-right ragged lengths pages=16 tail=16 append"},
      {"no_batch", "b0 h4/2 q3 k9 d80 v64 f32 ragged lengths pages=16 tail=16"},
  };
}

}  // namespace tessera::cases
