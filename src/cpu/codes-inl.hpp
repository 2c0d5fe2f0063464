// Rows of 8-bit codes as floats, each times its scale. The conversion is exact; the product with the scale is
// rounded once, and from there on every kernel works as for floats.
#if defined(TESSERA_CPU_CODES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_CODES_INL
#undef TESSERA_CPU_CODES_INL
#else
#define TESSERA_CPU_CODES_INL
#endif

#include <algorithm>

#include "cpu/rows.hpp"
#include "cpu/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// Moves the fields of the codes to where a float has them. A normal number then only lacks the difference of
// the biases; a subnormal one is read as if it had a leading 1, which is taken off again. No step makes a
// subnormal float, so a thread that flushes those gets the same numbers.
template <class Format>
HWY_INLINE Vec decode(const Code* from) {
  const F f32;
  const hn::Rebind<std::uint8_t, F> bytes;
  const hn::RebindToUnsigned<F> u32;
  const auto code = hn::PromoteTo(u32, hn::LoadU(bytes, &from->bits));
  const auto magnitude = hn::And(code, hn::Set(u32, 0x7fu));
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(u32, 0x80u)));
  const auto fields = hn::ShiftLeft<Format::kShift>(magnitude);
  constexpr std::uint32_t kBias = std::uint32_t{Format::kBias} << 23, kOne = 1u << 23;
  const Vec normal = hn::BitCast(f32, hn::Add(fields, hn::Set(u32, kBias)));
  const Vec subnormal = hn::Sub(hn::BitCast(f32, hn::Add(fields, hn::Set(u32, kBias + kOne))),
                                hn::BitCast(f32, hn::Set(u32, kBias + kOne)));
  const Vec special = hn::BitCast(f32, hn::Or(fields, hn::Set(u32, 0x7f800000u)));
  const auto is_normal = hn::Ge(hn::BitCast(f32, fields), hn::BitCast(f32, hn::Set(u32, kOne)));
  const auto is_special =
      hn::Ge(hn::BitCast(f32, fields), hn::BitCast(f32, hn::Set(u32, Format::kSpecial << Format::kShift)));
  const Vec number = hn::IfThenElse(is_normal, normal, subnormal);
  return hn::Or(hn::IfThenElse(is_special, special, number), hn::BitCast(f32, sign));
}

template <class Format>
HWY_INLINE void decode_row(const Code* HWY_RESTRICT from, std::size_t length, float* HWY_RESTRICT to) {
  std::size_t d = 0;
  for (; d + kLanes <= length; d += kLanes) hn::StoreU(decode<Format>(from + d), F(), to + d);
  for (; d < length; ++d) to[d] = code_values<Format>()[from[d].bits];
}

inline HWY_NOINLINE void decode_row(tessera_dtype dtype, const Code* from, std::size_t length, float* to) {
  dtype == TESSERA_F8E4M3 ? decode_row<E4M3>(from, length, to) : decode_row<E5M2>(from, length, to);
}

// row *= factors, or, where those are null, *= factor. Returns a probe as convert_row does.
HWY_INLINE Vec scale_row(float* HWY_RESTRICT row, std::size_t length, float factor,
                         const float* HWY_RESTRICT factors, Vec probe) {
  const F f32;
  const Vec zero = hn::Zero(f32), one_factor = hn::Set(f32, factor);
  std::size_t d = 0;
  for (; d + kLanes <= length; d += kLanes) {
    const Vec x = hn::Mul(load(row + d), factors == nullptr ? one_factor : load(factors + d));
    probe = hn::MulAdd(x, zero, probe);
    hn::StoreU(x, f32, row + d);
  }
  for (; d < length; ++d) {
    row[d] *= factors == nullptr ? factor : factors[d];
    probe = hn::MulAdd(hn::Set(f32, row[d]), zero, probe);
  }
  return probe;
}

inline void read_query_codes(const core::Problem& problem, std::int64_t batch, std::int64_t head,
                             std::int64_t query, float* to) {
  const std::size_t dim = static_cast<std::size_t>(problem.dim);
  decode_row(problem.dtype,
             static_cast<const Code*>(problem.query.data) + problem.query.offset(batch, head, query), dim,
             to);
  scale_row(to, dim, problem.scales.query.at(batch, head, query, 0), nullptr, hn::Zero(F()));
}

// All K or all V rows of a head.
class CodeRows {
 public:
  static CodeRows keys(const core::Problem& problem, const Item& item) {
    return {problem, problem.kv.key, problem.scales.key, item, problem.dim, 1};
  }
  static CodeRows values(const core::Problem& problem, const Item& item) {
    return {problem, problem.kv.value,  problem.scales.value,
            item,    problem.value_dim, problem.kv.value_column_stride};
  }

  const Rows& rows() const { return rows_; }
  // What a prefetch of a row asks for; the bytes of a transposed one lie in as many lines.
  std::int64_t row_bytes() const { return column_stride_ == 1 ? static_cast<std::int64_t>(length_) : 0; }

  // `count` rows from key number `first` on. Returns what they hold (RowsHold).
  HWY_NOINLINE unsigned read(std::int64_t first, std::size_t count, float* to, std::size_t to_stride) const {
    if (column_stride_ == 1) {
      for (std::size_t j = 0; j < count; ++j) {
        const char* const row = rows_.row(first + static_cast<std::int64_t>(j));
        decode_row(dtype_, reinterpret_cast<const Code*>(row), length_, to + j * to_stride);
      }
    } else {
      read_transposed(first, count, to, to_stride);
    }
    Vec probe = hn::Zero(F());  // turns NaN with the first element that is not finite
    float factors[TESSERA_MAX_HEAD_DIM];
    std::int64_t outer_of_factors = -1;
    for (std::size_t j = 0; j < count; ++j) {
      const Stored at = stored(first + static_cast<std::int64_t>(j));
      float* const row = to + j * to_stride;
      if (scales_.channel_stride == 0) {
        probe = scale_row(row, length_, scales_.at(at.outer, kv_head_, at.row, 0), nullptr, probe);
        continue;
      }
      if (at.outer != outer_of_factors) {
        for (std::size_t d = 0; d < length_; ++d)
          factors[d] = scales_.at(at.outer, kv_head_, at.row, static_cast<std::int64_t>(d));
        outer_of_factors = at.outer;
      }
      probe = scale_row(row, length_, 1.0f, factors, probe);
    }
    return all_finite(probe) ? kNothingSpecial : kNotFinite;
  }

 private:
  CodeRows(const core::Problem& problem, const core::Tensor4& tensor, const core::Scales& scales,
           const Item& item, std::int64_t length, std::int64_t column_stride)
      : rows_(problem.kv, tensor, item, sizeof(Code)),
        pages_(problem.kv.pages),
        scales_(scales),
        dtype_(problem.dtype),
        batch_(item.batch),
        kv_head_(item.kv_head),
        column_stride_(column_stride),
        length_(static_cast<std::size_t>(length)) {}

  struct Stored {
    std::int64_t outer, row;
  };
  // As Rows finds it.
  Stored stored(std::int64_t key) const {
    if (!pages_) return {batch_, key};
    const std::int64_t page = pages_.page(0, key / pages_.rows);
    return {pages_.has(page) ? page : 0, key % pages_.rows};
  }

  // Column by column: so the keys that share a line are read from it together.
  void read_transposed(std::int64_t first, std::size_t count, float* to, std::size_t to_stride) const {
    const std::array<float, 256>& values =
        dtype_ == TESSERA_F8E4M3 ? code_values<E4M3>() : code_values<E5M2>();
    const Code* from[kMaxKeyTile];
    for (std::size_t done = 0; done < count;) {
      const std::size_t some = std::min<std::size_t>(count - done, kMaxKeyTile);
      rows_.put(first + static_cast<std::int64_t>(done), static_cast<std::int64_t>(some), from);
      float* const at = to + done * to_stride;
      for (std::size_t d = 0; d < length_; ++d) {
        const std::int64_t column = static_cast<std::int64_t>(d) * column_stride_;
        for (std::size_t j = 0; j < some; ++j) at[j * to_stride + d] = values[from[j][column].bits];
      }
      done += some;
    }
  }

  Rows rows_;
  core::PageTable pages_;
  core::Scales scales_;
  tessera_dtype dtype_;
  std::int64_t batch_, kv_head_;
  std::int64_t column_stride_;
  std::size_t length_;
};

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
