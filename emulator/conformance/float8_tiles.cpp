#include "emulator/conformance/float8_tiles.hpp"

#include <cstring>

#include "emulator/conformance/values.hpp"

namespace emulator::conformance {
namespace {

// An 8-bit format: fraction bits, the exponent of the smallest normal number, and of the largest.
struct Format {
  bool is_e5m2;
  unsigned fraction() const { return is_e5m2 ? 2 : 3; }
  int least() const { return is_e5m2 ? -14 : -6; }
  int most() const { return is_e5m2 ? 15 : 8; }
  bool is_special(unsigned code) const { return (code & 0x7fu) >= (is_e5m2 ? 0x7cu : 0x7fu); }

  // 2^exponent with a fraction where there is room for one; the smallest subnormal where it is below all.
  std::uint8_t number(int exponent, unsigned bits, bool negative) const {
    const int subnormal = exponent - (least() - static_cast<int>(fraction()));
    unsigned code = 1;
    if (exponent >= least())
      code = static_cast<unsigned>(exponent - least() + 1) << fraction() | (bits & ((1u << fraction()) - 1));
    else if (subnormal > 0)
      code = 1u << subnormal;
    if (is_special(code)) code = is_e5m2 ? 0x7b : 0x7e;
    return static_cast<std::uint8_t>(code | (negative ? 0x80u : 0u));
  }
};

constexpr unsigned kSubnormal = 10, kFarApart = 2;
constexpr std::uint8_t kSpecialE4m3[] = {0x00, 0x80, 0x01, 0x87, 0x08, 0x7e, 0xfe, 0x7f, 0xff};
constexpr std::uint8_t kSpecialE5m2[] = {0x00, 0x80, 0x01, 0x83, 0x04, 0x7b, 0xfb, 0x7c, 0xfc, 0x7d, 0xff};

std::uint8_t element(Random& random, Format format, unsigned flavour) {
  const auto bits = static_cast<unsigned>(random.next() & 0xffu);
  const bool negative = (bits & 0x80u) != 0;
  if (random.below(16) == 0) return static_cast<std::uint8_t>(bits & 0x80u);
  switch (flavour) {
    case 2:
      return format.number(format.least() + static_cast<int>(random.below(
                                                static_cast<unsigned>(format.most() - format.least() + 1))),
                           bits, negative);
    case 3:
    case kSubnormal:
      return static_cast<std::uint8_t>((bits & 0x80u) |
                                       random.below((flavour == 3 ? 3u : 1u) << format.fraction()));
    case 4:
      if (random.below(64) == 0)
        return format.is_e5m2 ? kSpecialE5m2[random.below(11)] : kSpecialE4m3[random.below(9)];
      break;
    case 5:
      if (format.is_special(bits) && random.below(8) != 0) return static_cast<std::uint8_t>(bits ^ 0x40u);
      return static_cast<std::uint8_t>(bits);
    case 6:
      if (random.below(4) != 0) return static_cast<std::uint8_t>(bits & 0x80u);
      return format.number(static_cast<int>(random.below(3)) - 1, 0, negative);
    default:
      break;
  }
  return format.number(static_cast<int>(random.below(6)) - 4, bits, negative);
}

// A row with one large number, or two, and small ones; all positive, all negative, or both.
void fill_row(Random& random, Format format, bool cancels, std::uint8_t* row) {
  const int most = format.most() - static_cast<int>(random.below(3));
  const int small = most - 6 - static_cast<int>(random.below(15));
  const unsigned signs = random.below(3);
  for (unsigned k = 0; k < 32; ++k) {
    const auto bits = static_cast<unsigned>(random.next());
    row[k] =
        format.number(small, random.below(2) == 0 ? 0 : bits, signs == 2 ? (bits & 8u) != 0 : signs == 1);
  }
  const unsigned first = random.below(32), second = (first + 1 + random.below(31)) % 32;
  const unsigned bits = random.below(8);
  const bool negative = random.below(2) != 0;
  row[first] = format.number(most, bits, negative);
  if (cancels) row[second] = format.number(most, bits, !negative);
}

// A column of ones at places of which hardware might make groups, zeros elsewhere; every fourth number
// anyway, so that large ones are often among them.
void fill_column(Random& random, Format format, unsigned column, std::uint8_t* to) {
  const int exponent = static_cast<int>(random.below(3)) - 1;
  for (unsigned k = 0; k < 32; ++k) {
    const bool inside[8] = {true,      k < 16,    k >= 16, k % 2 == 0,
                            k % 4 < 2, k % 8 < 4, true,    random.below(2) == 0};
    const bool negative = column % 8 >= 6 && random.below(2) == 0;
    to[k] = inside[column % 8] || random.below(8) == 0 ? format.number(exponent, 0, negative) : 0;
  }
}

std::uint32_t wide_accumulator(Random& random, int least, unsigned range) {
  const auto bits = static_cast<std::uint32_t>(random.next());
  if (random.below(4) == 0) return 0;
  return (bits & 0x807fffffu) |
         static_cast<std::uint32_t>(127 + least + static_cast<int>(random.below(range))) << 23;
}

}  // namespace

std::uint32_t Tile8::word(const std::uint8_t* four) {
  std::uint32_t out;
  std::memcpy(&out, four, 4);
  return out;
}

Tile8 make_tile(Random& random, Kinds8 kinds, unsigned rows, unsigned columns, unsigned flavour) {
  Tile8 out{rows,
            columns,
            std::vector<std::uint8_t>(std::size_t{rows} * 32),
            std::vector<std::uint8_t>(std::size_t{columns} * 32),
            {}};
  const Format a{kinds.a_is_e5m2}, b{kinds.b_is_e5m2};
  if (flavour == 7 || flavour == 8) {
    for (unsigned i = 0; i < rows; ++i) fill_row(random, a, flavour == 8, &out.a[i * 32]);
    for (unsigned i = 0; i < columns; ++i) fill_column(random, b, i, &out.b[i * 32]);
  } else {
    const unsigned subnormal = flavour == kSubnormal ? 1 + random.below(2) : 0;
    for (auto& x : out.a) x = element(random, a, subnormal == 2 ? kFarApart : flavour);
    for (auto& x : out.b) x = element(random, b, subnormal == 1 ? kFarApart : flavour);
  }
  for (unsigned i = 0; i < rows * columns; ++i)
    out.c.push_back(flavour == kSubnormal ? wide_accumulator(random, a.least() + b.most() - 20, 20)
                    : flavour == 9        ? wide_accumulator(random, -24, 49)
                    : flavour >= 7        ? wide_accumulator(random, a.most() - 22, 24)
                                          : accumulator(random, flavour));
  return out;
}

}  // namespace emulator::conformance
