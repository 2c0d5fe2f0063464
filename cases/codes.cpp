// See codes.hpp.
#include "cases/codes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/fill.hpp"
#include "cases/sequences.hpp"

namespace tessera::cases {
namespace {

struct ScaleName {
  ScaleKind kind;
  std::string_view name;
};
constexpr ScaleName kScaleNames[] = {{ScaleKind::tensor, "tensor"},
                                     {ScaleKind::head, "head"},
                                     {ScaleKind::block64, "block64"},
                                     {ScaleKind::block128, "block128"},
                                     {ScaleKind::channel, "channel"}};

// `shared`: one serves all batch entries or pages.
tessera_tensor scales_of(const Case& c, const tessera_tensor& t, bool shared, std::int64_t scale_rows,
                         std::int64_t channels) {
  if (c.scales == ScaleKind::tensor) return make_tensor(TESSERA_F32, {1, 1, 1, 1});
  const std::int64_t blocks = scale_rows == 0 ? 1 : (t.shape[2] + scale_rows - 1) / scale_rows;
  tessera_tensor scales = make_tensor(TESSERA_F32, {shared ? 1 : t.shape[0], t.shape[1], blocks, channels});
  if (c.layout == Layout::padded) set_strides(&scales, 2, 3);
  return scales;
}

// Keys side by side, columns behind each other: what apply_layout made of [.., .., dim, keys].
void transpose(tessera_tensor* t, Layout layout) {
  tessera_tensor turned = make_tensor(t->dtype, {t->shape[0], t->shape[1], t->shape[3], t->shape[2]});
  apply_layout(&turned, layout);
  t->strides[0] = turned.strides[0];
  t->strides[1] = turned.strides[1];
  t->strides[2] = turned.strides[3];
  t->strides[3] = turned.strides[2];
}

}  // namespace

std::string codes_words(const Case& c) {
  std::string out;
  if (c.cache != 0) out += fmt::format(" cache={}", tessera_dtype_name(c.cache));
  for (const ScaleName& each : kScaleNames)
    if (each.kind == c.scales) out += fmt::format(" scales={}", each.name);
  if (c.transposed) out += " transposed";
  if (c.fast) out += " precision=fast";
  return out;
}

std::string read_cache(std::string_view word, std::string_view value, Case* c) {
  for (const tessera_dtype dtype : {TESSERA_F8E4M3, TESSERA_F8E5M2, TESSERA_I8})
    if (value == tessera_dtype_name(dtype)) return c->cache = dtype, "";
  return fmt::format("'{}' : cache must be f8e4m3, f8e5m2 or i8", word);
}

std::string read_scales(std::string_view word, std::string_view value, Case* c) {
  for (const ScaleName& each : kScaleNames)
    if (each.name == value) return c->scales = each.kind, "";
  return fmt::format("'{}' : scales must be tensor, head, block64, block128 or channel", word);
}

std::string check_codes(const Case& c) {
  if (of_codes(c) && c.cache == 0) return "";
  if (of_codes(c)) return "cache= : needs f32, f16 or bf16";
  if (c.cache == 0 && c.scales != ScaleKind::none) return "scales= : needs f8e4m3, f8e5m2 or cache=";
  if (c.cache == 0 && c.transposed) return "transposed : needs f8e4m3, f8e5m2 or cache=";
  if (c.fast) return "precision=fast : needs f8e4m3 or f8e5m2";
  if (c.output_dtype == 0 || c.output_dtype == TESSERA_F32 || c.output_dtype == c.dtype) return "";
  return fmt::format("out={} : needs f8e4m3 or f8e5m2; beside other inputs out=f32 is accepted",
                     tessera_dtype_name(c.output_dtype));
}

void add_code_tensors(const Case& c, std::uint64_t seed, tessera_attention* p) {
  if (c.transposed) transpose(&p->value, c.layout);
  p->precision = c.fast ? TESSERA_PRECISION_FAST : TESSERA_PRECISION_ACCURATE;
  if (c.scales == ScaleKind::none) return;
  p->scale_rows = c.scales == ScaleKind::block64 ? 64 : c.scales == ScaleKind::block128 ? 128 : 0;
  const Random choices(seed, kChoices);
  const bool shared = choices.word(6) % 2 == 0;
  if (of_codes(c)) p->query_scales = scales_of(c, p->query, shared, p->scale_rows, 1);
  p->key_scales = scales_of(c, p->key, shared, p->scale_rows, 1);
  const std::int64_t channels = c.scales == ScaleKind::channel ? c.value_dim : 1;
  p->value_scales = scales_of(c, p->value, shared, p->scale_rows, channels);
}

void fill_scales(const tessera_tensor& t, const Random& draws, tessera_dtype dtype, double unit, bool exact,
                 bool signs) {
  // A draw of 5 is as far as normal draws come, nearly: 320 of 448, or 40960 of 57344. Whole numbers have no
  // range to give away: with the largest of the scales below, a draw of 1 is 4.
  const double least = unit * (dtype == TESSERA_F8E4M3 ? 0x1p-6 : dtype == TESSERA_I8 ? 0x1p-7 : 0x1p-13);
  for (std::int64_t e = 0, all = t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3]; e < all; ++e) {
    std::int64_t at = 0, left = e;
    for (int d = 3; d >= 0; --d) {
      at += left % t.shape[d] * t.strides[d];
      left /= t.shape[d];
    }
    const auto index = static_cast<std::uint64_t>(e);
    const double power = std::ldexp(least, static_cast<int>(draws.below(2 * index, 6)));
    const std::uint64_t word = draws.word(2 * index + 1);
    const double between = exact || word % 2 == 0 ? 1.0 : 1.0 + static_cast<double>(word >> 40) * 0x1p-24;
    const double sign = signs && word % 3 == 0 ? -1.0 : 1.0;
    static_cast<float*>(t.data)[at] = static_cast<float>(sign * power * between);
  }
}

double ScaleOf::operator()(std::int64_t row, std::int64_t column) const {
  if (scales_.rank == 0) return 1;
  const std::int64_t r = row % tensor_.shape[2], head = row / tensor_.shape[2] % tensor_.shape[1],
                     outer = row / tensor_.shape[2] / tensor_.shape[1];
  const std::int64_t index[4] = {outer, head, scales_.shape[2] == 1 ? 0 : r / rows_, column};
  std::int64_t at = 0;
  for (int d = 0; d < 4; ++d) at += scales_.shape[d] == 1 ? 0 : index[d] * scales_.strides[d];
  return static_cast<double>(static_cast<const float*>(scales_.data)[at]);
}

double saturated(tessera_dtype dtype, double value) {
  const double most = dtype == TESSERA_F8E4M3   ? 448
                      : dtype == TESSERA_F8E5M2 ? 57344
                      : dtype == TESSERA_I8     ? 127
                                                : HUGE_VAL;
  return std::isfinite(value) ? std::clamp(value, -most, most) : value;
}

}  // namespace tessera::cases
