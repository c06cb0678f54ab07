// Sums over rows against plain sums in float64.
#include "kernels/cuda/column_sums.h"

#include <cmath>

#include "kernels/cuda/device.h"

namespace posenc::cuda {
namespace {

using testing::Bytes;
using testing::random_floats;

class CudaColumnSums : public testing::Test {};

TEST_F(CudaColumnSums, AgreeWithPlainSums) {
  for (const auto& [rows, columns] :
       {std::pair{1, 1}, std::pair{7, 33}, std::pair{64, 32}, std::pair{65, 31},
        std::pair{8960, 64}, std::pair{20000, 100}}) {
    Rng rng(4);
    const std::vector<float> values = random_floats(rng, std::int64_t{rows} * columns);
    const Bytes y(values);
    const Bytes sums(std::vector<float>(static_cast<std::size_t>(columns), NAN));
    ColumnSums p;
    p.y = y.data();
    p.rows = rows;
    p.columns = columns;
    p.sums = sums.as<float>();
    const Bytes workspace(column_sums_bytes(p));
    p.workspace = workspace.data();
    column_sums(p, nullptr).throw_if_error();
    const std::vector<float> got = sums.values<float>();
    const double tolerance = 1e-6 * std::sqrt(static_cast<double>(rows)) + 1e-6;
    for (std::size_t column = 0; column < got.size(); ++column) {
      double sum = 0.0;
      for (std::size_t at = column; at < values.size(); at += got.size()) sum += values[at];
      EXPECT_NEAR(got[column], sum, tolerance) << rows << " x " << columns << ", column " << column;
    }
  }
}

}  // namespace
}  // namespace posenc::cuda
