// The gate of stored rows: what goes wrong with them in the library's stead is noticed, in key, in value and
// around them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "cases/gates.hpp"
#include "oracle/append.hpp"

namespace {

using namespace tessera::cases;

struct Wrong {
  const char* name;
  const char* gate;  // how the verdict must start
  std::function<void(const tessera_attention&)> before, after;
};

void PrintTo(const Wrong& wrong, std::ostream* os) { *os << wrong.name; }

// Of the dense case below: entry 1, head 0, the last but one of its keys, which is new.
float* new_key_of(const tessera_attention& p) {
  const tessera_tensor& t = p.key;
  return static_cast<float*>(t.data) + t.strides[0] + (t.shape[2] - 2) * t.strides[2];
}

void negate(float* x) { *x = -*x; }

const auto kNothing = [](const tessera_attention&) {};

const Wrong kWrong[] = {
    {"a_bit_of_a_stored_key", "new rows: key[1,0,18,5] is not what the oracle stores there", kNothing,
     [](const tessera_attention& p) {
       std::uint32_t bits;
       std::memcpy(&bits, new_key_of(p) + 5, 4);
       bits ^= 1;
       std::memcpy(new_key_of(p) + 5, &bits, 4);
     }},
    {"a_row_that_is_not_turned", "new rows: key[1,0,18,", kNothing,
     [](const tessera_attention& p) {
       std::memcpy(new_key_of(p),
                   static_cast<const float*>(p.new_key.data) + p.new_key.strides[0] +
                       (p.new_key.shape[2] - 2) * p.new_key.strides[2],
                   16 * 4);
     }},
    {"a_row_that_is_not_stored", "new rows: key[1,0,18,0] is not what", kNothing,
     [](const tessera_attention& p) { std::memset(new_key_of(p), 0xff, 16 * 4); }},
    {"an_old_key", "new rows: key[1,0,9,0] was written to", kNothing,
     [](const tessera_attention& p) { *(new_key_of(p) - 9 * p.key.strides[2]) += 1; }},
    {"behind_the_last_key", "new rows: memory around or between the elements of key was written to", kNothing,
     [](const tessera_attention& p) { *(new_key_of(p) + 2 * p.key.strides[2] - 1) = 0; }},
    {"before_the_first_value", "new rows: memory around or between the elements of value was written to",
     kNothing, [](const tessera_attention& p) { *(static_cast<float*>(p.value.data) - 1) = 0; }},
    {"a_value_of_another_row", "new rows: value[0,0,19,0] is not what", kNothing,
     [](const tessera_attention& p) {
       float* const last = static_cast<float*>(p.value.data) + 19 * p.value.strides[2];
       std::memcpy(last, last - p.value.strides[2], 16 * 4);
     }},
    {"a_new_row_itself", "guard bands: new_key, an input, was written to", kNothing,
     [](const tessera_attention& p) { *static_cast<float*>(p.new_key.data) += 1; }},
    {"the_query_turned_in_place", "guard bands: query, an input, was written to", kNothing,
     [](const tessera_attention& p) { *static_cast<float*>(p.query.data) += 1; }},
    {"an_output_of_other_keys", "bound: output",
     // A row that was there before is attended to as something else, and then put back.
     [](const tessera_attention& p) { negate(new_key_of(p) - 9 * p.key.strides[2]); },
     [](const tessera_attention& p) { negate(new_key_of(p) - 9 * p.key.strides[2]); }},
};

class StoredRows : public testing::TestWithParam<Wrong> {};

Verdict judged(const Wrong& wrong) {
  std::string error;
  const Case c =
      *parse("b2 h2/1 q4 k20 d16 f32 causal=bottom-right append rope=halves:8+0 layout=padded", &error);
  Instance instance(c, Input::normal, 1);
  const tessera_device cpu = TESSERA_DEVICE_INIT;
  return judge(instance, expect(instance), cpu, [&](const tessera_attention& p, const tessera_device& d) {
    wrong.before(p);
    std::string why = attend_with_library(p, d);
    wrong.after(p);
    return why;
  });
}

TEST_P(StoredRows, AreJudged) {
  const Verdict honest = judged({"honest", "", kNothing, kNothing});
  EXPECT_TRUE(honest.passed) << honest.why;
  const Verdict wrong = judged(GetParam());
  EXPECT_FALSE(wrong.passed);
  EXPECT_EQ(wrong.why.rfind(GetParam().gate, 0), 0u) << wrong.why;
  fmt::print("{}\n", wrong.why);
}

INSTANTIATE_TEST_SUITE_P(All, StoredRows, testing::ValuesIn(kWrong),
                         [](const auto& wrong) { return std::string(wrong.param.name); });

// Where NaN is stored any NaN is right, because machines differ in which one they make; a number is not.
TEST(StoredNan, MayBeAny) {
  std::string error;
  const Case c = *parse("b1 h1 q1 k1 d2 f32 causal=bottom-right append rope=halves:1", &error);
  for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x3f800000u}) {
    Instance instance(c, Input::normal, 1);
    static_cast<float*>(instance.problem().new_key.data)[0] = NAN;
    instance.accept_inputs();
    const Verdict v = judge(instance, expect(instance), TESSERA_DEVICE_INIT,
                            [&](const tessera_attention& p, const tessera_device& d) {
                              std::string why = attend_with_library(p, d);
                              std::memcpy(p.key.data, &bits, 4);
                              return why;
                            });
    EXPECT_EQ(v.passed, bits != 0x3f800000u) << v.why;
  }
}

}  // namespace
