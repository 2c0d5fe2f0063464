// Rows of 8-bit codes as floats, each times its scale. The conversion is exact; the product with the scale is
// rounded once, and from there on every kernel works as for floats. So do keys that lie in two tensors, of
// which the first may be of codes: their rows are put together here.
#if defined(TESSERA_CPU_CODES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_CODES_INL
#undef TESSERA_CPU_CODES_INL
#else
#define TESSERA_CPU_CODES_INL
#endif

#include <algorithm>

#include "cpu/decode-inl.hpp"
#include "cpu/rows.hpp"
#include "cpu/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// What a row is multiplied by: one factor, or one for each column.
struct RowScale {
  float factor = 1.0f;
  const float* factors = nullptr;  // null: all the same
};

// Returns a probe as convert_row does.
template <class Format>
HWY_INLINE Vec read_row(const Code* HWY_RESTRICT from, std::size_t length, const RowScale& scale,
                        float* HWY_RESTRICT to, Vec probe) {
  const F f32;
  const Vec zero = hn::Zero(f32), factor = hn::Set(f32, scale.factor);
  std::size_t d = 0;
  if (scale.factors == nullptr) {
    for (; d + kLanes <= length; d += kLanes) {
      const Vec x = hn::Mul(decode<Format>(from + d), factor);
      probe = hn::MulAdd(x, zero, probe);
      hn::StoreU(x, f32, to + d);
    }
  } else {
    for (; d + kLanes <= length; d += kLanes) {
      const Vec x = hn::Mul(decode<Format>(from + d), load(scale.factors + d));
      probe = hn::MulAdd(x, zero, probe);
      hn::StoreU(x, f32, to + d);
    }
  }
  for (; d < length; ++d) {
    to[d] =
        code_values<Format>()[from[d].bits] * (scale.factors == nullptr ? scale.factor : scale.factors[d]);
    probe = hn::MulAdd(hn::Set(f32, to[d]), zero, probe);
  }
  return probe;
}

// A row, or a part of one, that is no codes; it may begin anywhere. Returns a probe as convert_row does.
template <class T>
HWY_INLINE Vec read_wide(const T* HWY_RESTRICT from, std::size_t length, float* HWY_RESTRICT to, Vec probe) {
  const F f32;
  const Vec zero = hn::Zero(f32);
  std::size_t d = 0;
  for (; d + kLanes <= length; d += kLanes) {
    const Vec x = load(from + d);
    probe = hn::MulAdd(x, zero, probe);
    hn::StoreU(x, f32, to + d);
  }
  for (; d < length; ++d) {
    to[d] = to_float(from[d]);
    probe = hn::MulAdd(hn::Set(f32, to[d]), zero, probe);
  }
  return probe;
}
// The same of rows by their addresses.
inline HWY_NOINLINE Vec read_wide_rows(tessera_dtype dtype, const Rows& rows, std::int64_t first,
                                       std::size_t count, std::size_t length, float* to,
                                       std::size_t to_stride, Vec probe) {
  for (std::size_t j = 0; j < count; ++j, to += to_stride) {
    const char* const row = rows.row(first + static_cast<std::int64_t>(j));
    if (dtype == TESSERA_F16) {
      probe = read_wide(reinterpret_cast<const F16*>(row), length, to, probe);
    } else if (dtype == TESSERA_BF16) {
      probe = read_wide(reinterpret_cast<const BF16*>(row), length, to, probe);
    } else {
      probe = read_wide(reinterpret_cast<const float*>(row), length, to, probe);
    }
  }
  return probe;
}

// The same of a row that is there as floats already.
HWY_INLINE Vec scale_row(float* HWY_RESTRICT row, std::size_t length, const RowScale& scale, Vec probe) {
  const F f32;
  const Vec zero = hn::Zero(f32), factor = hn::Set(f32, scale.factor);
  std::size_t d = 0;
  for (; d + kLanes <= length; d += kLanes) {
    const Vec x = hn::Mul(load(row + d), scale.factors == nullptr ? factor : load(scale.factors + d));
    probe = hn::MulAdd(x, zero, probe);
    hn::StoreU(x, f32, row + d);
  }
  for (; d < length; ++d) {
    row[d] *= scale.factors == nullptr ? scale.factor : scale.factors[d];
    probe = hn::MulAdd(hn::Set(f32, row[d]), zero, probe);
  }
  return probe;
}

// Calls body with a format's tag.
template <class Body>
HWY_INLINE void with_format(tessera_dtype dtype, Body body) {
  if (dtype == TESSERA_F8E4M3) {
    body(E4M3{});
  } else if (dtype == TESSERA_F8E5M2) {
    body(E5M2{});
  } else {
    body(I8{});
  }
}

template <class T>
HWY_INLINE void read_query_as(const core::Problem& problem, std::int64_t at, float* to) {
  convert_row(static_cast<const T*>(problem.query.data) + at, static_cast<std::size_t>(problem.dim), to,
              hn::Zero(F()));
}

// The query of problems whose keys are codes: these too, or wider.
inline HWY_NOINLINE void read_query(const core::Problem& problem, std::int64_t batch, std::int64_t head,
                                    std::int64_t query, float* to) {
  const std::int64_t at = problem.query.offset(batch, head, query);
  switch (problem.dtype) {
    case TESSERA_F32:
      return read_query_as<float>(problem, at, to);
    case TESSERA_F16:
      return read_query_as<F16>(problem, at, to);
    case TESSERA_BF16:
      return read_query_as<BF16>(problem, at, to);
    default:
      with_format(problem.dtype, [&](auto format) HWY_ATTR {
        read_row<decltype(format)>(static_cast<const Code*>(problem.query.data) + at,
                                   static_cast<std::size_t>(problem.dim),
                                   {problem.scales.query.at(batch, head, query, 0)}, to, hn::Zero(F()));
      });
  }
}

// All K or all V rows of a head, of codes or, beside a tail, of what the query has.
class CodeRows {
 public:
  static CodeRows keys(const core::Problem& problem, const Item& item) {
    CodeRows rows(problem, problem.kv.key, problem.scales.key, item, problem.key_dim(), 1);
    rows.tail_ = Rows(problem.kv, problem.kv.tail, item, core::dtype_size(problem.dtype));
    rows.tail_dtype_ = problem.dtype;
    rows.tail_length_ = static_cast<std::size_t>(problem.kv.tail_dim);
    return rows;
  }
  static CodeRows values(const core::Problem& problem, const Item& item) {
    return {problem, problem.kv.value,  problem.scales.value,
            item,    problem.value_dim, problem.kv.value_column_stride};
  }

  const Rows& rows() const { return rows_; }
  // What a prefetch of a row asks for; the bytes of a transposed one lie in as many lines.
  std::int64_t row_bytes() const {
    return column_stride_ == 1 ? static_cast<std::int64_t>(length_) * core::dtype_size(dtype_) : 0;
  }

  // `count` rows from key number `first` on. Returns what they hold (RowsHold).
  HWY_NOINLINE unsigned read(std::int64_t first, std::size_t count, float* to, std::size_t to_stride) const {
    Vec probe = hn::Zero(F());  // turns NaN with the first element that is not finite
    Factors factors{*this};
    if (!core::is_8_bit(dtype_)) {
      probe = read_wide_rows(dtype_, rows_, first, count, length_, to, to_stride, probe);
    } else if (column_stride_ == 1) {
      with_format(dtype_, [&](auto format) HWY_ATTR {
        for (std::size_t j = 0; j < count; ++j) {
          const std::int64_t key = first + static_cast<std::int64_t>(j);
          probe = read_row<decltype(format)>(reinterpret_cast<const Code*>(rows_.row(key)), length_,
                                             factors.of(stored(key)), to + j * to_stride, probe);
        }
      });
    } else {
      read_transposed(first, count, to, to_stride);
      for (std::size_t j = 0; j < count; ++j) {
        const std::int64_t key = first + static_cast<std::int64_t>(j);
        probe = scale_row(to + j * to_stride, length_, factors.of(stored(key)), probe);
      }
    }
    if (tail_length_ > 0)
      probe = read_wide_rows(tail_dtype_, tail_, first, count, tail_length_, to + length_, to_stride, probe);
    return all_finite(probe) ? kNothingSpecial : kNotFinite;
  }

  // Whether codes can be read where they are: a row's lie side by side, all of them in one tensor, and
  // channels have the same scales in every page.
  bool in_place() const {
    return column_stride_ == 1 && tail_length_ == 0 &&
           (scales_.channel_stride == 0 || scales_.outer_stride == 0 || !pages_);
  }
  // The scales of rows, one each.
  void put_scales(std::int64_t first, std::size_t count, float* to) const {
    if (!pages_ && scales_.block_stride == 0) {
      std::fill(to, to + count, scales_.at(batch_, kv_head_, 0, 0));
      return;
    }
    for (std::size_t j = 0; j < count; ++j) {
      const Stored at = stored(first + static_cast<std::int64_t>(j));
      to[j] = scales_.at(at.outer, kv_head_, at.row, 0);
    }
  }
  // The scales of channels, or null where there are none of them. `room`: for those that lie apart.
  const float* channels(float* room) const {
    if (scales_.channel_stride == 0) return nullptr;
    for (std::size_t d = 0; d < length_; ++d)
      room[d] = scales_.at(pages_ ? 0 : batch_, kv_head_, 0, static_cast<std::int64_t>(d));
    return room;
  }

 private:
  CodeRows(const core::Problem& problem, const core::Tensor4& tensor, const core::Scales& scales,
           const Item& item, std::int64_t length, std::int64_t column_stride)
      : rows_(problem.kv, tensor, item, core::dtype_size(problem.kv.dtype)),
        tail_(rows_),
        pages_(problem.kv.pages),
        scales_(scales),
        dtype_(problem.kv.dtype),
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

  // The scales of rows, one after the other.
  struct Factors {
    const CodeRows& rows;
    std::int64_t outer = -1;  // of the channels' scales that are in `copied`
    float copied[TESSERA_MAX_HEAD_DIM];

    explicit Factors(const CodeRows& of) : rows(of) {}
    HWY_INLINE RowScale of(Stored at) {
      const core::Scales& scales = rows.scales_;
      if (scales.channel_stride == 0) return {scales.at(at.outer, rows.kv_head_, at.row, 0)};
      if (scales.channel_stride == 1)
        return {1.0f, scales.data + at.outer * scales.outer_stride + rows.kv_head_ * scales.head_stride};
      if (at.outer != outer) {
        outer = at.outer;
        for (std::size_t d = 0; d < rows.length_; ++d)
          copied[d] = scales.at(outer, rows.kv_head_, at.row, static_cast<std::int64_t>(d));
      }
      return {1.0f, copied};
    }
  };

  // Column by column: so the keys that share a line are read from it together.
  void read_transposed(std::int64_t first, std::size_t count, float* to, std::size_t to_stride) const {
    const float* values = nullptr;
    with_format(dtype_, [&](auto format) { values = code_values<decltype(format)>().data(); });
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

  Rows rows_, tail_;
  tessera_dtype tail_dtype_ = 0;
  std::size_t tail_length_ = 0;  // 0: there is none
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
