// Calls that store new rows, for append_test: tensors in memory with guards around them, and what tessera.h
// says becomes of key, value and query, worked out here row by row.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cases/gpu/memory.hpp"
#include "core/tensors.hpp"
#include "oracle/oracle.hpp"
#include "support.hpp"

namespace tessera::testing_append {

using core::TensorId;
using Four = std::array<std::int64_t, 4>;

// What is to be called. Memory is NaN wherever nothing was put, around the tensors too.
struct Spec {
  std::string name;
  tessera_dtype dtype = TESSERA_BF16;
  std::int64_t heads = 4, kv_heads = 2, dim = 64, value_dim = 64;
  std::vector<std::int64_t> rows, lengths;  // of each entry; lengths as memory has them
  std::int64_t capacity = 40;               // keys that an entry has room for
  std::int64_t page = 0;                    // 0: no pages
  bool ragged = false;                      // rows lie one behind the other
  std::int64_t rows_before = 0, rows_after = 0;
  bool no_lengths = false, wide_numbers = false;
  std::int64_t pairs = 0, first = 0;  // of rope
  bool interleaved = false, positions = false;
  std::int64_t angles = 64;         // positions of rope
  bool wild = false;                // subnormal numbers, the largest, zeros
  std::int64_t pad = 0, shift = 0;  // elements behind every row, and before the tensor
  bool stores = true, in_key = false, transposed = false, heads_inside = false;
  bool bad = false;                     // the CPU refuses it
  std::vector<std::int64_t> bad_pages;  // of entry 0: what its pages are said to be

  std::int64_t batch() const { return static_cast<std::int64_t>(rows.size()); }
  std::int64_t all_rows() const {
    std::int64_t all = rows_before + rows_after;
    for (const std::int64_t n : rows) all += n;
    return all;
  }
  std::int64_t outer() const { return ragged ? 1 : batch(); }
  std::int64_t queries() const { return ragged ? all_rows() : rows.at(0); }
  std::int64_t length(std::int64_t b) const {
    return no_lengths ? capacity : lengths[static_cast<std::size_t>(b)];
  }
  std::int64_t clamped_length(std::int64_t b) const {
    return std::clamp<std::int64_t>(length(b), 0, capacity);
  }
};
inline void PrintTo(const Spec& s, std::ostream* out) { *out << s.name; }

inline constexpr std::size_t kGuard = 256;

// A tensor in memory of its own.
struct Owned {
  std::vector<unsigned char> bytes;
  tessera_tensor t = TESSERA_TENSOR_NONE;
  std::size_t at = 0;

  explicit operator bool() const { return t.rank > 0; }
  void make(tessera_dtype dtype, const std::vector<std::int64_t>& shape,
            const std::vector<std::int64_t>& strides, std::int64_t shift) {
    std::int64_t last = 0;
    t.dtype = dtype;
    t.rank = static_cast<std::int32_t>(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      t.shape[d] = shape[d];
      t.strides[d] = strides[d];
      last += std::max<std::int64_t>(shape[d] - 1, 0) * strides[d];
    }
    at = kGuard + static_cast<std::size_t>(shift) * size();
    bytes.assign(at + static_cast<std::size_t>(last + 1) * size() + kGuard, 0xff);
  }
  // Rows of so many elements, `pad` apart.
  void make_rows(tessera_dtype dtype, const Four& shape, std::int64_t pad, std::int64_t shift,
                 bool heads_inside) {
    const std::int64_t row = shape[3] + pad;
    const Four strides = heads_inside ? Four{shape[2] * shape[1] * row, row, shape[1] * row, 1}
                                      : Four{shape[1] * shape[2] * row, shape[2] * row, row, 1};
    make(dtype, {shape.begin(), shape.end()}, {strides.begin(), strides.end()}, shift);
  }
  std::size_t size() const { return tessera_dtype_size(t.dtype); }
  unsigned char* begin() { return bytes.data() + at; }
  std::int64_t index(std::int64_t o, std::int64_t h, std::int64_t r, std::int64_t d) const {
    return o * t.strides[0] + h * t.strides[1] + r * t.strides[2] + d * t.strides[3];
  }
  unsigned char* element(std::int64_t o, std::int64_t h, std::int64_t r, std::int64_t d) {
    return begin() + static_cast<std::size_t>(index(o, h, r, d)) * size();
  }
  tessera_tensor on(unsigned char* memory) const {
    tessera_tensor there = t;
    if (there.rank > 0) there.data = memory + at;
    return there;
  }
};

struct Call {
  Spec s;
  core::PerTensor<Owned> of;
  std::mt19937 random;

  Call(const Spec& spec, unsigned seed) : s(spec), random(seed) {
    for (const TensorId id : {TensorId::query, TensorId::new_key, TensorId::new_value}) make_rows_of(id);
    make_caches();
    of[TensorId::output].make_rows(output_dtype(), {s.outer(), s.heads, s.queries(), s.value_dim}, 0, 0,
                                   false);
    of[TensorId::lse].make(TESSERA_F32, {s.outer(), s.heads, s.queries()},
                           {s.heads * s.queries(), s.queries(), 1}, 0);
    make_numbers();
    make_rope();
  }

  tessera_dtype output_dtype() const {
    return s.dtype == TESSERA_F8E4M3 || s.dtype == TESSERA_F8E5M2 ? TESSERA_F16 : s.dtype;
  }
  Owned& value() { return of[s.in_key ? TensorId::key : TensorId::value]; }

  // Over memory elsewhere: base(id) is where the whole of a tensor's memory lies.
  template <class Base>
  tessera_attention problem(const Base& base) const {
    tessera_attention a = TESSERA_ATTENTION_INIT;
    core::for_each_tensor(a, [&](const core::TensorField& field, tessera_tensor& t) {
      if (of[field.id]) t = of[field.id].on(base(field.id));
    });
    if (s.in_key) {
      a.value = a.key;
      a.value.shape[3] = s.value_dim;
    }
    a.mask = {TESSERA_ALIGN_BOTTOM_RIGHT, 0, TESSERA_UNBOUNDED, 0, TESSERA_TENSOR_NONE};
    a.rope.first = static_cast<std::int32_t>(s.first);
    a.rope.interleaved = s.interleaved ? 1 : 0;
    return a;
  }
  tessera_attention here() {
    return problem([&](TensorId id) { return of[id].bytes.data(); });
  }

  // f(entry, outer, row of the tensor, place, whether it is stored, outer and row of the cache) for every
  // row.
  template <class F>
  void for_rows(const F& f) {
    std::int64_t first = s.rows_before;
    for (std::int64_t b = 0; b < s.batch(); ++b) {
      const std::int64_t n = s.rows[static_cast<std::size_t>(b)];
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t place = s.clamped_length(b) - n + i;
        std::int64_t outer = b, row = place;
        bool fits = s.length(b) == s.clamped_length(b) && place >= 0;
        if (s.page > 0 && fits) {
          outer = page(b, place / s.page);
          row = place % s.page;
          fits = outer >= 0 && outer < of[TensorId::key].t.shape[0];
        }
        f(b, s.ragged ? 0 : b, s.ragged ? first + i : i, place, fits, outer, row);
      }
      first += n;
    }
  }

  // Stores the new rows, and leaves of the problem what attention has to do.
  void append() {
    Owned turned = of[TensorId::query];
    if (s.pairs > 0) {
      const std::int64_t per_16 = 16 / static_cast<std::int64_t>(turned.size());
      turned.make_rows(s.dtype, {s.outer(), s.heads, s.queries(), s.dim}, (per_16 - s.dim % per_16) % per_16,
                       0, false);
      // Rows of no entry may hold anything, but something.
      std::fill(turned.bytes.begin(), turned.bytes.end(), 0);
    }
    for_rows([&](std::int64_t, std::int64_t o, std::int64_t r, std::int64_t place, bool fits,
                 std::int64_t outer, std::int64_t row) {
      const std::int64_t angle = position(o, r, place);
      for (std::int64_t h = 0; h < s.heads && s.pairs > 0; ++h)
        turn(of[TensorId::query], {o, h, r, 0}, turned, {o, h, r, 0}, s.dim, angle);
      for (std::int64_t h = 0; h < s.kv_heads && fits && s.stores; ++h) {
        turn(of[TensorId::new_key], {o, h, r, 0}, of[TensorId::key], {outer, h, row, 0}, s.dim, angle);
        if (s.in_key) continue;
        for (std::int64_t d = 0; d < s.value_dim; ++d)
          std::memcpy(value().element(outer, h, row, d), of[TensorId::new_value].element(o, h, r, d),
                      value().size());
      }
    });
    of[TensorId::query] = turned;
    for (const TensorId id : {TensorId::new_key, TensorId::new_value, TensorId::rope_cos, TensorId::rope_sin,
                              TensorId::positions})
      of[id] = {};
    s.first = s.pairs = 0;
    s.interleaved = false;
    s.stores = false;
  }

 private:
  std::int64_t page(std::int64_t b, std::int64_t n) {
    std::int32_t at = 0;
    const Owned& table = of[TensorId::page_table];
    std::memcpy(
        &at, of[TensorId::page_table].begin() + static_cast<std::size_t>(b * table.t.strides[0] + n) * 4, 4);
    return at;
  }
  std::int64_t position(std::int64_t o, std::int64_t r, std::int64_t place) {
    const Owned& t = of[TensorId::positions];
    std::int64_t at = place;
    if (t) {
      const std::int64_t n = s.ragged ? r : o * t.t.strides[0] + r;
      at = get(of[TensorId::positions], n);
    }
    return std::clamp<std::int64_t>(at, 0, s.angles - 1);
  }
  float angle(TensorId id, std::int64_t at, std::int64_t pair) {
    float x = 0;
    std::memcpy(&x, of[id].begin() + static_cast<std::size_t>(at * of[id].t.strides[0] + pair) * 4, 4);
    return x;
  }
  // In f32, each operation rounded: the tests are compiled without contraction.
  void turn(Owned& from, const Four& f, Owned& to, const Four& t, std::int64_t dim, std::int64_t at) {
    for (std::int64_t d = 0; d < dim; ++d)
      std::memcpy(to.element(t[0], t[1], t[2], d), from.element(f[0], f[1], f[2], d), to.size());
    for (std::int64_t j = 0; j < s.pairs; ++j) {
      const std::int64_t dx = s.first + (s.interleaved ? 2 * j : j), dy = dx + (s.interleaved ? 1 : s.pairs);
      const auto x =
          static_cast<float>(oracle::load(from.begin(), s.dtype, from.index(f[0], f[1], f[2], dx)));
      const auto y =
          static_cast<float>(oracle::load(from.begin(), s.dtype, from.index(f[0], f[1], f[2], dy)));
      const float c = angle(TensorId::rope_cos, at, j), sn = angle(TensorId::rope_sin, at, j);
      const float xc = x * c, ys = y * sn, yc = y * c, xs = x * sn;
      oracle::store(to.begin(), s.dtype, to.index(t[0], t[1], t[2], dx), xc - ys);
      oracle::store(to.begin(), s.dtype, to.index(t[0], t[1], t[2], dy), yc + xs);
    }
  }

  double draw() {
    std::normal_distribution<double> normal;
    const double x = normal(random);
    if (!s.wild) return x;
    const double most = s.dtype == TESSERA_F16 ? 65504 : 3e38, least = s.dtype == TESSERA_F16 ? 6e-8 : 1e-40;
    const double all[] = {x, 0.0, -0.0, most, -most, least * x, 30 * least * x};
    return all[random() % std::size(all)];
  }
  void fill(Owned& t, std::int64_t o, std::int64_t h, std::int64_t r) {
    for (std::int64_t d = 0; d < t.t.shape[3]; ++d)
      oracle::store(t.begin(), t.t.dtype, t.index(o, h, r, d), draw());
  }
  void make_rows_of(TensorId id) {
    const bool query = id == TensorId::query;
    if (!query && (!s.stores || (s.in_key && id == TensorId::new_value))) return;
    Owned& t = of[id];
    t.make_rows(s.dtype,
                {s.outer(), query ? s.heads : s.kv_heads, s.queries(),
                 id == TensorId::new_value ? s.value_dim : s.dim},
                s.pad, s.shift, s.heads_inside);
    for (std::int64_t o = 0; o < t.t.shape[0]; ++o)
      for (std::int64_t h = 0; h < t.t.shape[1]; ++h)
        for (std::int64_t r = 0; r < t.t.shape[2]; ++r) fill(t, o, h, r);
  }
  void make_caches() {
    const std::int64_t per_entry = s.page > 0 ? s.capacity / s.page : 0;
    const std::int64_t outer = s.page > 0 ? 2 * s.batch() * per_entry + 1 : s.batch();
    const std::int64_t slots = s.page > 0 ? s.page : s.capacity;
    of[TensorId::key].make_rows(s.dtype, {outer, s.kv_heads, slots, s.dim}, s.pad, s.shift, s.heads_inside);
    Owned& value = of[TensorId::value];
    if (s.transposed) {
      const std::int64_t column = slots + s.pad, head = s.value_dim * column;
      value.make(s.dtype, {outer, s.kv_heads, slots, s.value_dim}, {s.kv_heads * head, head, 1, column},
                 s.shift);
    } else if (!s.in_key) {
      value.make_rows(s.dtype, {outer, s.kv_heads, slots, s.value_dim}, s.pad, s.shift, s.heads_inside);
    }
    if (s.page > 0) make_pages(per_entry);
    for (std::int64_t b = 0; b < s.batch(); ++b) {
      const std::int64_t old =
          s.stores ? s.clamped_length(b) - s.rows[static_cast<std::size_t>(b)] : s.clamped_length(b);
      for (std::int64_t j = 0; j < old; ++j) {
        const std::int64_t o = s.page > 0 ? page(b, j / s.page) : b, r = s.page > 0 ? j % s.page : j;
        if (o < 0 || o >= outer) continue;
        for (std::int64_t h = 0; h < s.kv_heads; ++h) {
          fill(of[TensorId::key], o, h, r);
          if (!s.in_key) fill(value, o, h, r);
        }
      }
    }
  }
  // From the last one down, one unused between any two; those that no key needs are -1.
  void make_pages(std::int64_t per_entry) {
    std::vector<std::int64_t> table;
    std::int64_t next = of[TensorId::key].t.shape[0];
    for (std::int64_t b = 0; b < s.batch(); ++b)
      for (std::int64_t n = 0; n < per_entry; ++n) {
        next -= 2;
        table.push_back(n * s.page < s.clamped_length(b) ? next : -1);
      }
    std::copy(s.bad_pages.begin(), s.bad_pages.end(), table.begin());
    put(of[TensorId::page_table], TESSERA_I32, {s.batch(), per_entry}, table);
  }
  void make_numbers() {
    const tessera_dtype dtype = s.wide_numbers ? TESSERA_I64 : TESSERA_I32;
    if (!s.no_lengths) put(of[TensorId::key_lengths], dtype, {s.batch()}, s.lengths);
    if (!s.ragged) return;
    std::vector<std::int64_t> offsets = {s.rows_before};
    for (const std::int64_t n : s.rows) offsets.push_back(offsets.back() + n);
    put(of[TensorId::query_offsets], dtype, {s.batch() + 1}, offsets);
  }
  void make_rope() {
    if (s.pairs == 0) return;
    std::uniform_real_distribution<float> any(-7, 7);
    for (const TensorId id : {TensorId::rope_cos, TensorId::rope_sin})
      of[id].make(TESSERA_F32, {s.angles, s.pairs}, {s.pairs + s.pad, 1}, s.shift);
    for (std::int64_t at = 0; at < s.angles; ++at)
      for (std::int64_t j = 0; j < s.pairs; ++j) {
        const float x = any(random), c = std::cos(x), sn = std::sin(x);
        const auto n = static_cast<std::size_t>(at * (s.pairs + s.pad) + j) * 4;
        std::memcpy(of[TensorId::rope_cos].begin() + n, &c, 4);
        std::memcpy(of[TensorId::rope_sin].begin() + n, &sn, 4);
      }
    if (!s.positions) return;
    std::vector<std::int64_t> numbers;
    for (std::int64_t n = 0; n < s.outer() * s.queries(); ++n) {
      const auto at = static_cast<std::int64_t>(random() % static_cast<unsigned>(s.angles));
      numbers.push_back(s.bad ? 3 * at - s.angles : at);
    }
    std::vector<std::int64_t> shape = {s.queries()};
    if (!s.ragged) shape.insert(shape.begin(), s.outer());
    put(of[TensorId::positions], s.wide_numbers ? TESSERA_I64 : TESSERA_I32, shape, numbers);
  }

 public:
  static void put(Owned& t, tessera_dtype dtype, const std::vector<std::int64_t>& shape,
                  const std::vector<std::int64_t>& numbers) {
    t.make(dtype, shape,
           shape.size() == 1 ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{shape[1], 1}, 0);
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const auto narrow = static_cast<std::int32_t>(numbers[n]);
      const void* const from = dtype == TESSERA_I64 ? static_cast<const void*>(&numbers[n]) : &narrow;
      std::memcpy(t.begin() + n * t.size(), from, t.size());
    }
  }
  static std::int64_t get(Owned& t, std::int64_t n) {
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    if (t.t.dtype == TESSERA_I64) {
      std::memcpy(&wide, t.begin() + n * 8, 8);
      return wide;
    }
    std::memcpy(&narrow, t.begin() + n * 4, 4);
    return narrow;
  }
};

// A call's memory on the GPU.
struct There {
  Call& call;
  core::PerTensor<gpu::Memory> memory;
  tessera_attention problem = TESSERA_ATTENTION_INIT;

  explicit There(Call& here) : call(here) {
    for (const core::TensorField& field : core::kTensorFields.values) {
      if (!call.of[field.id]) continue;
      EXPECT_TRUE(gpu::Memory::allocate(0, call.of[field.id].bytes.size(), &memory[field.id]).ok());
      send(field.id);
    }
    problem = call.problem([&](TensorId id) { return memory[id].data(); });
  }
  void send(TensorId id) {
    const std::vector<unsigned char>& bytes = call.of[id].bytes;
    EXPECT_TRUE(memory[id].upload(bytes.data(), bytes.size()).ok());
  }
  std::vector<unsigned char> bytes(TensorId id) const {
    std::vector<unsigned char> all(call.of[id].bytes.size());
    EXPECT_TRUE(memory[id].download(all.data(), all.size()).ok());
    return all;
  }
};

inline std::size_t first_difference(const std::vector<unsigned char>& a,
                                    const std::vector<unsigned char>& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}
inline void expect_same(const std::string& what, const std::vector<unsigned char>& got,
                        const std::vector<unsigned char>& wanted) {
  EXPECT_TRUE(got == wanted) << what << " differs at byte " << first_difference(got, wanted) << " of "
                             << wanted.size();
}

// Of attention alone, by the same GPU kernel: what it makes of rows that were stored and turned here.
struct Expected {
  std::vector<unsigned char> key, value, output, lse;

  Expected(Call stored, const tessera_device& device) {
    stored.append();
    There there(stored);
    EXPECT_EQ(tessera_attend(&there.problem, &device), TESSERA_OK) << tessera_last_error();
    key = stored.of[TensorId::key].bytes;
    value = stored.of[TensorId::value].bytes;
    output = there.bytes(TensorId::output);
    lse = there.bytes(TensorId::lse);
  }
  void expect(const There& there, const std::string& what) const {
    expect_same(what + ": key", there.bytes(TensorId::key), key);
    if (!value.empty()) expect_same(what + ": value", there.bytes(TensorId::value), value);
    expect_same(what + ": output", there.bytes(TensorId::output), output);
    expect_same(what + ": lse", there.bytes(TensorId::lse), lse);
  }
};

}  // namespace tessera::testing_append
