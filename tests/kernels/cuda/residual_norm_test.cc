// A residual sum with its norm, and their gradients, against float64.
#include "kernels/cuda/residual_norm.h"

#include <cmath>

#include "kernels/cuda/device.h"

namespace posenc::cuda {
namespace {

using testing::Bytes;
using testing::random_floats;

class CudaResidualNorm : public testing::Test {};

constexpr double kEpsilon = 1e-5;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// The inputs, and in float64 what must come of them.
struct Case {
  Case(std::int64_t row_count, std::int64_t column_count, bool has_branch)
      : rows(row_count), columns(column_count) {
    Rng rng(6);
    const std::int64_t count = rows * columns;
    x = random_floats(rng, count);
    branch = has_branch ? random_floats(rng, count) : std::vector<float>(index(count), 0.0f);
    dy = random_floats(rng, count);
    dsum = random_floats(rng, count);
    weight = random_floats(rng, columns);
    bias = random_floats(rng, columns);
    dvectors.resize(index(2 * columns));
    for (std::int64_t row = 0; row < rows; ++row) solve(row * columns);
  }

  // Of the row that begins at `first`.
  void solve(std::int64_t first) {
    std::vector<double> normal(index(columns));
    double mean = 0.0, square = 0.0, level = 0.0, along = 0.0;
    for (std::int64_t c = 0; c < columns; ++c) {
      normal[index(c)] = static_cast<double>(x[index(first + c)]) + branch[index(first + c)];
      mean += normal[index(c)] / static_cast<double>(columns);
    }
    for (double& value : normal) {
      value -= mean;
      square += value * value / static_cast<double>(columns);
    }
    const double inverse = 1.0 / std::sqrt(square + kEpsilon);
    for (std::int64_t c = 0; c < columns; ++c) {
      const double d = dy[index(first + c)];
      const double n = normal[index(c)] *= inverse;
      y.push_back(n * weight[index(c)] + bias[index(c)]);
      dvectors[index(c)] += d;
      dvectors[index(columns + c)] += d * n;
      level += d * weight[index(c)] / static_cast<double>(columns);
      along += d * weight[index(c)] * n / static_cast<double>(columns);
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      const double d = dy[index(first + c)] * weight[index(c)];
      dx.push_back(inverse * (d - level - normal[index(c)] * along) + dsum[index(first + c)]);
    }
  }

  std::int64_t rows, columns;
  std::vector<float> x, branch, dy, dsum, weight, bias;
  std::vector<double> y, dx, dvectors;
};

void expect_near(const std::vector<float>& got, const std::vector<double>& want, double tolerance,
                 const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * (1.0 + std::abs(want[i]))) << what << " " << i;
  }
}

Bytes unset(std::size_t count) { return Bytes(std::vector<float>(count, NAN)); }

void expect_case(std::int64_t rows, std::int64_t columns, bool has_branch) {
  const Case c(rows, columns, has_branch);
  const Bytes x(c.x), branch(c.branch), weight(c.weight), bias(c.bias), dy(c.dy), dsum(c.dsum);
  const Bytes sum = unset(c.x.size()), y = unset(c.x.size()), dx = unset(c.x.size());
  const Bytes mean = unset(index(rows)), inverse = unset(index(rows));
  const Bytes dvectors = unset(index(2 * columns));
  ResidualNorm p{.rows = rows,
                 .columns = columns,
                 .epsilon = static_cast<float>(kEpsilon),
                 .x = x.as<float>(),
                 .branch = has_branch ? branch.data() : nullptr,
                 .weight = weight.as<float>(),
                 .bias = bias.as<float>(),
                 .sum = sum.as<float>(),
                 .y = y.data(),
                 .mean = mean.as<float>(),
                 .inverse = inverse.as<float>()};
  residual_norm(p, nullptr).throw_if_error();
  expect_near(y.values<float>(), c.y, 1e-5, "y");
  const Bytes workspace(residual_norm_bytes(p));
  if (has_branch) p.x = sum.as<float>();
  const ResidualNormGradients g{.forward = p,
                                .dy = dy.data(),
                                .dsum = dsum.as<float>(),
                                .dx = dx.as<float>(),
                                .dvectors = dvectors.as<float>(),
                                .workspace = workspace.data()};
  residual_norm_backward(g, nullptr).throw_if_error();
  expect_near(dx.values<float>(), c.dx, 2e-5, "dx");
  const double tolerance = 1e-6 * std::sqrt(static_cast<double>(rows)) + 1e-6;
  expect_near(dvectors.values<float>(), c.dvectors, 4.0 * tolerance, "vectors");
}

TEST_F(CudaResidualNorm, AgreesWithFloat64) {
  for (const bool has_branch : {false, true}) {
    for (const auto& [rows, columns] :
         {std::pair{1, 4}, std::pair{7, 64}, std::pair{37, 100}, std::pair{129, 256},
          std::pair{65, 512}, std::pair{33, 1024}, std::pair{8960, 64}}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
      expect_case(rows, columns, has_branch);
    }
  }
}

}  // namespace
}  // namespace posenc::cuda
