// Every tensor of a problem, in one list: whoever goes over all of them (validation, memory checks, copies to
// a GPU, the cache of recent calls) does so by for_each_tensor, and a new one is a line here and one where it
// is used. Needs nothing but the C interface.
#pragma once

#include <tessera/tessera.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera::core {

enum class TensorId {
  query,
  key,
  value,
  output,
  lse,
  mask,
  key_lengths,
  alibi_slopes,
  sinks,
  query_offsets,
  key_offsets,
  page_table,
  prior_output,
  prior_lse,
  query_scales,
  key_scales,
  value_scales,
  new_key,
  new_value,
  rope_cos,
  rope_sin,
  positions,
  key_tail
};

struct TensorField {
  TensorId id;
  std::string_view name;  // as users write it
  bool written;           // a result
};

// f(field, tensor) for each; of an optional one that was left out, data is null and rank 0.
template <class Attention, class F>
constexpr void for_each_tensor(Attention& a, F f) {
  f(TensorField{TensorId::query, "query", false}, a.query);
  f(TensorField{TensorId::key, "key", false}, a.key);
  f(TensorField{TensorId::value, "value", false}, a.value);
  f(TensorField{TensorId::output, "output", true}, a.output);
  f(TensorField{TensorId::lse, "lse", true}, a.lse);
  f(TensorField{TensorId::mask, "mask.tensor", false}, a.mask.tensor);
  f(TensorField{TensorId::key_lengths, "key_lengths", false}, a.key_lengths);
  f(TensorField{TensorId::alibi_slopes, "alibi_slopes", false}, a.alibi_slopes);
  f(TensorField{TensorId::sinks, "sinks", false}, a.sinks);
  f(TensorField{TensorId::query_offsets, "query_offsets", false}, a.query_offsets);
  f(TensorField{TensorId::key_offsets, "key_offsets", false}, a.key_offsets);
  f(TensorField{TensorId::page_table, "page_table", false}, a.page_table);
  f(TensorField{TensorId::prior_output, "prior_output", false}, a.prior_output);
  f(TensorField{TensorId::prior_lse, "prior_lse", false}, a.prior_lse);
  f(TensorField{TensorId::query_scales, "query_scales", false}, a.query_scales);
  f(TensorField{TensorId::key_scales, "key_scales", false}, a.key_scales);
  f(TensorField{TensorId::value_scales, "value_scales", false}, a.value_scales);
  f(TensorField{TensorId::new_key, "new_key", false}, a.new_key);
  f(TensorField{TensorId::new_value, "new_value", false}, a.new_value);
  f(TensorField{TensorId::rope_cos, "rope.cos", false}, a.rope.cos);
  f(TensorField{TensorId::rope_sin, "rope.sin", false}, a.rope.sin);
  f(TensorField{TensorId::positions, "positions", false}, a.positions);
  f(TensorField{TensorId::key_tail, "key_tail", false}, a.key_tail);
}

// Something for every tensor: PerTensor<void*> at; at[TensorId::key].
template <class T>
struct PerTensor {
  static constexpr std::size_t kCount = static_cast<std::size_t>(TensorId::key_tail) + 1;
  std::array<T, kCount> values{};

  constexpr T& operator[](TensorId id) { return values[static_cast<std::size_t>(id)]; }
  constexpr const T& operator[](TensorId id) const { return values[static_cast<std::size_t>(id)]; }
  bool operator==(const PerTensor&) const = default;
};

inline constexpr PerTensor<TensorField> kTensorFields = [] {
  PerTensor<TensorField> fields;
  tessera_attention none{};
  for_each_tensor(none, [&](const TensorField& field, const tessera_tensor&) { fields[field.id] = field; });
  return fields;
}();

// Where the tensors of one call lie; null where one was left out. Everything else of a call is its Problem,
// so that one plan serves every call that differs in addresses alone.
using Addresses = PerTensor<void*>;

inline Addresses addresses_of(const tessera_attention& a) {
  Addresses at;
  for_each_tensor(a, [&](const TensorField& field, const tessera_tensor& t) { at[field.id] = t.data; });
  return at;
}

}  // namespace tessera::core
