// See append.hpp.
#include "cases/append.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "cases/codes.hpp"
#include "cases/fill.hpp"
#include "cases/random.hpp"
#include "oracle/append.hpp"
#include "oracle/oracle.hpp"

namespace tessera::cases {
namespace {

constexpr std::int64_t kSparePositions = 2;  // of the tables, that no row asks for

bool number(std::string_view text, std::int64_t* out) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && stop == text.data() + text.size();
}

// A row of key or value: where it begins, and which of all rows it is.
struct CacheRow {
  const tessera_tensor& tensor;
  std::int64_t at, number;
};

// Elements of a row to another place, whatever they hold; of codes beside a wider query the numbers.
void move_row(const CacheRow& from, const ScaleOf& scale_of, const tessera_tensor& to, std::int64_t there) {
  const tessera_tensor& t = from.tensor;
  const std::size_t size = tessera_dtype_size(t.dtype);
  for (std::int64_t d = 0; d < t.shape[3]; ++d) {
    const std::int64_t source = from.at + d * t.strides[3], target = there + d * to.strides[3];
    if (t.dtype == to.dtype)
      std::memcpy(static_cast<unsigned char*>(to.data) + static_cast<std::size_t>(target) * size,
                  static_cast<unsigned char*>(t.data) + static_cast<std::size_t>(source) * size, size);
    else
      oracle::store(to.data, to.dtype, target,
                    oracle::load(t.data, t.dtype, source) * scale_of(from.number, d));
    oracle::store(t.data, t.dtype, source, std::numeric_limits<double>::quiet_NaN());
  }
}

void fill_positions(const Case& c, std::uint64_t seed, const tessera_attention& p) {
  const tessera_tensor& t = p.positions;
  const Sequences sequences(c, p);
  const Random draws(seed, kPositions);
  const auto set = [&](std::int64_t outer, std::int64_t row, std::int64_t value) {
    const std::int64_t at = t.rank == 1 ? row * t.strides[0] : outer * t.strides[0] + row * t.strides[1];
    if (t.dtype == TESSERA_I64)
      static_cast<std::int64_t*>(t.data)[at] = value;
    else
      static_cast<std::int32_t*>(t.data)[at] = static_cast<std::int32_t>(value);
  };
  for (std::int64_t row = 0; t.rank == 1 && row < t.shape[0]; ++row) set(0, row, -12345);  // of no entry
  const std::int64_t step = p.query.strides[2];
  for (std::int64_t b = 0; b < c.batch; ++b) {
    const std::int64_t rows = sequences.rows_of(b);
    const std::int64_t first = std::max<std::int64_t>(sequences.key_length(b) - rows, 0);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t depth = draws.below(static_cast<std::uint64_t>(b * c.queries + i), i + 1);
      const std::int64_t row = c.ragged ? sequences.query_at(p.query, b, 0, i) / step : i;
      set(b, row, std::min(first + depth, std::max<std::int64_t>(c.keys, 1) - 1));
    }
  }
}

}  // namespace

std::string append_words(const Case& c) {
  std::string out;
  if (c.tail > 0) out += fmt::format(" tail={}", c.tail);
  if (c.latent) out += " latent";
  if (c.append) out += " append";
  if (c.rope_pairs > 0)
    out += fmt::format(" rope={}:{}+{}", c.rope_interleaved ? "interleaved" : "halves", c.rope_pairs,
                       c.rope_first);
  if (c.positions) out += " positions";
  return out;
}

std::string read_rope(std::string_view word, std::string_view value, Case* c) {
  const std::size_t colon = value.find(':'), plus = value.find('+');
  const std::string_view kind = value.substr(0, colon);
  const bool sizes = colon != std::string_view::npos && (plus == std::string_view::npos || plus > colon);
  const std::string_view pairs = sizes ? value.substr(colon + 1, plus - colon - 1) : "";
  if ((kind != "halves" && kind != "interleaved") || !number(pairs, &c->rope_pairs) || c->rope_pairs < 1 ||
      (plus != std::string_view::npos && (!number(value.substr(plus + 1), &c->rope_first))) ||
      c->rope_first < 0) {
    return fmt::format(
        "'{}' : rope must be halves or interleaved, a number of pairs and the first dimension that is "
        "turned, "
        "as in rope=halves:32+0",
        word);
  }
  c->rope_interleaved = kind == "interleaved";
  return "";
}

std::string check_append(const Case& c) {
  const bool stands = c.align == TESSERA_ALIGN_BOTTOM_RIGHT;
  if (c.append && !stands)
    return "append : needs causal=bottom-right or align=bottom-right: a new row stands where its query "
           "stands";
  if (c.append && c.packed) return "append and packed : packed keys have no room for new ones";
  if (c.tail > 0 && of_codes(c)) return "tail= : needs f32, f16 or bf16";
  if (c.tail >= c.dim && c.tail > 0)
    return fmt::format("tail= : the last {} dimensions of d{} leave none to key", c.tail, c.dim);
  if (c.latent && of_codes(c)) return "latent : needs f32, f16 or bf16";
  if (c.latent && c.value_dim > c.key_dim())
    return fmt::format("latent : the values are the first dimensions of the keys, but v{} is more than d{}{}",
                       c.value_dim, c.dim, c.tail > 0 ? fmt::format(" less tail={}", c.tail) : "");
  if (c.latent && c.transposed) return "latent and transposed : values that lie in keys lie as those do";
  if (c.positions && c.rope_pairs == 0) return "positions : needs rope=";
  if (c.positions && c.alibi) return "positions and alibi : slopes count from where a row stands among keys";
  if (c.rope_pairs == 0) return "";
  if (of_codes(c)) return "rope= : needs f32, f16 or bf16";
  if (!stands && !c.positions) return "rope= : needs causal=bottom-right, align=bottom-right or positions";
  if (c.rope_first <= c.dim && c.rope_pairs <= (c.dim - c.rope_first) / 2) return "";
  return fmt::format("rope= : {} pairs of dimensions from {} on do not fit into d{}", c.rope_pairs,
                     c.rope_first, c.dim);
}

void add_append_tensors(const Case& c, std::uint64_t seed, tessera_attention* p) {
  if (c.latent) std::copy(std::begin(p->key.strides), std::end(p->key.strides), p->value.strides);
  if (c.append) {
    const std::int64_t entries = tensor_entries(c), rows = tensor_rows(c);
    p->new_key = make_tensor(c.dtype, {entries, c.kv_heads, rows, c.dim});
    apply_layout(&p->new_key, c.layout);
    if (!c.latent) p->new_value = make_tensor(c.dtype, {entries, c.kv_heads, rows, c.value_dim});
    if (!c.latent) apply_layout(&p->new_value, c.layout);
  }
  if (c.rope_pairs == 0) return;
  const std::int64_t positions = std::max<std::int64_t>(c.keys, 1) + kSparePositions;
  p->rope.cos = make_tensor(TESSERA_F32, {positions, c.rope_pairs});
  if (c.layout == Layout::padded) set_strides(&p->rope.cos, 1, 3);
  p->rope.sin = make_tensor(TESSERA_F32, {positions, c.rope_pairs});
  p->rope.interleaved = c.rope_interleaved ? 1 : 0;
  p->rope.first = static_cast<std::int32_t>(c.rope_first);
  if (!c.positions) return;
  const tessera_dtype whole = Random(seed, kChoices).word(7) % 2 == 0 ? TESSERA_I64 : TESSERA_I32;
  p->positions = c.ragged ? make_tensor(whole, {tensor_rows(c)}) : make_tensor(whole, {c.batch, c.queries});
  if (c.layout == Layout::padded) set_strides(&p->positions, 2, 3);
}

void fill_rope(const Case& c, std::uint64_t seed, const tessera_attention& p) {
  if (c.rope_pairs == 0) return;
  const tessera_tensor &cos = p.rope.cos, &sin = p.rope.sin;
  for (std::int64_t j = 0; j < c.rope_pairs; ++j) {
    const double pace = std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(c.rope_pairs));
    for (std::int64_t at = 0; at < cos.shape[0]; ++at) {
      const bool spare = at >= cos.shape[0] - kSparePositions;
      const double angle = spare ? std::numeric_limits<double>::quiet_NaN() : pace * static_cast<double>(at);
      oracle::store(cos.data, TESSERA_F32, at * cos.strides[0] + j, std::cos(angle));
      oracle::store(sin.data, TESSERA_F32, at * sin.strides[0] + j, std::sin(angle));
    }
  }
  if (c.positions) fill_positions(c, seed, p);
}

void lift_new_rows(const Case& c, const tessera_attention& p) {
  if (!c.append) return;
  const Sequences sequences(c, p);
  const tessera_tensor none = TESSERA_TENSOR_NONE;
  const ScaleOf key_scale(p.key, p.key_scales, p.scale_rows),
      value_scale(p.value, p.value_scales, p.scale_rows), tail_scale(p.key_tail, none, 0);
  for (std::int64_t b = 0; b < c.batch; ++b) {
    const std::int64_t rows = sequences.rows_of(b), first = sequences.key_length(b) - rows;
    for (std::int64_t i = std::max<std::int64_t>(-first, 0); i < rows; ++i) {
      for (std::int64_t h = 0; h < c.kv_heads; ++h) {
        const auto row = [&](const tessera_tensor& t) {
          return CacheRow{t, sequences.key_at(t, b, h, first + i), sequences.key_row(t, b, h, first + i)};
        };
        const std::int64_t new_key = sequences.query_at(p.new_key, b, h, i);
        move_row(row(p.key), key_scale, p.new_key, new_key);
        if (c.tail > 0) move_row(row(p.key_tail), tail_scale, p.new_key, new_key + c.key_dim());
        if (!c.latent)
          move_row(row(p.value), value_scale, p.new_value, sequences.query_at(p.new_value, b, h, i));
      }
    }
  }
}

// `to`: all bytes of each buffer.
void Caches::store(const tessera_attention& p, Bytes* to) const {
  const auto start = [&](std::string_view name) -> unsigned char* {
    for (std::size_t n = 0; n < buffers_.size(); ++n) {
      const Buffer& b = buffers_[n];
      if (b.name() == name)
        return (*to)[n].data() + (static_cast<unsigned char*>(b.tensor().data) - b.memory());
    }
    return nullptr;  // values that lie in key, or no tail
  };
  oracle::store_new_rows(p, start("key"), start("value"), start("key_tail"));
}

void Caches::remember(const tessera_attention& p) {
  if (buffers_.empty()) return;
  before_.clear();
  for (const Buffer& b : buffers_) before_.emplace_back(b.memory(), b.memory() + b.bytes());
  after_ = before_;
  store(p, &after_);
}

void Caches::restore() {
  for (std::size_t n = 0; n < buffers_.size(); ++n)
    std::memcpy(buffers_[n].memory(), before_[n].data(), before_[n].size());
}

namespace {

bool is_nan(const unsigned char* at, tessera_dtype dtype) {
  alignas(8) unsigned char element[8];
  std::memcpy(element, at, tessera_dtype_size(dtype));
  return std::isnan(oracle::load(element, dtype, 0));
}

// The element that begins at this byte of a buffer, as people write it.
std::string place_of(const Buffer& buffer, std::size_t byte) {
  const tessera_tensor& t = buffer.tensor();
  const auto first = static_cast<std::size_t>(static_cast<unsigned char*>(t.data) - buffer.memory());
  std::string place = fmt::format("memory around or between the elements of {}", buffer.name());
  buffer.for_each_element([&](std::int64_t e, std::int64_t at) {
    if (first + static_cast<std::size_t>(at) * tessera_dtype_size(t.dtype) != byte) return;
    const std::int64_t d = e % t.shape[3], row = e / t.shape[3] % t.shape[2],
                       head = e / t.shape[3] / t.shape[2] % t.shape[1];
    place =
        fmt::format("{}[{},{},{},{}]", buffer.name(), e / t.shape[3] / t.shape[2] / t.shape[1], head, row, d);
  });
  return place;
}

}  // namespace

std::string Caches::mistake(const tessera_attention& p) const {
  Bytes other;  // over memory that holds other bits, the same call leaves equal bits where it stores, alone
  for (std::size_t n = 0; n < buffers_.size(); ++n) {
    const Buffer& b = buffers_[n];
    const std::size_t size = tessera_dtype_size(b.tensor().dtype);
    if (std::memcmp(b.memory(), after_[n].data(), b.bytes()) == 0) continue;
    if (other.empty()) {
      other = before_;
      for (auto& bytes : other)
        for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(~byte);
      store(p, &other);
    }
    for (std::size_t at = 0; at < b.bytes(); at += size) {
      const unsigned char *now = b.memory() + at, *want = after_[n].data() + at;
      if (std::memcmp(now, want, size) == 0) continue;
      const bool stored = std::memcmp(want, other[n].data() + at, size) == 0;
      if (stored && is_nan(now, b.tensor().dtype) && is_nan(want, b.tensor().dtype)) continue;
      return fmt::format("{} {}", place_of(b, at),
                         stored ? "is not what the oracle stores there" : "was written to");
    }
  }
  return "";
}

}  // namespace tessera::cases
