// Q and K of zeros: every weight is alike, so that lse is the log of how many keys a row sees, and the output
// the mean of their values. A key more or less shows, where tolerances on drawn numbers may hide it.
#pragma once

#include <cmath>

#include "tests/serving_batch.hpp"

namespace tessera::testing_serving {

inline void fill(const tessera_tensor& t, const auto& value) {
  for (std::int64_t n = 0; n < t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3]; ++n)
    oracle::store(t.data, t.dtype, n, value(n / t.shape[3] % t.shape[2], n % t.shape[3]));
}

// Of key j the value's column j % value_dim is 1, the others are 0. Positions count from the end, as masks of
// s do.
inline void expect_means(const Shape& s, const tessera_device& device) {
  constexpr std::int64_t kRowsKeys[][2] = {{1, 300}, {5, 5},   {70, 130}, {1, 1},  {3, 2},
                                           {1, 785}, {65, 65}, {9, 64},   {2, 129}};
  std::vector<Sequence> batch;
  std::vector<std::size_t> order;
  for (const auto& [rows, keys] : kRowsKeys) {
    order.push_back(batch.size());
    Sequence& each = batch.emplace_back(s, rows, keys, 1);
    for (Memory* zeros : {&each.query, &each.key})
      fill(zeros->tensor(), [](std::int64_t, std::int64_t) { return 0.0; });
    fill(each.value.tensor(),
         [&](std::int64_t j, std::int64_t d) { return j % s.value_dim == d ? 1.0 : 0.0; });
  }
  for (const std::int64_t page : {0, 5, 16, 64}) {
    Together together(s, batch, {order, page});
    together.run(device);
    const tessera_tensor output = together.output.tensor(), lse = together.lse.tensor();
    std::int64_t at = 0;
    for (const Sequence& each : batch)
      for (std::int64_t i = 0; i < each.rows; ++i, ++at) {
        const std::int64_t position = each.keys - each.rows + i;
        const std::int64_t begin =
            s.mask.left == TESSERA_UNBOUNDED ? 0 : std::max<std::int64_t>(position - s.mask.left, 0);
        const std::int64_t end = std::max(position + 1, begin);
        std::vector<double> count(static_cast<std::size_t>(s.value_dim));
        for (std::int64_t j = begin; j < end; ++j) ++count[static_cast<std::size_t>(j % s.value_dim)];
        const auto seen = static_cast<double>(end - begin);
        for (std::int64_t h = 0; h < s.heads; ++h) {
          const std::int64_t row = h * together.all_rows() + at;
          SCOPED_TRACE(testing::Message() << each.rows << " rows, " << each.keys << " keys, row " << i
                                          << ", head " << h << ", pages of " << page);
          const double log_sum = oracle::load(lse.data, lse.dtype, row);
          if (seen == 0) {
            ASSERT_EQ(log_sum, -INFINITY);
          } else {
            ASSERT_NEAR(log_sum, std::log(seen), 2e-6 * std::max(1.0, std::log(seen)));
          }
          for (std::int64_t d = 0; d < s.value_dim; ++d) {
            const double mean = seen == 0 ? 0 : count[static_cast<std::size_t>(d)] / seen;
            ASSERT_NEAR(oracle::load(output.data, output.dtype, row * s.value_dim + d), mean, mean / 128)
                << d;
          }
        }
      }
  }
}

}  // namespace tessera::testing_serving
