// The walk of linear attention against plain sums in float64.
#include "kernels/cuda/linear_scan.h"

#include "kernels/cuda/device.h"
#include "posenc/core/rng.h"

namespace posenc::cuda {
namespace {

using testing::Bytes;

class CudaLinearScan : public testing::Test {};

std::vector<float> random_floats(Rng& rng, std::int64_t count) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (float& x : all) x = static_cast<float>(rng.normal());
  return all;
}

struct Shape {
  std::int64_t count;
  std::int64_t tokens;
  int features;
  int values;
};

struct Rows {
  explicit Rows(const Shape& s) {
    Rng rng(9);
    a = random_floats(rng, s.count * s.tokens * s.features);
    b = random_floats(rng, s.count * s.tokens * s.features);
    c = random_floats(rng, s.count * s.tokens * s.values);
  }
  std::vector<float> a, b, c;
};

// SUM of <a_i, b_j> c_j in float64, by the sum of b c^T up to here.
std::vector<double> expected(const Shape& s, const Rows& r, ScanSees sees) {
  std::vector<double> out(static_cast<std::size_t>(s.count * s.tokens * s.values), 0.0);
  const auto features = static_cast<std::size_t>(s.features);
  const auto values = static_cast<std::size_t>(s.values);
  for (std::int64_t n = 0; n < s.count; ++n) {
    std::vector<double> sum(features * values, 0.0);
    const auto add = [&](std::int64_t t) {
      const auto at = static_cast<std::size_t>(n * s.tokens + t);
      for (std::size_t f = 0; f < features; ++f) {
        for (std::size_t e = 0; e < values; ++e) {
          sum[f * values + e] += static_cast<double>(r.b[at * features + f]) *
                                 static_cast<double>(r.c[at * values + e]);
        }
      }
    };
    for (std::int64_t t = 0; sees == ScanSees::kAll && t < s.tokens; ++t) add(t);
    for (std::int64_t i = 0; i < s.tokens; ++i) {
      const std::int64_t t = sees == ScanSees::kLater ? s.tokens - 1 - i : i;
      if (sees != ScanSees::kAll) add(t);
      const auto at = static_cast<std::size_t>(n * s.tokens + t);
      for (std::size_t f = 0; f < features; ++f) {
        for (std::size_t e = 0; e < values; ++e) {
          out[at * values + e] += static_cast<double>(r.a[at * features + f]) * sum[f * values + e];
        }
      }
    }
  }
  return out;
}

TEST_F(CudaLinearScan, AgreesWithPlainSums) {
  for (const Shape& s : {Shape{2, 1, 16, 16}, Shape{3, 63, 20, 8}, Shape{2, 64, 64, 64},
                         Shape{2, 300, 65, 64}, Shape{1, 1000, 64, 1}, Shape{2, 200, 1, 64},
                         Shape{1, 150, 128, 128}, Shape{1, 90, 257, 256}}) {
    const Rows rows(s);
    for (const ScanSees sees : {ScanSees::kEarlier, ScanSees::kLater, ScanSees::kAll}) {
      const Bytes a(rows.a);
      const Bytes b(rows.b);
      const Bytes c(rows.c);
      const std::vector<float> poison(rows.c.size(), NAN);
      const Bytes out(poison);
      LinearScan scan{a.as<float>(), b.as<float>(), c.as<float>(), out.as<float>(),
                      s.count,       s.tokens,      s.features,    s.values,
                      sees,          nullptr};
      const Bytes workspace(linear_scan_bytes(scan));
      scan.workspace = workspace.data();
      linear_scan(scan, nullptr).throw_if_error();
      const std::vector<float> got = out.values<float>();
      const std::vector<double> want = expected(s, rows, sees);
      double error = 0.0;
      double size = 0.0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        const double apart = static_cast<double>(got[i]) - want[i];
        error += apart * apart;
        size += want[i] * want[i];
      }
      EXPECT_LT(std::sqrt(error / size), 1e-5) << s.tokens << " x " << s.features;
    }
  }
}

TEST_F(CudaLinearScan, RefusesWhatItCannotHold) {
  LinearScan scan;
  scan.count = scan.tokens = scan.values = 1;
  scan.features = kMostScanFeatures + 1;
  EXPECT_FALSE(linear_scan(scan, nullptr).ok());
}

}  // namespace
}  // namespace posenc::cuda
