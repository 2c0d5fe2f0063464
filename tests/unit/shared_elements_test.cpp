// Whether key and value share an element, against a count of every element's place.
#include "core/shared_elements.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace tessera::core {
namespace {

using Sizes4 = std::vector<std::int64_t>;

std::vector<float> memory(4096);

tessera_tensor at(std::int64_t place, const Sizes4& shape, const Sizes4& strides) {
  tessera_tensor t = tessera_tensor_4d(memory.data() + 2048 + place, TESSERA_F32, 1, 1, 1, 1);
  std::copy(shape.begin(), shape.end(), t.shape);
  std::copy(strides.begin(), strides.end(), t.strides);
  return t;
}

std::vector<const float*> places(const tessera_tensor& t) {
  std::vector<const float*> all;
  for (std::int64_t a = 0; a < t.shape[0]; ++a)
    for (std::int64_t b = 0; b < t.shape[1]; ++b)
      for (std::int64_t c = 0; c < t.shape[2]; ++c)
        for (std::int64_t d = 0; d < t.shape[3]; ++d)
          all.push_back(static_cast<const float*>(t.data) + a * t.strides[0] + b * t.strides[1] +
                        c * t.strides[2] + d * t.strides[3]);
  return all;
}

bool meet(const tessera_tensor& a, const tessera_tensor& b) {
  const std::vector<const float*> of_a = places(a), of_b = places(b);
  const std::set<const float*> known(of_a.begin(), of_a.end());
  return std::any_of(of_b.begin(), of_b.end(), [&](const float* p) { return known.count(p) > 0; });
}

// Strides of the sizes in the given order of dimensions, smallest first, with up to so much room between
// them.
Sizes4 strides_of(const Sizes4& shape, const std::vector<int>& order, std::mt19937& random,
                  unsigned room = 6) {
  Sizes4 strides(4);
  std::int64_t step = 1;
  for (const int d : order) {
    strides[static_cast<std::size_t>(d)] = step;
    step = step * shape[static_cast<std::size_t>(d)] + static_cast<std::int64_t>(random() % (room + 1));
  }
  return strides;
}

TEST(SharedElements, WithTheSameStridesTheAnswerIsExact) {
  std::mt19937 random(1);
  int shared = 0, apart = 0;
  for (int run = 0; run < 100; ++run) {
    Sizes4 shape(4), other;
    for (std::int64_t& size : shape) size = 1 + static_cast<std::int64_t>(random() % 3);
    other = shape;
    other[3] = 1 + static_cast<std::int64_t>(random() % 3);
    std::vector<int> order = {0, 1, 2};
    std::shuffle(order.begin(), order.end(), random);
    order.insert(order.begin(), 3);
    Sizes4 widest = shape;
    widest[3] = std::max(shape[3], other[3]);
    const Sizes4 strides = strides_of(widest, order, random);
    const tessera_tensor a = at(0, shape, strides);
    for (std::int64_t place = -250; place <= 250; ++place) {
      const tessera_tensor b = at(place, other, strides);
      const bool want = meet(a, b);
      (want ? shared : apart) += 1;
      ASSERT_EQ(share_an_element(a, b), want) << "run " << run << ", " << place << " elements apart";
    }
  }
  EXPECT_GT(shared, 1000);
  EXPECT_GT(apart, 1000);
}

TEST(SharedElements, WithOthersNothingIsRefusedThatIsApart) {
  std::mt19937 random(2);
  int found = 0, shared = 0;
  for (int run = 0; run < 100; ++run) {
    Sizes4 shape(4);
    for (std::int64_t& size : shape) size = 1 + static_cast<std::int64_t>(random() % 3);
    std::vector<int> order = {0, 1, 2, 3}, another = order;
    std::shuffle(order.begin(), order.end(), random);
    std::shuffle(another.begin(), another.end(), random);
    const tessera_tensor a =
        at(0, shape, strides_of(shape, order, random, run % 2 == 0 ? 0 : 6));  // or dense
    const Sizes4 strides = strides_of(shape, another, random);
    for (std::int64_t place = -250; place <= 250; ++place) {
      const tessera_tensor b = at(place, shape, strides);
      const bool want = meet(a, b), got = share_an_element(a, b);
      shared += want ? 1 : 0;
      found += got ? 1 : 0;
      ASSERT_LE(got, want) << "run " << run << ", " << place << " elements apart";
    }
  }
  EXPECT_GT(found, 1000) << "of " << shared;
}

// Codes with numbers of 16 bits behind each row of them.
TEST(SharedElements, OfDtypesThatDifferInOnePool) {
  tessera_tensor codes = at(0, {3, 2, 4, 8}, {160, 80, 20, 1}), tails = at(0, {3, 2, 4, 6}, {80, 40, 10, 1});
  codes.dtype = TESSERA_I8;
  tails.dtype = TESSERA_BF16;
  for (int apart = -40; apart <= 40; ++apart) {
    tails.data = static_cast<char*>(codes.data) + apart;
    const bool between = (apart + 40) % 20 == 8;  // 8 bytes of codes, 12 of the tail
    EXPECT_EQ(share_an_element(codes, tails), !between) << apart;
    EXPECT_EQ(share_an_element(tails, codes), !between) << apart;
  }
}

// How caches lie: of one pool, rows beside rows, heads beside heads, pages in either order.
TEST(SharedElements, PoolsOfKeysAndValuesAreApart) {
  const Sizes4 shape = {3, 2, 4, 8};  // pages, heads, rows, dim
  const struct {
    std::string name;
    std::int64_t place;
    Sizes4 strides;
  } all[] = {{"[2, pages, heads, rows, dim]", 192, {64, 32, 8, 1}},
             {"[pages, 2, heads, rows, dim]", 64, {128, 32, 8, 1}},
             {"[pages, 2, rows, heads, dim]", 64, {128, 8, 16, 1}},
             {"[pages, rows, 2, heads, dim]", 16, {128, 8, 32, 1}},
             {"[pages, rows, heads, 2, dim]", 8, {128, 16, 32, 1}},
             {"[pages, heads, rows, 2 dims]", 8, {128, 64, 16, 1}}};
  for (const auto& each : all) {
    const tessera_tensor key = at(0, shape, each.strides), value = at(each.place, shape, each.strides);
    EXPECT_FALSE(share_an_element(key, value)) << each.name;
    EXPECT_FALSE(share_an_element(value, key)) << each.name;
    EXPECT_TRUE(share_an_element(key, at(each.place - 1, shape, each.strides))) << each.name;
    EXPECT_TRUE(share_an_element(key, key)) << each.name;
  }
}

}  // namespace
}  // namespace tessera::core
