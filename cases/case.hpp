// The one list of shapes and options that tests, verify, bench, profile and roofline share.
//
// A case is a shape with options and no memory. It is written as one line of words, in any order:
//   b2 h8/2 q256 k300 d64 v64 f16 causal=bottom-right window=127,0 scale=0.1 softcap=30 mask=boolean
//   lengths alibi sinks layout=bshd ragged packed pages=16 prior=2 out=f32
//   f8e4m3 scales=block64 transposed precision=fast
//   bf16 cache=i8 scales=head
//   append rope=halves:32+0 positions latent
//   d576 tail=64
// so that a failing case can be printed, pasted and run again. Left out, kv heads equal heads, k equals
// q and v equals d. A window that is not causal names its alignment (align=top-left window=16,inf), a
// mask its shape if that is not the full one (mask=additive:keys), its type if the seed is not to pick one
// (mask=additive-bf16) and what it holds if that is not noise (mask=boolean:queries-keys:documents700); with
// :last8 it covers the last 8 keys alone. Of ragged rows, of packed keys and of keys in pages, q and k are
// the most that a batch entry has: the seed draws how many each has. Of inputs in 8 bits (f8e4m3, f8e5m2) the
// output is f16 unless out= says f32 or bf16, and `transposed` turns the values round; cache= gives keys and
// values 8 bits (f8e4m3, f8e5m2, i8) beside a wider query. `append`: the last q of the k keys are new and
// stored by the call; rope= turns so many pairs of dimensions, from one on; `latent`: the values are the
// first v dimensions of the keys; tail=: the last so many of the d dimensions of a key are
// a tensor of their own, of the query's dtype. Words may follow a name from the list and then change it:
// "canon_1 bf16 layout=bshd".
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::cases {

enum class Layout {
  bhsd,     // [batch, heads, rows, dim], contiguous
  bshd,     // memory ordered [batch, rows, heads, dim]
  padded,   // bhsd with gaps after every row, head and batch entry
  aligned,  // bhsd with a gap after every row, behind which the next starts at a multiple of 16 elements
};

// Which dimensions of a mask tensor are real; the others are 1 and broadcast.
enum class MaskShape {
  none,
  keys,
  queries_keys,
  batch_keys,
  full,
  heads_queries_keys,
  batch_queries_keys,
  heads_keys,
  queries,
};
enum class MaskType { boolean, additive };

enum class MaskContent {
  random,     // about one element of eight hides
  documents,  // packed one behind the other, causal inside of each
  blocks,     // the same, and inside of each everything is visible
  tiles,      // squares, each hidden, open or mixed, and rows of squares that are hidden altogether
  padding,    // keys past a length, which the seed draws for each batch entry
  bias,       // numbers; nothing hides
};

// What shares a scale of 8-bit inputs. Of channels the query and the keys have one for each head.
enum class ScaleKind { none, tensor, head, block64, block128, channel };

struct Case {
  std::string name;   // "mission256", or the words themselves for an unnamed case
  std::string group;  // one of groups(); empty for an unnamed case

  std::int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, dim = 64, value_dim = 64;
  tessera_dtype dtype = TESSERA_F32;
  tessera_dtype cache = 0;  // of keys and values, where they have 8 bits and the query has not; 0 = dtype
  Layout layout = Layout::bhsd;

  tessera_align align = TESSERA_ALIGN_NONE;  // with left and right, as in tessera_mask
  std::int64_t left = TESSERA_UNBOUNDED, right = TESSERA_UNBOUNDED;
  MaskShape mask_shape = MaskShape::none;
  MaskType mask_type = MaskType::boolean;
  tessera_dtype mask_dtype = 0;  // of an additive mask; 0 = the seed picks one
  MaskContent mask_content = MaskContent::random;
  std::int64_t mask_block = 0;  // length of a document or block, side of a tile
  bool mask_lowest = false;     // an additive mask hides by the lowest finite number of its type, not by -inf
  std::int64_t mask_last = 0;   // its columns are the last so many keys; 0: all
  bool key_lengths = false;     // filled from the seed, 0 and full length included
  bool alibi = false;
  bool sinks = false;
  float softcap = 0;
  float scale = 0;  // 0 = 1 / sqrt(dim)

  bool ragged = false;      // query_offsets: rows of the entries one behind the other, and rows of none
  bool packed = false;      // key_offsets: the same for keys
  std::int64_t page = 0;    // rows of a page, in a pool that has more than the table names; 0: no pages
  std::int64_t priors = 0;  // parts of prior results
  tessera_dtype output_dtype = 0;  // 0 = dtype, or f16 where that has 8 bits

  ScaleKind scales = ScaleKind::none;  // of 8-bit inputs, as are the next two
  bool transposed = false;             // value has its keys side by side
  bool fast = false;                   // TESSERA_PRECISION_FAST

  bool append = false;          // new_key and new_value, a row for each query row
  bool latent = false;          // values lie in keys, and new_value is left out
  std::int64_t tail = 0;        // of the keys' `dim` dimensions, in key_tail; 0: no tail
  std::int64_t rope_pairs = 0;  // 0: no rope
  std::int64_t rope_first = 0;
  bool rope_interleaved = false;
  bool positions = false;  // rows stand in the tables of rope where a tensor says

  std::int64_t key_dim() const { return dim - tail; }
  bool operator==(const Case&) const = default;
};

// The words that parse() reads back to the same case (name and group aside).
std::string words(const Case& c);

// A name from the list or words. On failure returns nothing and puts a sentence into *error.
std::optional<Case> parse(std::string_view text, std::string* error);

// Every named case. The names, shapes and groups are documented by `tessera kernels --cases`.
const std::vector<Case>& named();
// "mission", "canonical", "prefill", "decode", "costs", "cpu" (the big ones) and "few", "options", "pairs",
// "masks", "edge", "serving", "fp8", "append", "tail"; "fp8_prefill", "append_costs", "cache_costs" are big.
const std::vector<std::string>& groups();
// The named case, or nothing; knows the aliases too ("canon_3" is mission512).
std::optional<Case> find(std::string_view name);
std::vector<Case> in_group(std::string_view group);

struct Work {
  double flops = 0;
  double bytes = 0;
};
// 2 * visible pairs * (dim + value_dim); every visible input once and every output once. What the seed draws
// (lengths, padding, noise in a mask) is not known here and counts as visible.
Work work(const Case& c);

}  // namespace tessera::cases
