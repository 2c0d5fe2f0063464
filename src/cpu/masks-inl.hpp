// The mask tensor's part of one panel and tile, looked at before any score is computed: what no row sees need
// not be computed, what every row sees need not be masked.
//
//   boolean    32 keys of a row become the bits of a word, bits[key / 32][row]; a vector of words holds one
//              row per lane, as a vector of scores does, so that testing a bit hides a key: no transposing
//   additive   transposed to bias[key][row]
#if defined(TESSERA_CPU_MASKS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_MASKS_INL
#undef TESSERA_CPU_MASKS_INL
#else
#define TESSERA_CPU_MASKS_INL
#endif

#include <algorithm>
#include <bit>

#include "core/problem.hpp"
#include "cpu/panel.hpp"
#include "cpu/schedule.hpp"
#include "cpu/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// The keys of one panel and tile: `keys` of them, the first is key number key0.
struct Range {
  std::int64_t key0;
  std::size_t keys;
};

// What was found. begin ... end are the keys, counted from the first of the range, outside of which the mask
// hides everything; the two are equal where it hides all. bits or bias is what was gathered.
struct MaskLook {
  std::size_t begin = 0, end = 0;
  bool open = true;  // a boolean mask hides none of them
  const std::uint32_t* bits = nullptr;
  const float* bias = nullptr;
};

inline constexpr std::size_t kMaskWord = 32;  // keys in a word

// 32 mask bytes as bits, the first one lowest.
HWY_INLINE std::uint32_t word_of(const std::uint8_t* bytes) {
  std::uint32_t word = 0;
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = 0; i < kMaskWord; ++i) word |= static_cast<std::uint32_t>(bytes[i] != 0) << i;
#else
  const hn::CappedTag<std::uint8_t, kMaskWord> u8;
  std::uint8_t parts[kMaskWord / 8];
  for (std::size_t i = 0; i < kMaskWord; i += hn::Lanes(u8)) {
    hn::StoreMaskBits(u8, hn::Ne(hn::LoadU(u8, bytes + i), hn::Zero(u8)), parts + i / 8);
  }
  for (std::size_t i = 0; i < kMaskWord / 8; ++i) word |= std::uint32_t{parts[i]} << 8 * i;
#endif
  return word;
}

// The lowest `count` bits set; count is 1 ... 32.
HWY_INLINE std::uint32_t low_bits(std::size_t count) { return ~std::uint32_t{0} >> (kMaskWord - count); }

// Columns column ... column + count of a mask row with `columns` of them. A word that would end behind the
// row is taken from further left instead, so that nothing outside is read. What stands before the first
// column is visible.
HWY_INLINE std::uint32_t row_word(const std::uint8_t* row, std::int64_t stride, std::int64_t columns,
                                  std::int64_t column, std::size_t count) {
  constexpr std::int64_t kWord = kMaskWord;
  std::uint32_t word = 0;
  std::size_t before = 0;
  if (column < 0) {
    before = static_cast<std::size_t>(std::min(-column, static_cast<std::int64_t>(count)));
    word = low_bits(before);
    if (before == count) return word;
    count -= before;
    column = 0;
  }
  if (stride == 1 && columns >= kWord) {
    const std::int64_t from = std::min(column, columns - kWord);
    return word | (word_of(row + from) >> (column - from) & low_bits(count)) << before;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const bool visible = row[(column + static_cast<std::int64_t>(i)) * stride] != 0;
    word |= static_cast<std::uint32_t>(visible) << (before + i);
  }
  return word;
}

template <int NV>
HWY_NOINLINE MaskLook look_boolean(const core::Problem& problem, const Panel& panel, Range range,
                                   std::uint32_t* bits) {
  constexpr std::size_t kMaxWords = (kMaxKeyTile + kMaskWord - 1) / kMaskWord;
  const core::MaskTensor& mask = problem.visibility.mask;
  const auto* const data = static_cast<const std::uint8_t*>(mask.data);
  const std::size_t words = (range.keys + kMaskWord - 1) / kMaskWord;
  std::uint32_t all[kMaxWords];
  MaskLook found{range.keys, 0, true, bits, nullptr};
  for (std::size_t w = 0; w < words; ++w) {
    const std::size_t at = w * kMaskWord, count = std::min(kMaskWord, range.keys - at);
    const std::int64_t column = range.key0 + static_cast<std::int64_t>(at) - panel.mask_key;
    std::uint32_t* const to = bits + w * kWidth<NV>;
    std::uint32_t any = 0;
    all[w] = ~std::uint32_t{0};
    for (int r = 0; r < panel.rows; ++r) {
      // Heads of a group and broadcast queries share a mask row.
      const bool same = r > 0 && panel.mask_offset[r] == panel.mask_offset[r - 1];
      to[r] = same ? to[r - 1]
                   : row_word(data + panel.mask_offset[r], mask.strides[3], mask.columns, column, count);
      any |= to[r];
      all[w] &= to[r];
    }
    std::fill(to + panel.rows, to + kWidth<NV>, 0);
    if (any == 0) continue;
    found.begin = std::min(found.begin, at + static_cast<std::size_t>(std::countr_zero(any)));
    found.end = at + kMaskWord - static_cast<std::size_t>(std::countl_zero(any));
  }
  if (found.begin >= found.end) return {0, 0, false, bits, nullptr};
  for (std::size_t w = found.begin / kMaskWord; w * kMaskWord < found.end; ++w) {
    const std::size_t at = w * kMaskWord;
    std::uint32_t inside = low_bits(std::min(kMaskWord, found.end - at));
    if (found.begin > at) inside &= ~low_bits(found.begin - at);
    found.open &= (all[w] & inside) == inside;
  }
  return found;
}

// Hides what the words of a boolean mask hide. Scores s begin with key `at` of the words.
template <int NV>
HWY_NOINLINE void hide_masked(const std::uint32_t* bits, std::size_t at, std::size_t keys, float* s,
                              Vec (&tile_max)[NV]) {
  const F f32;
  const hn::RebindToUnsigned<F> u32;
  const Vec minus_inf = hn::Set(f32, -kInf);
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) tile_max[v] = minus_inf;
  for (const std::size_t end = at + keys; at < end;) {
    const std::size_t stop = std::min(end, (at / kMaskWord + 1) * kMaskWord);
    hn::Vec<decltype(u32)> word[NV];
    TESSERA_UNROLL
    for (int v = 0; v < NV; ++v) {
      word[v] = hn::LoadU(u32, bits + at / kMaskWord * kWidth<NV> + static_cast<std::size_t>(v) * kLanes);
    }
    for (; at < stop; ++at, s += kWidth<NV>) {
      const auto bit = hn::Set(u32, std::uint32_t{1} << at % kMaskWord);
      TESSERA_UNROLL
      for (int v = 0; v < NV; ++v) {
        const auto visible = hn::RebindMask(f32, hn::TestBit(word[v], bit));
        const Vec x = hn::IfThenElse(visible, hn::Load(f32, s + v * kLanes), minus_inf);
        tile_max[v] = hn::Max(tile_max[v], x);
        hn::Store(x, f32, s + v * kLanes);
      }
    }
  }
}

// The bias of one row that all rows of the panel share. begin ... end as in MaskLook.
template <int NV, class T>
HWY_INLINE void spread_bias(const T* row, std::int64_t stride, std::size_t keys, float* bias,
                            MaskLook* found) {
  const F f32;
  for (std::size_t j = 0; j < keys; ++j, row += stride) {
    const float b = to_float(*row);
    TESSERA_UNROLL
    for (int v = 0; v < NV; ++v) hn::Store(hn::Set(f32, b), f32, bias + j * kWidth<NV> + v * kLanes);
    if (b == -kInf) continue;
    found->begin = std::min(found->begin, j);
    found->end = j + 1;
  }
}

// Element by element, for what the vectors leave over: keys from ... to.
template <int NV, class T>
HWY_INLINE void gather_bias(const T* data, std::int64_t stride, const Panel& panel, std::size_t from,
                            std::size_t to, float* bias, MaskLook* found) {
  for (std::size_t j = from; j < to; ++j) {
    bool seen = false;
    for (int r = 0; r < panel.rows; ++r) {
      const float b = to_float(data[panel.mask_offset[r] + static_cast<std::int64_t>(j) * stride]);
      bias[j * kWidth<NV> + r] = b;
      seen |= !(b == -kInf);
    }
    std::fill(bias + j * kWidth<NV> + panel.rows, bias + (j + 1) * kWidth<NV>, 0.0f);
    if (!seen) continue;
    found->begin = std::min(found->begin, j);
    found->end = j + 1;
  }
}

#if HWY_TARGET != HWY_SCALAR
// kLanes keys of the panel's rows, four rows at a time. Rows past the last one repeat it. Whether any is not
// hidden.
template <int NV, class T>
HWY_INLINE bool transpose_bias(const T* data, const Panel& panel, std::size_t j, float* bias) {
  const F f32;
  auto seen = hn::MaskFromVec(hn::Zero(f32));
  for (std::size_t r = 0; r < kWidth<NV>; r += 4) {
    Vec part[4];
    TESSERA_UNROLL
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t row = std::min(r + i, static_cast<std::size_t>(panel.rows) - 1);
      part[i] = load(data + panel.mask_offset[row] + j);
      seen = hn::Or(seen, hn::Ne(part[i], hn::Set(f32, -kInf)));
    }
    transpose_four(part[0], part[1], part[2], part[3], bias + j * kWidth<NV> + r, kWidth<NV>);
  }
  return !hn::AllFalse(f32, seen);
}
#endif

template <int NV, class T>
HWY_NOINLINE MaskLook look_additive(const core::MaskTensor& mask, const Panel& panel, Range range,
                                    float* bias) {
  const std::int64_t stride = mask.strides[3];
  MaskLook found{range.keys, 0, true, nullptr, bias};
  // Nothing is added to keys before the first column.
  const std::size_t all = range.keys;
  const std::int64_t before = std::max<std::int64_t>(panel.mask_key - range.key0, 0);
  const std::size_t skipped = std::min(static_cast<std::size_t>(before), all);
  std::fill(bias, bias + skipped * kWidth<NV>, 0.0f);
  bias += skipped * kWidth<NV>;
  range = {range.key0 + static_cast<std::int64_t>(skipped), all - skipped};
  const T* const data = static_cast<const T*>(mask.data) + (range.key0 - panel.mask_key) * stride;
  const std::int64_t* const offsets = panel.mask_offset;
  if (std::all_of(offsets, offsets + panel.rows, [&](std::int64_t x) { return x == offsets[0]; })) {
    spread_bias<NV>(data + offsets[0], stride, range.keys, bias, &found);
  } else {
    std::size_t j = 0;
#if HWY_TARGET != HWY_SCALAR
    for (; stride == 1 && j + kLanes <= range.keys; j += kLanes) {
      if (!transpose_bias<NV>(data, panel, j, bias)) continue;
      found.begin = std::min(found.begin, j);
      found.end = j + kLanes;
    }
#endif
    gather_bias<NV>(data, stride, panel, j, range.keys, bias, &found);
  }
  if (found.begin < found.end) {
    found.begin += skipped;
    found.end += skipped;
  }
  if (skipped > 0) found = {0, std::max(found.end, skipped), true, nullptr, found.bias};
  if (found.begin >= found.end) found.begin = found.end;
  return found;
}

// scratch: room for as many floats as there are scores.
template <int NV>
HWY_INLINE MaskLook look_at_mask(const core::Problem& problem, const Panel& panel, Range range,
                                 float* scratch) {
  const core::MaskTensor& mask = problem.visibility.mask;
  if (mask.kind == core::MaskKind::none) return {0, range.keys, true, nullptr, nullptr};
  if (mask.kind == core::MaskKind::boolean) {
    return look_boolean<NV>(problem, panel, range, reinterpret_cast<std::uint32_t*>(scratch));
  }
  if (mask.dtype == TESSERA_F32) return look_additive<NV, float>(mask, panel, range, scratch);
  if (mask.dtype == TESSERA_F16) return look_additive<NV, F16>(mask, panel, range, scratch);
  return look_additive<NV, BF16>(mask, panel, range, scratch);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
