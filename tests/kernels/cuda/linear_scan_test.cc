// The walk of linear attention against plain sums in float64.
#include "kernels/cuda/linear_scan.h"

#include <array>
#include <cmath>

#include "kernels/cuda/device.h"

namespace posenc::cuda {
namespace {

using testing::Bytes;
using testing::random_floats;

class CudaLinearScan : public testing::Test {};

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

std::vector<float> scanned(const Shape& s, const Rows& rows, ScanSees sees) {
  const Bytes a(rows.a);
  const Bytes b(rows.b);
  const Bytes c(rows.c);
  const Bytes out(std::vector<float>(rows.c.size(), NAN));
  LinearScan scan{a.as<float>(), b.as<float>(), c.as<float>(), out.as<float>(), s.count, s.tokens,
                  s.features,    s.values,      sees,          nullptr};
  const Bytes workspace(linear_scan_bytes(scan));
  scan.workspace = workspace.data();
  linear_scan(scan, nullptr).throw_if_error();
  return out.values<float>();
}

constexpr std::array kSees = {ScanSees::kEarlier, ScanSees::kLater, ScanSees::kAll};

TEST_F(CudaLinearScan, AgreesWithPlainSums) {
  for (const Shape& s : {Shape{2, 1, 16, 16}, Shape{3, 63, 20, 8}, Shape{2, 64, 64, 64},
                         Shape{2, 300, 65, 64}, Shape{1, 1000, 64, 1}, Shape{2, 200, 1, 64},
                         Shape{1, 150, 128, 128}, Shape{1, 90, 257, 256}}) {
    const Rows rows(s);
    for (const ScanSees sees : kSees) {
      const std::vector<float> got = scanned(s, rows, sees);
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

// At token 100 of the last head, in the middle of a chunk.
TEST_F(CudaLinearScan, NanReachesTheRowsThatSeeIt) {
  constexpr std::int64_t kToken = 100;
  for (const Shape& s : {Shape{2, 300, 20, 24}, Shape{2, 150, 257, 24}}) {
    for (const ScanSees sees : kSees) {
      for (std::vector<float> Rows::*where : {&Rows::a, &Rows::b, &Rows::c}) {
        Rows rows(s);
        const std::int64_t width = where == &Rows::c ? s.values : s.features;
        (rows.*where)[static_cast<std::size_t>((s.tokens + kToken) * width + 5)] = NAN;
        const std::vector<float> got = scanned(s, rows, sees);
        for (std::int64_t t = 0; t < 2 * s.tokens; ++t) {
          bool nan = false;
          for (std::int64_t i = t * s.values; i < (t + 1) * s.values; ++i) {
            nan |= std::isnan(got[static_cast<std::size_t>(i)]);
          }
          const std::int64_t own = t - s.tokens;
          const bool seen = where == &Rows::a            ? own == kToken
                            : sees == ScanSees::kEarlier ? own >= kToken
                            : sees == ScanSees::kLater   ? own >= 0 && own <= kToken
                                                         : own >= 0;
          ASSERT_EQ(nan, seen) << "token " << t << " of " << 2 * s.tokens;
        }
      }
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
