#include "core/scales.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/tensor_checks.hpp"

namespace tessera::core {
namespace {

// Query, key or value and what it is scaled by.
struct Scaled {
  std::string_view name;
  const tessera_tensor& scales;
  const tessera_tensor& tensor;
  Scales* out;
  bool by_channel = false;  // may have a scale for each channel

  std::string field() const { return fmt::format("{}_scales", name); }
};

// What is there for codes, beside a query or beside keys that are none.
Status refuse_beside_wide(const tessera_attention& p) {
  const auto refuse = [&](std::string_view what) {
    return invalid(fmt::format("{}, but query.dtype is {}: f8e4m3 and f8e5m2 are accepted with it", what,
                               dtype_name(p.query.dtype)));
  };
  const auto refuse_of_keys = [&](std::string_view what) {
    return invalid(
        fmt::format("{}, but query.dtype is {} and key.dtype is {}: a key.dtype of f8e4m3, f8e5m2 and i8 is "
                    "accepted with it",
                    what, dtype_name(p.query.dtype), dtype_name(p.key.dtype)));
  };
  if (!is_absent(p.query_scales)) return refuse("query_scales is set");
  if (p.precision != TESSERA_PRECISION_ACCURATE) return refuse(fmt::format("precision is {}", p.precision));
  if (is_8_bit(p.key.dtype)) return {};
  if (!is_absent(p.key_scales)) return refuse_of_keys("key_scales is set");
  if (!is_absent(p.value_scales)) return refuse_of_keys("value_scales is set");
  if (p.scale_rows != 0) return refuse_of_keys(fmt::format("scale_rows is {}", p.scale_rows));
  return {};
}

Status check_size(const Scaled& s, int dimension, std::int64_t full, std::string_view meaning) {
  const std::int64_t size = s.scales.shape[dimension];
  if (size == 1 || size == full) return {};
  const std::string accepted = full == 1 ? "1" : fmt::format("1 or {}", full);
  return invalid(
      fmt::format("{}.shape[{}] is {}; {} ({}) is accepted", s.field(), dimension, size, accepted, meaning));
}

Status check_one(const Scaled& s, std::int64_t scale_rows) {
  if (is_absent(s.scales)) return {};
  const std::int64_t* const shape = s.tensor.shape;
  const std::int64_t blocks =
      scale_rows == 0 ? 1 : shape[2] / scale_rows + (shape[2] % scale_rows != 0 ? 1 : 0);
  if (Status t = check_size(s, 0, shape[0], fmt::format("{}.shape[0]", s.name)); !t.ok()) return t;
  if (Status t = check_size(s, 1, shape[1], fmt::format("{}.shape[1]", s.name)); !t.ok()) return t;
  const std::string counted =
      scale_rows == 0 ? "scale_rows is 0: there are no blocks" : fmt::format("blocks of {} rows", scale_rows);
  if (Status t = check_size(s, 2, blocks, counted); !t.ok()) return t;
  const std::string channels =
      s.by_channel ? fmt::format("{}.shape[3]", s.name) : "only value_scales may have channels";
  if (Status t = check_size(s, 3, s.by_channel ? shape[3] : 1, channels); !t.ok()) return t;
  const std::int64_t* const sizes = s.scales.shape;
  if (sizes[2] > 1 && sizes[3] > 1) {
    return invalid(
        fmt::format("{}.shape[2] is {} and shape[3] is {}; scales for each block or for each "
                    "channel are accepted, not both",
                    s.field(), sizes[2], sizes[3]));
  }
  const auto stride = [&](int d) { return sizes[d] == 1 ? 0 : s.scales.strides[d]; };
  *s.out = {static_cast<const float*>(s.scales.data), stride(0), stride(1), stride(2), stride(3)};
  s.out->rows = sizes[2] == 1 ? 0 : scale_rows;
  return {};
}

}  // namespace

Status check_scales(const tessera_attention& p, Problem* out) {
  if (!is_8_bit(p.query.dtype))
    if (Status s = refuse_beside_wide(p); !s.ok()) return s;
  if (!is_8_bit(p.key.dtype)) return {};
  if (p.scale_rows != 0 && p.scale_rows != 64 && p.scale_rows != 128) {
    return invalid(fmt::format("scale_rows is {}; accepted: 0 (no blocks), 64, 128", p.scale_rows));
  }
  if (p.precision < TESSERA_PRECISION_ACCURATE || p.precision > TESSERA_PRECISION_FAST)
    return invalid(fmt::format("precision is {}; accepted: 0 (accurate), 1 (fast)", p.precision));
  out->precision = p.precision;
  TensorScales& scales = out->scales;
  if (Status s = check_one({"query", p.query_scales, p.query, &scales.query}, p.scale_rows); !s.ok())
    return s;
  if (Status s = check_one({"key", p.key_scales, p.key, &scales.key}, p.scale_rows); !s.ok()) return s;
  return check_one({"value", p.value_scales, p.value, &scales.value, true}, p.scale_rows);
}

}  // namespace tessera::core
