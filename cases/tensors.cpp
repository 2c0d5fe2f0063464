#include "cases/tensors.hpp"

#include "cases/append.hpp"
#include "cases/codes.hpp"
#include "cases/fill.hpp"
#include "cases/masks.hpp"
#include "cases/random.hpp"
#include "cases/sequences.hpp"
#include "core/tensors.hpp"

namespace tessera::cases {
namespace {

tessera_tensor mask_tensor(const Case& c, std::uint64_t seed) {
  tessera_tensor t = TESSERA_TENSOR_NONE;
  t.rank = mask_dims(c.mask_shape).rank;
  if (t.rank == 0) return t;
  t.dtype = mask_dtype(c, seed);
  for (int d = 4 - t.rank; d < 4; ++d) t.shape[d - 4 + t.rank] = mask_size(c, d);
  set_strides(&t, 1, c.layout == Layout::padded ? 5 : 0);
  return t;
}

}  // namespace

tessera_attention tensors_of(const Case& c, std::uint64_t seed) {
  tessera_attention p = TESSERA_ATTENTION_INIT;
  const std::int64_t entries = tensor_entries(c), rows = tensor_rows(c);
  const std::int64_t pieces = c.page > 0 ? pool_pages(c) : c.packed ? 1 : c.batch;
  const std::int64_t keys = c.page > 0 ? c.page : key_capacity(c);
  p.query = make_tensor(c.dtype, {entries, c.heads, rows, c.dim});
  p.key = make_tensor(cache_dtype(c), {pieces, c.kv_heads, keys, c.key_dim()});
  p.value = make_tensor(cache_dtype(c), {pieces, c.kv_heads, keys, c.value_dim});
  p.output = make_tensor(output_dtype(c), {entries, c.heads, rows, c.value_dim});
  p.lse = make_tensor(TESSERA_F32, {entries, c.heads, rows});
  for (tessera_tensor* t : {&p.query, &p.key, &p.value, &p.output, &p.lse}) apply_layout(t, c.layout);
  if (c.tail > 0) {
    p.key_tail = make_tensor(c.dtype, {pieces, c.kv_heads, keys, c.tail});
    apply_layout(&p.key_tail, c.layout);
  }
  p.scale = c.scale;
  p.softcap = c.softcap;
  p.mask.align = c.align;
  p.mask.left = c.left;
  p.mask.right = c.right;

  const Random choices(seed, kChoices);
  p.mask.tensor = mask_tensor(c, seed);
  if (c.mask_last > 0) p.mask.tensor_align = TESSERA_ALIGN_BOTTOM_RIGHT;
  if (c.key_lengths || c.page > 0)
    p.key_lengths = make_tensor(choices.word(0) % 2 == 0 ? TESSERA_I64 : TESSERA_I32, {c.batch});
  if (c.alibi)
    p.alibi_slopes = choices.word(1) % 2 == 0 ? make_tensor(TESSERA_F32, {c.batch, c.heads})
                                              : make_tensor(TESSERA_F32, {c.heads});
  if (c.sinks) p.sinks = make_tensor(TESSERA_F32, {c.heads});
  add_sequence_tensors(c, seed, &p);
  add_code_tensors(c, seed, &p);
  add_append_tensors(c, seed, &p);
  return p;
}

tessera_attention shape_only(const Case& c, std::uint64_t seed) {
  tessera_attention p = tensors_of(c, seed);
  std::uintptr_t address = std::uintptr_t{1} << 36;
  core::for_each_tensor(p, [&](const core::TensorField&, tessera_tensor& t) {
    if (t.rank == 0) return;
    const std::size_t size = tessera_dtype_size(t.dtype);
    std::int64_t last = 0;
    for (std::int32_t d = 0; d < t.rank; ++d) last += (t.shape[d] - 1) * t.strides[d];
    t.data =
        reinterpret_cast<void*>(address + (c.layout == Layout::padded ? size : 0));  // NOLINT: never read
    address +=
        (static_cast<std::uintptr_t>(std::max<std::int64_t>(last, 0)) * size + 8192) & ~std::uintptr_t{255};
  });
  if (c.latent) p.value.data = p.key.data;
  return p;
}

core::Status validated(const Case& c, core::Problem* problem) {
  return core::validate(shape_only(c), problem);
}

}  // namespace tessera::cases
