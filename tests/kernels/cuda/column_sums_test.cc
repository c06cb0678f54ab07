// Sums over rows against plain sums in float64.
#include "kernels/cuda/column_sums.h"

#include <cmath>

#include "kernels/cuda/device.h"

namespace posenc::cuda {
namespace {

using testing::Bytes;
using testing::random_floats;

class CudaColumnSums : public testing::Test {};

struct Case {
  Case(std::int64_t row_count, std::int64_t column_count) : rows(row_count), columns(column_count) {
    Rng rng(4);
    y = random_floats(rng, rows * columns);
    x = random_floats(rng, rows * columns);
    mean = random_floats(rng, rows);
    inverse = random_floats(rng, rows);
  }
  // Of a column: plain, or with the norm's factor.
  [[nodiscard]] double expected(std::int64_t column, bool weighted) const {
    double sum = 0.0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      const auto at = static_cast<std::size_t>(row * columns + column);
      const double factor = (static_cast<double>(x[at]) - mean[r]) * inverse[r];
      sum += y[at] * (weighted ? factor : 1.0);
    }
    return sum;
  }

  std::int64_t rows, columns;
  std::vector<float> y, x, mean, inverse;
};

void expect_sums(const Case& c, const std::vector<float>& got, bool weighted) {
  const double tolerance = 1e-6 * std::sqrt(static_cast<double>(c.rows)) + 1e-6;
  for (std::int64_t column = 0; column < c.columns; ++column) {
    EXPECT_NEAR(got[static_cast<std::size_t>(column)], c.expected(column, weighted),
                tolerance * (weighted ? 4.0 : 1.0))
        << c.rows << " x " << c.columns << ", column " << column;
  }
}

TEST_F(CudaColumnSums, AgreeWithPlainSums) {
  for (const auto& [rows, columns] :
       {std::pair{1, 1}, std::pair{7, 33}, std::pair{64, 32}, std::pair{65, 31},
        std::pair{8960, 64}, std::pair{20000, 100}}) {
    const Case c(rows, columns);
    const Bytes y(c.y);
    const Bytes x(c.x);
    const Bytes mean(c.mean);
    const Bytes inverse(c.inverse);
    const Bytes sums(std::vector<float>(static_cast<std::size_t>(columns), NAN));
    const Bytes weighted(std::vector<float>(static_cast<std::size_t>(columns), NAN));
    ColumnSums p;
    p.y = y.data();
    p.x = x.as<float>();
    p.mean = mean.as<float>();
    p.inverse = inverse.as<float>();
    p.rows = rows;
    p.columns = columns;
    p.sums = sums.as<float>();
    p.weighted = weighted.as<float>();
    const Bytes workspace(column_sums_bytes(p));
    p.workspace = workspace.data();
    column_sums(p, nullptr).throw_if_error();
    expect_sums(c, sums.values<float>(), false);
    expect_sums(c, weighted.values<float>(), true);
    p.x = nullptr;
    column_sums(p, nullptr).throw_if_error();
    expect_sums(c, sums.values<float>(), false);
  }
}

}  // namespace
}  // namespace posenc::cuda
