// The rotation by given angles of the CUDA kernels (device/rope_angles.cuh), compiled for the host: every thread of a
// grid in turn, against the formula in float64 and, for the gradient, finite differences.
#include "support/cuda_host.h"
// Device headers come after it.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cuda/device/rope_angles.cuh"

namespace posenc::cuda {
namespace {

// Batch 1, two angle heads, three heads of queries and one of keys each.
struct Shape {
  int tokens = 5;
  int dim = 24;
  int pairs = 8;
  int offset = 4;
  bool interleaved = false;
  bool positions = false;
  bool inverse = false;
  bool shifted = false;  // rows have the angles of the token before, the first none
};
constexpr int kAngleHeads = 2;
constexpr int kHeads[2] = {3, 1};
constexpr double kFactor = 1.25;

template <class Angle>
struct Problem {
  Shape s;
  std::vector<float> rows[2];
  std::vector<float> grads[2];
  std::vector<Angle> angles;
  std::vector<double> frequencies;
  std::vector<std::int64_t> token_of_row;

  Problem(const Shape& shape, double size) : s(shape) {
    std::mt19937 rng(7);
    std::normal_distribution<double> normal;
    for (int side = 0; side < 2; ++side) {
      rows[side].resize(static_cast<std::size_t>(kAngleHeads * kHeads[side] * s.tokens * s.dim));
      grads[side].resize(rows[side].size());
      for (float& x : rows[side]) x = static_cast<float>(normal(rng));
      for (float& x : grads[side]) x = static_cast<float>(normal(rng));
    }
    angles.resize(static_cast<std::size_t>(kAngleHeads * s.tokens * width()));
    for (Angle& x : angles) x = static_cast<Angle>(size * normal(rng));
    for (int i = 0; s.positions && i < kAngleHeads * s.pairs; ++i) {
      frequencies.push_back(std::pow(0.5, i % s.pairs) * (1 + i / s.pairs));
    }
    for (int t = 0; s.shifted && t < s.tokens; ++t) token_of_row.push_back(t - 1);
  }
  [[nodiscard]] int width() const { return s.positions ? 1 : s.pairs; }
  [[nodiscard]] int row_of(int head, int side, int n) const {
    return (head * kHeads[side] + n) * s.tokens;
  }
  // The angle of a row's pair, or 0 where its token has none.
  [[nodiscard]] double angle(int head, int token, int pair) const {
    const int own = s.shifted ? token - 1 : token;
    if (own < 0) return 0.0;
    const auto at = static_cast<std::size_t>((head * s.tokens + own) * width());
    const auto entry = static_cast<std::size_t>(head * s.pairs + pair);
    const double x = s.positions ? static_cast<double>(angles[at]) * frequencies[entry]
                                 : static_cast<double>(angles[at + static_cast<std::size_t>(pair)]);
    return s.inverse ? -x : x;
  }
  [[nodiscard]] std::array<std::size_t, 2> channels(int pair) const {
    const int first = s.offset + (s.interleaved ? 2 * pair : pair);
    return {static_cast<std::size_t>(first),
            static_cast<std::size_t>(s.interleaved ? first + 1 : first + s.pairs)};
  }
  // Rotated rows of a side; `back` by minus the angles.
  [[nodiscard]] std::vector<double> rotated(const std::vector<float>& x, int side,
                                            bool back) const {
    std::vector<double> out(x.begin(), x.end());
    for (int i = 0; i < kAngleHeads * kHeads[side] * s.tokens; ++i) {
      for (int pair = 0; pair < s.pairs; ++pair) {
        const double a = (back ? -1 : 1) * angle(i / s.tokens / kHeads[side], i % s.tokens, pair);
        const auto [c0, c1] = channels(pair);
        const auto at = static_cast<std::size_t>(i * s.dim);
        const double u = x[at + c0];
        const double v = x[at + c1];
        out[at + c0] = kFactor * (u * std::cos(a) - v * std::sin(a));
        out[at + c1] = kFactor * (u * std::sin(a) + v * std::cos(a));
      }
    }
    return out;
  }
  [[nodiscard]] double loss() const {
    double sum = 0.0;
    for (int side = 0; side < 2; ++side) {
      const std::vector<double> y = rotated(rows[side], side, false);
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(grads[side][i]);
    }
    return sum;
  }
  [[nodiscard]] AngleParams params() {
    AngleParams p;
    p.angles = angles.data();
    if (s.positions) p.frequencies = frequencies.data();
    p.float_positions = std::is_same_v<Angle, float>;
    if (s.shifted) p.token_of_row = token_of_row.data();
    p.angle_tokens = p.tokens = s.tokens;
    p.pairs = s.pairs;
    p.dim_offset = s.offset;
    p.direction = s.inverse ? -1.0f : 1.0f;
    p.magnitude = static_cast<float>(kFactor);
    for (int side = 0; side < 2; ++side) {
      AngleSide& to = p.sides[side];
      to.heads = kHeads[side];
      for (auto* stride : {to.x_stride, to.in_stride, to.out_stride}) {
        stride[1] = s.tokens * s.dim;
        stride[2] = s.dim;
      }
    }
    return p;
  }
};

// All threads of a grid; returns the gradients of positions, [heads, tokens].
template <class Angle, int kCount, bool kInterleaved, bool kGradient>
std::vector<double> run_grid(AngleParams p, int dim) {
  p.rotating = p.pairs / kCount;
  p.accesses = p.rotating + (dim - 2 * p.pairs) / kCount;
  std::vector<double> positions(static_cast<std::size_t>(kAngleHeads * p.tokens), 0.0);
  for (int i = 0; i < kAngleHeads * p.tokens * p.accesses; ++i) {
    const int row = i / p.accesses;
    const double own = AngleRotation<float, Angle, kCount, kInterleaved, kGradient>(
                           p, 0, kAngleHeads, row / p.tokens, row % p.tokens, i % p.accesses)
                           .run();
    const int token = p.token_of_row == nullptr ? row % p.tokens
                                                : static_cast<int>(p.token_of_row[row % p.tokens]);
    if (token < 0) continue;
    positions[static_cast<std::size_t>(row / p.tokens * p.tokens + token)] += own;
  }
  return positions;
}
// Positions take the kernel for float64.
template <class Angle, int kCount, bool kGradient>
std::vector<double> run_grid(const AngleParams& p, const Shape& s) {
  if (s.positions) {
    return s.interleaved ? run_grid<double, kCount, true, kGradient>(p, s.dim)
                         : run_grid<double, kCount, false, kGradient>(p, s.dim);
  }
  return s.interleaved ? run_grid<Angle, kCount, true, kGradient>(p, s.dim)
                       : run_grid<Angle, kCount, false, kGradient>(p, s.dim);
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want, double limit) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], limit) << i;
  }
}

template <class Angle, int kCount>
void check(const Shape& s, double size) {
  Problem<Angle> x(s, size);
  AngleParams p = x.params();
  std::vector<float> out[2] = {std::vector<float>(x.rows[0].size(), NAN),
                               std::vector<float>(x.rows[1].size(), NAN)};
  for (int side = 0; side < 2; ++side) {
    p.sides[side].in = x.rows[side].data();
    p.sides[side].out = out[side].data();
  }
  run_grid<Angle, kCount, false>(p, s);
  for (int side = 0; side < 2; ++side) {
    expect_near(out[side], x.rotated(x.rows[side], side, false), 4e-6);
  }
  std::vector<float> gradients[2] = {x.grads[0], x.grads[1]};  // rotated in place
  std::vector<float> dangles(x.angles.size(), 0.0f);
  for (int side = 0; side < 2; ++side) {
    p.sides[side].x = x.rows[side].data();
    p.sides[side].in = p.sides[side].out = gradients[side].data();
  }
  p.dangles = dangles.data();
  const std::vector<double> positions = run_grid<Angle, kCount, true>(p, s);
  for (int side = 0; side < 2; ++side) {
    expect_near(gradients[side], x.rotated(x.grads[side], side, true), 4e-6);
  }
  if (size > 10.0) return;  // too large for a difference
  for (std::size_t i = 0; i < x.angles.size(); ++i) {
    const Angle kept = x.angles[i];
    const Angle high = kept + Angle(0.0009765625);
    const Angle low = kept - Angle(0.0009765625);
    x.angles[i] = high;
    const double above = x.loss();
    x.angles[i] = low;
    const double below = x.loss();
    x.angles[i] = kept;
    const double want = (above - below) / (static_cast<double>(high) - static_cast<double>(low));
    const double got = s.positions ? positions[i] : static_cast<double>(dangles[i]);
    EXPECT_NEAR(got, want, 1e-4 * (1.0 + std::abs(want))) << i;
  }
}

TEST(RopeAngles, EveryLayoutAgreesWithTheFormula) {
  for (const bool interleaved : {false, true}) {
    for (const bool positions : {false, true}) {
      for (const bool shifted : {false, true}) {
        Shape s;
        s.interleaved = interleaved;
        s.positions = positions;
        s.shifted = shifted;
        s.inverse = shifted != interleaved;
        check<float, 4>(s, 1.0);
        check<double, 4>(s, 1.0);
        check<float, 1>(s, 1.0);
      }
    }
  }
}

TEST(RopeAngles, PairsOfNoWholeAccessAgreeWithTheFormula) {
  Shape s;
  s.dim = 11;
  s.pairs = 3;
  s.offset = 2;
  for (const bool interleaved : {false, true}) {
    s.interleaved = interleaved;
    check<float, 1>(s, 1.0);
    check<double, 1>(s, 1.0);
  }
}

TEST(RopeAngles, LargeAnglesAreReducedExactly) {
  Shape s;
  for (const double size : {1e3, 1e6, 1e7, 1e12}) {
    check<float, 4>(s, size);
    check<double, 4>(s, size);
    s.positions = !s.positions;
    check<double, 4>(s, size);
  }
}

}  // namespace
}  // namespace posenc::cuda
