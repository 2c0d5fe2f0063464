#include "emulator/conformance/values.hpp"

#include <bit>
#include <iterator>

namespace emulator::conformance {
namespace {

constexpr std::uint32_t kFloats[] = {
    0x00000000, 0x80000000,                                                              // zeros
    0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x00400000,  // around subnormal
    0x3f800000, 0xbf800000, 0x3f800001, 0x3f7fffff, 0x40000000, 0x3f000000, 0xbf000000,  // around one
    0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001,
    0x7fffffff,  // large
    0x4effffff, 0x4f000000, 0xcf000000, 0xcf000001, 0x4f7fffff, 0x4f800000, 0x5f000000,
    0x5f800000,                                                              // integers
    0x3fc00000, 0x40200000, 0xbfc00000, 0x4b000001, 0x4affffff,              // halves between integers
    0x477fe000, 0x477fefff, 0x477ff000, 0x33000000, 0x33000001, 0x38800000,  // ends of f16
    0x387fe000, 0x387ff000, 0x3f801000, 0x3f803000, 0x3f808000, 0x3f818000, 0x7f7f8000, 0x7f7f7fff,
    0x42fe0000, 0x43000000, 0xc2fc0000, 0xc2fc0001, 0xc3150000, 0xc3160000, 0xc3180000};
constexpr std::uint16_t kHalves[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x8400, 0x3c00,
                                     0xbc00, 0x3c01, 0x3bff, 0x4000, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
                                     0x7e00, 0x7c01, 0xfe00, 0x7fff, 0x2c00, 0x1400, 0x6400, 0x0200};
constexpr std::uint16_t kBfloats[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x0080, 0x8080, 0x3f80,
                                      0xbf80, 0x3f81, 0x3f7f, 0x4000, 0x7f7f, 0xff7f, 0x7f80, 0xff80,
                                      0x7fc0, 0x7f81, 0xffc0, 0x7fff, 0x3b80, 0x3880, 0x4380, 0x0040};
constexpr std::uint64_t kIntegers[] = {0,
                                       1,
                                       2,
                                       3,
                                       7,
                                       8,
                                       15,
                                       16,
                                       31,
                                       32,
                                       33,
                                       63,
                                       64,
                                       65,
                                       127,
                                       128,
                                       255,
                                       256,
                                       0x7fff,
                                       0x8000,
                                       0xffff,
                                       0x10000,
                                       0x7fffffff,
                                       0x80000000,
                                       0x80000001,
                                       0xfffffffe,
                                       0xffffffff,
                                       0x100000000,
                                       0x7fffffffffffffff,
                                       0x8000000000000000,
                                       0xffffffffffffffff,
                                       0xfffffffffffffffe,
                                       0xffffffff80000000};

template <class T, std::size_t n>
T pick(Random& random, const T (&from)[n]) {
  return from[random.below(static_cast<unsigned>(n))];
}

// A float of 2^-8 to 2^8, sign and fraction random; sometimes few bits of it, so that ties come up.
std::uint32_t ordinary_float(Random& random) {
  const auto bits = static_cast<std::uint32_t>(random.next());
  const std::uint32_t fraction = random.below(3) == 0 ? bits & 0x007ff000u : bits & 0x007fffffu;
  return (bits & 0x80000000u) | (119u + random.below(17)) << 23 | fraction;
}
std::uint32_t any_float(Random& random) {
  switch (random.below(8)) {
    case 0:
    case 1:
      return pick(random, kFloats);
    case 2:
      return static_cast<std::uint32_t>(random.next());
    case 3:
      return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(random.below(4000)) - 2000) /
                                          2);
    default:
      return ordinary_float(random);
  }
}
std::uint32_t any_half(Random& random, bool bfloat) {
  switch (random.below(4)) {
    case 0:
      return bfloat ? pick(random, kBfloats) : pick(random, kHalves);
    case 1:
      return static_cast<std::uint32_t>(random.next()) & 0xffffu;
    default:
      return element(random, bfloat, 0);
  }
}
// A number of 8-bit floats, halfway between two, or one next to it; beyond both ends, too.
std::uint32_t float_near_8(Random& random) {
  if (random.below(4) == 0) return any_float(random);
  const auto sign = static_cast<std::uint32_t>(random.next()) & 0x80000000u;
  const std::uint32_t tie = (106 + random.below(39)) << 23 | random.below(16) << 19;
  return sign | (tie + random.below(3) - 1);
}
std::uint32_t half_near_8(Random& random) {
  if (random.below(4) == 0) return any_half(random, false);
  const auto sign = static_cast<std::uint32_t>(random.next()) & 0x8000u;
  const std::uint32_t tie = 1 + (random.below(31) << 10 | random.below(16) << 6);
  return sign | (tie + random.below(3) - 1);
}
std::uint64_t any_double(Random& random) {
  const std::uint64_t bits = random.next();
  switch (random.below(4)) {
    case 0:
      return std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(pick(random, kFloats))));
    case 1:
      return bits;
    case 2:
      return std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(ordinary_float(random))));
    default:
      return (bits & 0x800fffffffffffffu) | std::uint64_t{1015 + random.below(17)} << 52;
  }
}
std::uint64_t any_integer(Random& random) {
  switch (random.below(4)) {
    case 0:
      return pick(random, kIntegers);
    case 1:
      return random.below(72);
    case 2:
      return random.next() >> random.below(64);
    default:
      return random.next();
  }
}

}  // namespace

Kind kind_of(std::string_view form) {
  const auto has = [&](std::string_view part) { return form.find(part) != std::string_view::npos; };
  // Conversions end with the type that they take.
  const std::string_view last = form.substr(form.rfind('.') + 1);
  if (form.substr(0, 4) == "cvt.") {
    if (has(".e4m3x2") || has(".e5m2x2"))
      return last == "f32" ? Kind::f32_to_8 : last == "f16x2" ? Kind::f16_pair_to_8 : Kind::bits;
    if (last == "f16") return Kind::f16;
    if (last == "bf16") return Kind::bf16;
    if (last == "f32") return Kind::f32;
    return last == "f64" ? Kind::f64 : Kind::integer;
  }
  if (has(".bf16x2")) return Kind::bf16_pair;
  if (has(".f16x2")) return Kind::f16_pair;
  if (has(".bf16")) return Kind::bf16;
  if (has(".f16")) return Kind::f16;
  if (has(".f32")) return Kind::f32;
  return has(".f64") ? Kind::f64 : Kind::integer;
}

std::uint64_t operand(Random& random, Kind kind, char letter) {
  if (letter == 'p') return random.below(2);
  std::uint64_t value = 0;
  switch (kind) {
    case Kind::integer:
      value = any_integer(random);
      break;
    case Kind::f16:
    case Kind::bf16:
      value = any_half(random, kind == Kind::bf16);
      break;
    case Kind::f16_pair:
    case Kind::bf16_pair:
      value = any_half(random, kind == Kind::bf16_pair);
      value |= std::uint64_t{any_half(random, kind == Kind::bf16_pair)} << 16;
      break;
    case Kind::f32:
      value = any_float(random);
      break;
    case Kind::f64:
      value = any_double(random);
      break;
    case Kind::f32_to_8:
      value = float_near_8(random);
      break;
    case Kind::f16_pair_to_8:
      value = half_near_8(random);
      value |= std::uint64_t{half_near_8(random)} << 16;
      break;
    case Kind::bits:
      value = random.next();
      break;
  }
  return letter == 'h' ? value & 0xffffu : letter == 'w' ? value & 0xffffffffu : value;
}

std::uint16_t element(Random& random, bool bfloat, unsigned flavour) {
  const auto bits = static_cast<std::uint32_t>(random.next());
  const unsigned bias = bfloat ? 127 : 15, shift = bfloat ? 7 : 10;
  const auto make = [&](unsigned exponent) {
    return static_cast<std::uint16_t>((bits & 0x8000u) | exponent << shift | (bits & ((1u << shift) - 1)));
  };
  if (random.below(16) == 0) return static_cast<std::uint16_t>(bits & 0x8000u);
  switch (flavour) {
    case 2:
      return make(bfloat ? 100 + random.below(55) : random.below(31));
    case 3:
      return make(bfloat ? random.below(random.below(2) == 0 ? 3 : 70) : random.below(3));
    case 4:
      if (random.below(64) == 0) return bfloat ? pick(random, kBfloats) : pick(random, kHalves);
      return make(bias - 4 + random.below(6));
    case 5:
      return static_cast<std::uint16_t>(bits >> 16);
    case 6:
      if (random.below(4) != 0) return static_cast<std::uint16_t>(bits & 0x8000u);
      return static_cast<std::uint16_t>((bits & 0x8000u) | (bias - 1 + random.below(3)) << shift);
    default:
      return make(bias - 4 + random.below(6));
  }
}

std::uint32_t accumulator(Random& random, unsigned flavour) {
  const auto bits = static_cast<std::uint32_t>(random.next());
  const auto make = [&](unsigned exponent) { return (bits & 0x807fffffu) | exponent << 23; };
  switch (flavour) {
    case 0:
      return random.below(4) == 0 ? 0u : make(121 + random.below(10));
    case 1:
      return make(127 + random.below(20));
    case 2:
      return make(80 + random.below(90));
    case 3:
      return random.below(2) == 0 ? make(random.below(30)) : make(80 + random.below(30));
    case 4:
      return random.below(64) == 0 ? pick(random, kFloats) : make(121 + random.below(10));
    case 6:
      return random.below(2) == 0 ? bits & 0x80000000u : (bits & 0x80000000u) | (126 + random.below(3)) << 23;
    default:
      return bits;
  }
}

}  // namespace emulator::conformance
