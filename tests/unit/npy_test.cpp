// The .npy reader and writer: against files NumPy 2 wrote, byte for byte, and against files nobody should
// have written.
#include "cli/files/npy.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "cli/files/tensor.hpp"
#include "oracle/oracle.hpp"

namespace tessera::files {
namespace {

template <std::size_t N>
std::string literal(const char (&text)[N]) {
  return std::string(text, N - 1);
}

// What NumPy wrote; a = np.array([[1, 2, 3], [-4, 0.5, 6]]).
// clang-format off
// a.astype('<f4')
const std::string kF4V1 = literal(
    "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }                                                          \n"
    "\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80\xc0\x00\x00\x00?\x00\x00\xc0@");
// the same, version 2.0
const std::string kF4V2 = literal(
    "\x93NUMPY\x02\x00t\x00\x00\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }                                                        \n"
    "\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80\xc0\x00\x00\x00?\x00\x00\xc0@");
// the same, version 3.0
const std::string kF4V3 = literal(
    "\x93NUMPY\x03\x00t\x00\x00\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }                                                        \n"
    "\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80\xc0\x00\x00\x00?\x00\x00\xc0@");
// a.astype('<f2')
const std::string kF2 = literal(
    "\x93NUMPY\x01\x00v\x00{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }                                                          \n"
    "\x00<\x00@\x00""B\x00\xc4\x00""8\x00""F");
// a.astype('<f8')
const std::string kF8 = literal(
    "\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }                                                          \n"
    "\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x00@\x00\x00\x00\x00\x00\x00\x08@\x00\x00\x00\x00\x00\x00\x10\xc0\x00\x00\x00\x00\x00\x00\xe0?\x00\x00\x00\x00\x00\x00\x18@");
// a.astype('>f4')
const std::string kBigF4 = literal(
    "\x93NUMPY\x01\x00v\x00{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }                                                          \n"
    "?\x80\x00\x00@\x00\x00\x00@@\x00\x00\xc0\x80\x00\x00?\x00\x00\x00@\xc0\x00\x00");
// np.asfortranarray(a.astype('>f2'))
const std::string kBigF2Fortran = literal(
    "\x93NUMPY\x01\x00v\x00{'descr': '>f2', 'fortran_order': True, 'shape': (2, 3), }                                                           \n"
    "<\x00\xc4\x00@\x00""8\x00""B\x00""F\x00");
// np.asfortranarray(np.arange(12, dtype='<f4').reshape(2, 3, 2))
const std::string kF4Fortran3d = literal(
    "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 2), }                                                        \n"
    "\x00\x00\x00\x00\x00\x00\xc0@\x00\x00\x00@\x00\x00\x00""A\x00\x00\x80@\x00\x00 A\x00\x00\x80?\x00\x00\xe0@\x00\x00@@\x00\x00\x10""A\x00\x00\xa0@\x00\x00""0A");
// a.astype(ml_dtypes.bfloat16)
const std::string kBf16 = literal(
    "\x93NUMPY\x01\x00v\x00{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3), }                                                          \n"
    "\x80?\x00@@@\x80\xc0\x00?\xc0@");
// np.array([True, False, True])
const std::string kBool = literal(
    "\x93NUMPY\x01\x00v\x00{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }                                                            \n"
    "\x01\x00\x01");
// np.array([3, -1])
const std::string kI8 = literal(
    "\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }                                                            \n"
    "\x03\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff");
// np.float32(7)
const std::string kScalar = literal(
    "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (), }                                                              \n"
    "\x00\x00\xe0@");
// np.zeros((0, 3), '<f4')
const std::string kEmpty = literal(
    "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }                                                          \n"
    "");
// clang-format on

const std::vector<double> kValues = {1, 2, 3, -4, 0.5, 6};

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

// Parsed, settled, and every element as a number.
std::vector<double> numbers(const std::string& file) {
  std::string error;
  const std::optional<Array> array = parse_npy(bytes_of(file), &error);
  EXPECT_TRUE(array) << error;
  if (!array) return {};
  const Tensor tensor = settle(*array, nullptr, "test");
  std::vector<double> out;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    switch (tensor.element) {
      case Element::f64: {
        double value;
        std::memcpy(&value, tensor.bytes.data() + i * 8, sizeof value);
        out.push_back(value);
        break;
      }
      case Element::f32:
        out.push_back(oracle::load(tensor.bytes.data(), TESSERA_F32, i));
        break;
      case Element::f16:
        out.push_back(oracle::load(tensor.bytes.data(), TESSERA_F16, i));
        break;
      case Element::raw16:
        out.push_back(oracle::load(tensor.bytes.data(), TESSERA_BF16, i));
        break;
      default:
        ADD_FAILURE() << "element type " << element_name(tensor.element);
    }
  }
  return out;
}

std::string error_of(const std::string& file) {
  std::string error;
  EXPECT_FALSE(parse_npy(bytes_of(file), &error)) << "was accepted";
  return error;
}

// A file of any header text; `data` bytes of zeros behind it.
std::string file_with(const std::string& header, std::size_t data = 0, char major = 1) {
  std::string file = literal("\x93NUMPY") + major + '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + std::string(data, '\0');
}
std::string file_of(const std::string& descr, const std::string& shape, std::size_t data = 0) {
  return file_with("{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }\n", data);
}

#define EXPECT_ERROR(file, part) EXPECT_NE(error_of(file).find(part), std::string::npos) << error_of(file)

TEST(NpyRead, EveryVersion) {
  EXPECT_EQ(numbers(kF4V1), kValues);
  EXPECT_EQ(numbers(kF4V2), kValues);
  EXPECT_EQ(numbers(kF4V3), kValues);
}

TEST(NpyRead, EveryFloat) {
  EXPECT_EQ(numbers(kF2), kValues);
  EXPECT_EQ(numbers(kF8), kValues);
  EXPECT_EQ(numbers(kBf16), kValues);
}

TEST(NpyRead, ByteOrderAndFortranOrder) {
  EXPECT_EQ(numbers(kBigF4), kValues);
  EXPECT_EQ(numbers(kBigF2Fortran), kValues);
  EXPECT_EQ(numbers(kF4Fortran3d), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(NpyRead, ShapesOfEveryRank) {
  std::string error;
  EXPECT_EQ(parse_npy(bytes_of(kF4V1), &error)->shape, (Shape{2, 3}));
  EXPECT_EQ(parse_npy(bytes_of(kBool), &error)->shape, (Shape{3}));
  EXPECT_EQ(parse_npy(bytes_of(kBool), &error)->element, Element::boolean);
  EXPECT_EQ(parse_npy(bytes_of(kScalar), &error)->shape, Shape{});
  EXPECT_EQ(numbers(kScalar), std::vector<double>{7});
  EXPECT_EQ(parse_npy(bytes_of(kEmpty), &error)->shape, (Shape{0, 3}));
  EXPECT_TRUE(parse_npy(bytes_of(kEmpty), &error)->bytes.empty());
  EXPECT_TRUE(parse_npy(bytes_of(file_of("'<f4'", "(3L,)", 12)), &error)) << error;
}

TEST(NpyRead, UnalignedDataIsCopied) {
  std::string shifted = "x" + file_of("\"<f4\"", "(1,)");
  const float value = 2.5f;
  shifted.append(reinterpret_cast<const char*>(&value), sizeof value);
  for (std::size_t skip : {1, 0}) {  // the same file at two addresses
    std::string error;
    const std::string file = skip == 0 ? shifted.substr(1) : shifted;
    const std::optional<Array> array = parse_npy(bytes_of(file).subspan(skip), &error);
    ASSERT_TRUE(array) << error;
    const Tensor tensor = settle(*array, nullptr, "test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % alignof(float), 0U);
    EXPECT_EQ(oracle::load(tensor.bytes.data(), TESSERA_F32, 0), 2.5);
  }
}

TEST(NpyRead, IntegersBecomeInt64) {
  std::string error;
  const Tensor wide = settle(*parse_npy(bytes_of(kI8), &error), nullptr, "test");
  EXPECT_EQ(as_int64(wide, &error)->bytes.data(), wide.bytes.data());
  const std::string two = "\x05\xff", huge(8, '\xff');
  Array bytes{.element = Element::i8, .shape = {2}, .bytes = bytes_of(two)};
  const std::optional<Tensor> small = as_int64(settle(bytes, nullptr, "test"), &error);
  std::int64_t values[2];
  std::memcpy(values, small->bytes.data(), sizeof values);
  EXPECT_EQ(values[0], 5);
  EXPECT_EQ(values[1], -1);
  bytes = {.element = Element::u64, .shape = {1}, .bytes = bytes_of(huge)};
  EXPECT_FALSE(as_int64(settle(bytes, nullptr, "lengths.npy"), &error));
  EXPECT_NE(error.find("lengths.npy"), std::string::npos);
}

TEST(NpyRefuse, WhatIsNoNpyFile) {
  EXPECT_ERROR("", "empty");
  EXPECT_ERROR("hello", "no .npy file");
  EXPECT_ERROR(literal("PK\x03\x04rest"), "zip archive");
  EXPECT_ERROR(literal("\x93NUMPY\x01"), "first 8 bytes");
  EXPECT_ERROR(literal("\x93NUMPY\x04\x00\x00\x00\x00\x00"), "version is 4.0");
  EXPECT_ERROR(literal("\x93NUMPY\x01\x00v"), "before the length");
}

TEST(NpyRefuse, EveryTruncation) {
  for (const std::string& whole : {kF4V1, kF4V2, kBigF2Fortran}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_FALSE(error_of(whole.substr(0, size)).empty()) << "cut to " << size;
    }
  }
  EXPECT_ERROR(kF4V1.substr(0, kF4V1.size() - 1), "needs 24 bytes of data, but the file holds 23");
  EXPECT_ERROR(kF4V1 + "x", "needs 24 bytes of data, but the file holds 25");
}

TEST(NpyRefuse, HeaderLengthsThatLie) {
  std::string lies = file_with("{}", 0, 2);
  lies[8] = lies[9] = lies[10] = lies[11] = '\xff';
  EXPECT_ERROR(lies, "claims 4294967295 bytes, but only 2 follow");
  EXPECT_ERROR(file_with(std::string(70000, ' '), 0, 2), "at most 65535");
}

TEST(NpyRefuse, SizesThatLie) {
  EXPECT_ERROR(file_of("'<f4'", "(4611686018427387904, 4)"), "more bytes than 64 bits");
  EXPECT_ERROR(file_of("'<f4'", "(0, 4611686018427387904, 4)"), "more bytes than 64 bits");
  EXPECT_ERROR(file_of("'<f4'", "(99999999999999999999,)"), "does not fit 64 bits");
  EXPECT_ERROR(file_of("'<f4'", "(1099511627776,)", 8),
               "needs 4398046511104 bytes of data, but the file holds 8");
  EXPECT_ERROR(file_of("'<f4'", "(-1,)"), "negative size");
  std::string many = "(";
  for (int i = 0; i < 33; ++i) many += "1, ";
  EXPECT_ERROR(file_of("'<f4'", many + ")", 4), "more than 32 dimensions");
}

TEST(NpyRefuse, MalformedHeaders) {
  EXPECT_ERROR(file_with("['descr']"), "expected '{' at byte 0");
  EXPECT_ERROR(file_with("{'descr': '<f4', 'fortran_order': False}"), "no 'shape'");
  EXPECT_ERROR(file_with("{'fortran_order': False, 'shape': ()}"), "no 'descr'");
  EXPECT_ERROR(file_with("{'descr': '<f4', 'descr': '<f4', "), "'descr' twice");
  EXPECT_ERROR(file_with("{'shape': (), 'sh\x1b[31m': 1}"), "unknown key 'sh\\x1b[31m'");
  EXPECT_ERROR(file_with("{'descr': '<f4"), "a string that ends");
  EXPECT_ERROR(file_with("{'descr' '<f4'"), "expected ':'");
  EXPECT_ERROR(file_with("{'fortran_order': Maybe"), "True or False");
  EXPECT_ERROR(file_with("{'shape': (1 2)"), "expected ','");
  EXPECT_ERROR(file_with("{'shape': (3)"), "expected ','");
  EXPECT_ERROR(file_with("{'shape': (1, 2.5)"), "',' or ')'");
  EXPECT_ERROR(file_with("{'shape': (1, (2,))"), "a size");
  EXPECT_ERROR(file_of("'<f4'", "(1,)", 4) + std::string(4, '\0'), "needs 4 bytes");
  EXPECT_ERROR(file_with("{'descr': '<f4', 'fortran_order': False, 'shape': ()} + evil"), "nothing more");
}

TEST(NpyRefuse, DtypesItCannotUse) {
  for (const char* descr :
       {"'<c8'", "'|O'", "'<U3'", "'<M8[ns]'", "''", "'f4'", "'|f4'", "'=f4'", "'<f16'", "'\xc3\xa9'"}) {
    EXPECT_ERROR(file_of(descr, "()", 8), "its dtype is");
  }
  EXPECT_ERROR(file_of("[('x', '<f4')]", "()", 4), "structured dtype");
}

TEST(NpyWrite, ByteForByteAsNumPy) {
  EXPECT_EQ(npy_header(Element::f32, {2, 3}), kF4V1.substr(0, 128));
  EXPECT_EQ(npy_header(Element::f16, {2, 3}), kF2.substr(0, 128));
  EXPECT_EQ(npy_header(Element::bf16, {2, 3}), kBf16.substr(0, 128));
  EXPECT_EQ(npy_header(Element::f64, {2, 3}), kF8.substr(0, 128));
  EXPECT_EQ(npy_header(Element::boolean, {3}), kBool.substr(0, 128));
  EXPECT_EQ(npy_header(Element::i64, {2}), kI8.substr(0, 128));
  EXPECT_EQ(npy_header(Element::f32, {}), kScalar.substr(0, 128));
  EXPECT_EQ(npy_header(Element::f32, {0, 3}), kEmpty);
}

TEST(NpyWrite, LongHeadersReadBack) {
  const Shape shape(kMaxFileRank, 1);
  std::string error;
  for (Element element : {Element::f32, Element::u64, Element::i8, Element::raw16}) {
    const std::string header = npy_header(element, shape);
    EXPECT_EQ(header.size() % 64, 0U);
    const std::string file = header + std::string(static_cast<std::size_t>(element_size(element)), '\1');
    const std::optional<Array> array = parse_npy(bytes_of(file), &error);
    ASSERT_TRUE(array) << error;
    EXPECT_EQ(array->shape, shape);
    EXPECT_EQ(array->element, element);
  }
}

}  // namespace
}  // namespace tessera::files
