/* Tessera: exact attention, O = softmax(scale * Q K^T + mask) V, without ever storing the scores.
 *
 * This is the whole C interface. Every struct starts with its own size and is filled from its _INIT
 * macro, so that a program built against an older header keeps working with a newer library.
 *
 *   tessera_attention problem = TESSERA_ATTENTION_INIT;
 *   problem.query = tessera_tensor_4d(q, TESSERA_F32, batch, heads, queries, dim);
 *   ...
 *   tessera_device cpu = TESSERA_DEVICE_INIT;
 *   if (tessera_attend(&problem, &cpu) != TESSERA_OK) puts(tessera_last_error());
 */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define TESSERA_API
#else
#define TESSERA_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TESSERA_VERSION_MAJOR 0
#define TESSERA_VERSION_MINOR 1
#define TESSERA_VERSION_PATCH 0

/* Enumerations travel as int32_t: a value this library does not know is refused, never undefined. */
typedef int32_t tessera_status;
enum {
  TESSERA_OK = 0,
  TESSERA_INVALID_ARGUMENT =
      1,                   /* the call itself is wrong: last_error names field, value and what is accepted */
  TESSERA_UNSUPPORTED = 2, /* a valid problem that no kernel of the device can compute */
  TESSERA_DEVICE_UNAVAILABLE = 3, /* no such device here, or this build leaves it out */
  TESSERA_OUT_OF_MEMORY = 4,
  TESSERA_INTERNAL = 5 /* a defect of this library */
};

typedef int32_t tessera_dtype;
enum {
  TESSERA_F32 = 1,
  TESSERA_F16 = 2,
  TESSERA_BF16 = 3,
  TESSERA_F8E4M3 = 4, /* the "fn" kind: no infinity, 0x7f and 0xff are NaN, the largest number is 448 */
  TESSERA_F8E5M2 = 5, /* infinity and NaN as IEEE has them; the largest number is 57344 */
  TESSERA_BOOL = 6,   /* one byte, nonzero = true */
  TESSERA_I32 = 7,
  TESSERA_I64 = 8,
  TESSERA_I8 = 9 /* signed whole numbers, -128 ... 127: codes of key and value alone */
};

#define TESSERA_MAX_RANK 4
#define TESSERA_MAX_HEAD_DIM 1024
#define TESSERA_MAX_THREADS 1024

/* A view of memory. Shape and strides count elements; strides are never negative. Where a tensor is
 * optional, data = NULL with rank = 0 leaves it out. The memory is the caller's, throughout. */
typedef struct tessera_tensor {
  void* data;
  tessera_dtype dtype;
  int32_t rank;
  int64_t shape[TESSERA_MAX_RANK];
  int64_t strides[TESSERA_MAX_RANK];
} tessera_tensor;

/* How query rows line up with keys. Query i stands at position i (top-left) or at position
 * i + keys - queries (bottom-right: the last query sits on the last key; with key_lengths, on the
 * last valid key of its batch entry). Libraries differ in their silent default, so there is none. */
typedef int32_t tessera_align;
enum { TESSERA_ALIGN_NONE = 0, TESSERA_ALIGN_TOP_LEFT = 1, TESSERA_ALIGN_BOTTOM_RIGHT = 2 };

#define TESSERA_UNBOUNDED (-1)

/* As a scale: exactly 0, which averages the values of the visible keys. (A scale of 0 is what a struct holds
 * where none was set, and means 1 / sqrt(dim).) The least normal float: no program scales by it, and unlike a
 * subnormal, -0 or NaN it survives flush-to-zero and -ffast-math. */
#define TESSERA_SCALE_ZERO 1.17549435e-38f

/* Which keys a query sees. The band: query at position p sees keys p - left ... p + right, each side
 * TESSERA_UNBOUNDED or >= 0; causal is left = TESSERA_UNBOUNDED, right = 0. align = TESSERA_ALIGN_NONE
 * means no band. The tensor, optional and combined with the band, broadcasts to
 * [batch, heads, queries, keys] as NumPy would: TESSERA_BOOL (true = visible) or floating (added to
 * the scores; -inf hides the key, whatever its score). With query_offsets it broadcasts to
 * [1, heads, rows, keys], its columns being the row's own keys. tensor_align = TESSERA_ALIGN_BOTTOM_RIGHT:
 * its columns, any number n of them, are the last n keys of the entry, and keys before those stay visible
 * (draft trees). */
typedef struct tessera_mask {
  tessera_align align;
  tessera_align tensor_align; /* TESSERA_ALIGN_NONE: column j is key j; or TESSERA_ALIGN_BOTTOM_RIGHT */
  int64_t left;
  int64_t right;
  tessera_tensor tensor;
} tessera_mask;

/* With 8-bit query, key and value (caches of 8 bits beside a wider query have no use for it): how accurate
 * the result has to be. TESSERA_PRECISION_FAST allows a kernel to round the weights of the softmax to 8 bits
 * and to sum their products with value in short accumulators; it never demands it, and a kernel may be more
 * accurate. */
typedef int32_t tessera_precision;
enum { TESSERA_PRECISION_ACCURATE = 0, TESSERA_PRECISION_FAST = 1 };

/* Rotary embedding: 2n dimensions of a row, from `first` on, are turned pair by pair by the angles of the
 * row's position. Pair j is dimensions first + j and first + n + j (halves), or first + 2j and first + 2j + 1
 * (interleaved); with c = cos[position, j] and s = sin[position, j], in f32 and each operation rounded,
 *
 *   x' = x * c - y * s        y' = y * c + x * s
 *
 * and the row is then rounded to the dtype that it is used or stored in. */
typedef struct tessera_rope {
  tessera_tensor cos, sin; /* [positions, n] f32, last dimension contiguous; cos absent: nothing is turned */
  int32_t interleaved;     /* nonzero: pairs of neighbours; 0: halves */
  int32_t first;           /* the first of the 2n dimensions */
} tessera_rope;

/* One attention problem. For batch b, query head h, query i (position p), key j:
 *
 *   s = scale * dot(query[b,h,i,:], key[b, h / (heads / kv_heads), j, :])
 *   s = softcap * tanh(s / softcap)                  if softcap > 0
 *   s = s - alibi_slopes[h] * |p - j|                if alibi_slopes
 *   s = s + mask.tensor[b,h,i,j]                     if it is floating
 *   s = -inf                                         if band, key_lengths or mask.tensor (false, -inf) hide j
 *   lse[b,h,i]      = log(sum_j exp(s) + exp(sinks[h]))            natural log; the sink only if sinks
 *   output[b,h,i,:] = sum_j exp(s - lse) * value[b, kv head, j, :]
 *
 * A key with s = -inf contributes nothing, whatever its value row holds, and a hidden key contributes
 * nothing whatever its key row holds either: rows that were never written may hold NaN. A row that sees
 * no key gives output 0 and lse -inf (lse = the sink where there is one). A visible score that is NaN or
 * +inf makes its row NaN, lse included.
 *
 * Batches of sequences that differ in length, and caches in pages (docs/serving.md). Entry b of the batch
 * owns query rows query_offsets[b] ... query_offsets[b+1] - 1 and keys key_offsets[b] ... key_offsets[b+1] -
 * 1, i and j above being counted from the first of them; in the formulas read [0, h, row, :] for [b, h, i,
 * :]. Of keys in pages, key j of entry b is row j % page of page page_table[b, j / page]. Bottom-right puts
 * row i of an entry at its number of keys - its number of rows + i. A row that belongs to no entry gives
 * output 0 and lse -inf: every element of output and lse is written.
 *
 * On a CPU, an offset, length or page number that does not fit is refused by its index and value; entries of
 * the table that no visible key needs are not looked at and may hold anything. On a GPU what does not fit is
 * clamped (falling offsets make an empty entry): memory outside the tensors is not touched either way.
 *
 * Query, key and value of 8 bits, or key and value alone (f8e4m3, f8e5m2 or i8: a cache of 8 bits, beside a
 * query of f32, f16 or bf16, which is taken as it is), are computed as the numbers that their codes stand
 * for: element [o, h, r, d] of such a tensor, as it is stored (o is the batch entry, or the page, or 0), is
 *
 *   code * scales[o, h, r / scale_rows, 0]           of value also: scales[o, h, 0, d]
 *
 * with query_scales (of an 8-bit query), key_scales and value_scales of f32: [shape[0] or 1, shape[1] or 1,
 * blocks or 1, 1], where shape is that of the tensor that they scale, blocks = ceil(shape[2] / scale_rows),
 * and a size of 1 serves all. Rows are counted from the tensor's first (with offsets: not the entry's).
 * value_scales may have a scale for each channel instead of each block: [shape[0] or 1, shape[1] or 1, 1,
 * value_dim]. Scales that are left out are 1. They are meant to be finite, and nobody looks: one that is not
 * gives what the arithmetic gives.
 *
 * prior_output and prior_lse are results over other keys, of earlier calls: part n is taken in, in order and
 * before the keys, as if it were one more key with score prior_lse[n,h,row] and value
 * prior_output[n,h,row,:]. So a part whose lse is -inf adds nothing, whatever its output holds; without keys
 * this merges the parts, and parts that saw nothing merge to 0 and -inf. Sinks belong into exactly one of the
 * calls.
 *
 * new_key and new_value have a row for each query row: it is stored in key and value first, where its query
 * stands, as key L - rows + i of its entry (L: the entry's keys, new ones included; mask.align has to be
 * bottom-right). What is attended to is what was stored. A row that would stand before key 0, or that no
 * entry owns, is not stored. What does not fit, a length or the page of a new row, is refused on a CPU; on a
 * GPU such rows, all those of an entry with such a length, are not stored anywhere. Where two rows are stored
 * in one place, each element is then that of either. In a cache of 8 bits beside a wider query the code of x
 * / scale is stored, where x is the element of the new row, turned in f32, and scale that of its place; codes
 * are made as tessera_quantise makes them. rope turns the query's rows and those of new_key; keys that are
 * there already are taken as they are, and the query tensor itself stays as it is. Where a row stands in the
 * tables of rope is where its query stands on the key axis (before key 0: row 0), or what `positions` says
 * (draft trees); one that the tables do not have is refused on a CPU and clamped on a GPU.
 *
 * key_tail makes a key of two tensors: its first columns are key's, its last the tail's, which lies as key
 * does (entries, offsets, the same pages and rows), with strides of its own, and has no scales. So a latent
 * cache has 512 columns of codes, which are the values too, and 64 of 16 bits. dim is that of the whole key:
 * scale, rope and new_key count the columns of both. Columns of a new row that belong to the tail are stored
 * there as they are, or, where they were turned, rounded to its dtype. */
typedef struct tessera_attention {
  size_t struct_size;
  tessera_tensor query;  /* [batch, heads, queries, dim]      floating, last dimension contiguous */
  tessera_tensor key;    /* [batch, kv_heads, keys, dim]      query's dtype, or of 8 bits beside a wider
                            query; heads a multiple of kv_heads */
  tessera_tensor value;  /* [batch, kv_heads, keys, value_dim] key's dtype; of 8 bits: keys may be contiguous
                            instead (strides[2] = 1, strides[3] >= 1: transposed) */
  tessera_tensor output; /* [batch, heads, queries, value_dim] query's dtype or f32; beside an 8-bit query
                            f16, bf16 or f32; overlaps no input */
  tessera_tensor lse;    /* optional [batch, heads, queries]  f32 */
  float scale;           /* 0 means 1 / sqrt(dim); TESSERA_SCALE_ZERO means 0 */
  float softcap;         /* 0 means none */
  tessera_mask mask;
  tessera_tensor key_lengths;  /* optional [batch]           i32 or i64, each in 0 ... keys */
  tessera_tensor alibi_slopes; /* optional [heads] or [batch, heads]  f32 */
  tessera_tensor sinks;        /* optional [heads]           f32 */
  /* optional [batch+1], i32 or i64: query, output and lse become [1, heads, rows, ...] */
  tessera_tensor query_offsets;
  /* optional [batch+1], i32 or i64: key and value become [1, kv_heads, all keys, ...]; not with key_lengths
   */
  tessera_tensor key_offsets;
  /* optional [batch, n] i32, with key_lengths (0 ... n * page), without key_offsets: key and value become
   * [pages, kv_heads, page, ...] */
  tessera_tensor page_table;
  tessera_tensor
      prior_output; /* optional [parts, heads, rows, value_dim], with query_offsets: f32 or output's */
  tessera_tensor prior_lse;    /* [parts, heads, rows] f32, with prior_output */
  tessera_tensor query_scales; /* optional, with an 8-bit query, as is precision */
  tessera_tensor key_scales;   /* optional, with 8-bit key and value, as are the next two */
  tessera_tensor value_scales;
  int32_t scale_rows;          /* rows of a block that share a scale: 64, 128, or 0 for no blocks */
  tessera_precision precision; /* TESSERA_PRECISION_ACCURATE or TESSERA_PRECISION_FAST */
  /* optional, not with key_offsets: [batch, kv_heads, queries, dim], query's dtype; with query_offsets
   * [1, kv_heads, rows, dim], as query. key and value are written */
  tessera_tensor new_key;
  tessera_tensor
      new_value;     /* the same with value_dim; left out where value lies in key (value.data = key.data) */
  tessera_rope rope; /* with mask.align bottom-right or positions; query of f32, f16 or bf16 */
  tessera_tensor positions; /* optional, with rope: [batch, queries], with query_offsets [rows]; i32 or i64 */
  tessera_tensor key_tail; /* optional [batch, kv_heads, keys, tail], query's dtype: f32, f16 or bf16; key has
                              then the first dim - tail dimensions of a head */
} tessera_attention;

/* Numbers as 8-bit codes and scales, the way tessera_attend takes them. Element [o, h, r, d] of output is
 *
 *   code(x / scale)        x = input[o, h, r, d] - means[o, h, 0, d], through the Hadamard transform if asked
 * for
 *
 * to the nearest code, ties to even, where scale, written too, is that of the element's cell: the whole
 * tensor, a head, a block of scale_rows rows of a head, or a channel of a head. The shape of scales says
 * which, and is that of query_scales and its relatives above; a size of 1 where input has more serves, and
 * looks at, all of them. Only value_scales may be for each channel.
 *
 *   scale = (largest finite |x| of the cell) / (448 for f8e4m3, 57344 for f8e5m2, 127 for i8)
 *
 * but not below the least normal float, and 1 where every x is 0. NaN stays NaN; i8 has none, and holds 0 for
 * it. Infinity becomes the largest number of its sign, 127 or -127 in i8 (-128 is never written), and changes
 * no scale. The same input gives the same bits, on any number of threads and on GPUs.
 *
 * means (smoothing, for keys): where given, the mean of each channel over the rows of its head, over finite
 * elements, is written there and subtracted. With such keys attention has the same output, because every
 * score of a row moves by the same amount (not so with softcap or with sinks): its lse is too small by scale
 * * dot(query, mean).
 *
 * hadamard: each row, less the means, is multiplied by the Walsh-Hadamard matrix of its length, a power of
 * two, divided by the root of the length. That is a rotation: dot products of queries and keys that both went
 * through it stay as they are, and outliers of single channels are spread over all. Of a row with NaN or
 * infinity nothing is left: its elements become NaN (in i8: 0) or the largest number of either sign. */
typedef struct tessera_quantisation {
  size_t struct_size;
  tessera_tensor input;  /* [outer, heads, rows, dim]  f32, f16 or bf16, last dimension contiguous */
  tessera_tensor output; /* the same shape, f8e4m3, f8e5m2 or i8; last dimension contiguous, or rows
                            (strides[2] = 1, strides[3] >= 1: transposed, as value may be) */
  tessera_tensor
      scales;           /* f32 [outer or 1, heads or 1, blocks or 1, 1] or [outer or 1, heads or 1, 1, dim] */
  tessera_tensor means; /* optional, f32 [outer, heads, 1, dim] */
  int32_t scale_rows;   /* rows of a block that share a scale: 64, 128, or 0 for no blocks */
  int32_t hadamard;     /* nonzero: rows go through the Hadamard transform */
} tessera_quantisation;

typedef int32_t tessera_device_kind;
enum { TESSERA_CPU = 1, TESSERA_CUDA = 2 };

/* A thread pool of the caller's, for CPU calls: runs task(argument, 0) ... task(argument, count - 1), on any
 * threads and in any order, and returns when all of them have returned. Must not throw. */
typedef void (*tessera_task)(void* argument, int64_t index);
typedef void (*tessera_run_tasks)(void* context, int64_t count, tessera_task task, void* argument);

/* Where and how to compute. Every tensor of the problem must be memory of that device; a GPU also takes
 * pinned and managed memory. */
typedef struct tessera_device {
  size_t struct_size;
  tessera_device_kind kind;
  int32_t index;   /* which GPU; 0 on a CPU */
  void* stream;    /* cudaStream_t of that GPU, NULL is the legacy default stream; NULL on a CPU */
  int32_t threads; /* CPU threads, at most TESSERA_MAX_THREADS; 0 means the environment's TESSERA_NUM_THREADS,
                      else its OMP_NUM_THREADS, else all cores this process may use */
  int32_t invariant;  /* nonzero: a row's bits never depend on the rest of the batch. On a CPU that always
                         holds, and on any device for calls with query_offsets, key_offsets or page_table;
                         else a GPU takes a kernel of which it holds (decode; f32: scalar) */
  const char* kernel; /* force one kernel by name; NULL lets the plan choose */
  /* Called with run_context, at most once a call (with new_key or rope twice) and from its thread, in place
   * of this library's own threads; NULL on a GPU. There are never more than `threads` tasks. They share the
   * work among them as they come: what no task has done when run_tasks returns is done by the calling thread,
   * so a pool that drops tasks, or has fewer threads, is slower and not wrong. A task must not start after
   * run_tasks has returned. */
  tessera_run_tasks run_tasks;
  void* run_context;
  /* Scratch memory of that device, a multiple of 256 bytes, for one call at a time; what it holds is
   * arbitrary before and after. In tessera_plan workspace_bytes is what the plan may use of it (workspace
   * itself may be NULL), and the plan says what it takes. In tessera_attend NULL means none: a call that
   * needs some then uses memory that this library keeps, for each stream of a GPU and for each thread on a
   * CPU (but turned queries take a block of the call's own there); one too small for the kernel is refused.
   */
  void* workspace;
  size_t workspace_bytes;
} tessera_device;

/* What attend() would do. */
typedef struct tessera_plan_info {
  size_t struct_size;
  char kernel[64];         /* "" if no kernel can */
  char reason[448];        /* why this one, in a sentence */
  int64_t workspace_bytes; /* scratch the call takes beside its tensors: tessera_device.workspace */
  int64_t work_items;      /* independent pieces: CPU tasks or GPU blocks */
  int32_t threads;         /* CPU threads, or threads per GPU block */
  int32_t splits;          /* pieces the key range of one query tile is cut into; 1 = not cut */
  double flops;            /* 2 * visible (query, key) pairs * (dim + value_dim) */
  double bytes;            /* least traffic: every visible input once, every output once */
} tessera_plan_info;

/* Computes one problem. On a CPU it returns when the output is written. On a GPU it puts the work on the
 * stream and returns: no waiting, no allocation but for a workspace that is needed and was not given (once
 * for a stream), and the stream may be captured into a CUDA graph; values in key_lengths, offsets and page
 * tables cannot be looked at then and are clamped. Safe from many threads at once. On any status but
 * TESSERA_OK nothing was written (unless TESSERA_INTERNAL, or new rows on TESSERA_OUT_OF_MEMORY). */
TESSERA_API tessera_status tessera_attend(const tessera_attention* problem, const tessera_device* device);

/* Writes codes, scales and means. On a CPU it returns when they are written; a pool of the caller's is called
 * for each pass over the input, of which there are two, with means three. On a GPU it puts the work on the
 * stream and returns, as tessera_attend does, also while the stream is captured. device.kernel must be NULL.
 * Only a GPU takes scratch memory, from device.workspace if that is given: docs/api.md says how much, and so
 * does the sentence that refuses one too small. */
TESSERA_API tessera_status tessera_quantise(const tessera_quantisation* quantisation,
                                            const tessera_device* device);

/* Fills *plan without touching tensor memory. TESSERA_UNSUPPORTED leaves the reasons in last_error. */
TESSERA_API tessera_status tessera_plan(const tessera_attention* problem, const tessera_device* device,
                                        tessera_plan_info* plan);

/* The plan, or the refusal, as text for people. Writes at most capacity bytes, terminator included,
 * and returns the length of the whole text, as snprintf does. */
TESSERA_API size_t tessera_explain(const tessera_attention* problem, const tessera_device* device, char* text,
                                   size_t capacity);

/* The sentence behind the last status of this thread that was not TESSERA_OK. Never NULL. */
TESSERA_API const char* tessera_last_error(void);
TESSERA_API const char* tessera_status_name(tessera_status status);
TESSERA_API const char* tessera_dtype_name(tessera_dtype dtype);
TESSERA_API size_t tessera_dtype_size(tessera_dtype dtype); /* bytes; 0 for an unknown dtype */
TESSERA_API const char* tessera_version(void);

/* Contiguous [a, b, c, d]; change .strides afterwards for any other layout. */
static inline tessera_tensor tessera_tensor_4d(void* data, tessera_dtype dtype, int64_t a, int64_t b,
                                               int64_t c, int64_t d) {
  tessera_tensor t = {data, dtype, 4, {a, b, c, d}, {0, 0, 0, 1}};
  /* Unsigned, so that absurd sizes wrap here instead of being undefined; the library refuses them. */
  t.strides[2] = d;
  t.strides[1] = (int64_t)((uint64_t)c * (uint64_t)d);
  t.strides[0] = (int64_t)((uint64_t)b * (uint64_t)t.strides[1]);
  return t;
}

#define TESSERA_TENSOR_NONE                  \
  {                                          \
    NULL, 0, 0, {0, 0, 0, 0}, { 0, 0, 0, 0 } \
  }

#define TESSERA_ATTENTION_INIT                                                                        \
  {                                                                                                   \
    sizeof(tessera_attention), TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE,         \
        TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, 0.0f, 0.0f,                                         \
        {TESSERA_ALIGN_NONE, 0, TESSERA_UNBOUNDED, TESSERA_UNBOUNDED, TESSERA_TENSOR_NONE},           \
        TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE,           \
        TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE,           \
        TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, 0, TESSERA_PRECISION_ACCURATE, \
        TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, {TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, 0, 0},   \
        TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE                                                      \
  }

#define TESSERA_QUANTISATION_INIT                                                                \
  {                                                                                              \
    sizeof(tessera_quantisation), TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, TESSERA_TENSOR_NONE, \
        TESSERA_TENSOR_NONE, 0, 0                                                                \
  }

#define TESSERA_DEVICE_INIT \
  { sizeof(tessera_device), TESSERA_CPU, 0, NULL, 0, 0, NULL, NULL, NULL, NULL, 0 }

#define TESSERA_PLAN_INFO_INIT \
  { sizeof(tessera_plan_info), {0}, {0}, 0, 0, 0, 0, 0.0, 0.0 }

#ifdef __cplusplus
}
#endif
#endif
