#include "posenc/encodings/analysis.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <numeric>

namespace posenc {
namespace {

constexpr double kTurn = 2.0 * std::numbers::pi;

using Vector = std::vector<double>;

Vector random_vector(std::int64_t size, Rng& rng) {
  Vector x(static_cast<std::size_t>(size));
  for (double& value : x) value = rng.normal();
  return x;
}

double dot(const Vector& x, const Vector& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

double distance(const Vector& x, const Vector& y, double scale) {
  double sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(x[i] - scale * y[i], 2);
  return std::sqrt(sum);
}

// One rotation by the same number of positions along every axis.
class Turner {
 public:
  explicit Turner(const Rotary& rotary)
      : rotary_(rotary),
        cos_(static_cast<std::size_t>(rotary.pairs())),
        sin_(cos_.size()),
        coordinates_(static_cast<std::size_t>(rotary.axes.axes)) {}

  Vector operator()(std::int64_t position, Vector x, Role role = Role::kQuery) {
    load(position, role);
    rotate(rotary_, cos_, sin_, x);
    return x;
  }
  Vector transposed(std::int64_t position, Vector x) {
    load(position, Role::kQuery);
    rotate_transposed(rotary_, cos_, sin_, x);
    return x;
  }

 private:
  void load(std::int64_t position, Role role) {
    std::fill(coordinates_.begin(), coordinates_.end(), position);
    rotary_row(rotary_, role, 0, coordinates_, cos_, sin_);
  }

  const Rotary& rotary_;
  Vector cos_;
  Vector sin_;
  std::vector<std::int64_t> coordinates_;
};

// Only the rotated channels keep the laws with the attention factor; the others pass unchanged.
Vector window_only(const Rotary& rotary, Vector x) {
  for (std::int64_t c = 0; c < rotary.head_dim; ++c) {
    const bool inside = c >= rotary.dim_offset && c < rotary.dim_offset + rotary.rotary_dim;
    if (!inside) x[c] = 0.0;
  }
  return x;
}

}  // namespace

std::vector<double> wavelengths(const Rotary& rotary, std::int64_t group) {
  std::vector<double> result;
  for (const double f : rotary.inv_freq[group]) {
    result.push_back(f > 0.0 ? kTurn / f : std::numeric_limits<double>::infinity());
  }
  return result;
}

std::vector<double> rotations_at(const Rotary& rotary, std::int64_t length, std::int64_t group) {
  std::vector<double> result;
  for (const double f : rotary.inv_freq[group]) {
    result.push_back(static_cast<double>(length) * f / kTurn);
  }
  return result;
}

std::optional<std::int64_t> max_unambiguous_distance(const Rotary& rotary, std::int64_t group) {
  double longest = 0.0;
  for (const double w : wavelengths(rotary, group)) {
    if (std::isfinite(w)) longest = std::max(longest, w);
  }
  if (longest == 0.0) return std::nullopt;
  constexpr double kLargest = 9e18;
  return static_cast<std::int64_t>(std::min(std::floor(longest), kLargest));
}

std::vector<double> decay_curve(const Rotary& rotary, std::int64_t max_distance,
                                std::int64_t group) {
  const std::vector<double>& inv_freq = rotary.inv_freq[group];
  std::vector<double> curve;
  for (std::int64_t m = 0; m <= max_distance; ++m) {
    std::complex<double> partial = 0.0;
    double sum = 0.0;
    for (const double f : inv_freq) {
      partial += std::polar(1.0, static_cast<double>(m) * f);
      sum += std::abs(partial);
    }
    curve.push_back(sum / static_cast<double>(inv_freq.size()));
  }
  return curve;
}

std::vector<PairRegime> pair_regimes(const Rope& config, const ModelShape& shape,
                                     const Lengths& lengths, std::int64_t group) {
  constexpr double kSame = 1e-6;
  Rope plain = config;
  plain.schedule = DefaultSchedule{};
  const auto g = static_cast<std::size_t>(group);
  const Vector changed = make_rotary(config, shape, lengths).inv_freq[g];
  const Vector original = make_rotary(plain, shape, lengths).inv_freq[g];
  Vector ratio;
  double slowest = 1.0;
  for (std::size_t p = 0; p < changed.size(); ++p) {
    ratio.push_back(changed[p] / original[p]);
    if (changed[p] > 0.0) slowest = std::min(slowest, ratio[p]);
  }
  std::vector<PairRegime> regimes;
  for (const double r : ratio) {
    PairRegime regime = PairRegime::kBlends;
    if (r <= slowest * (1.0 + kSame)) regime = PairRegime::kInterpolates;
    if (r >= 1.0 - kSame) regime = PairRegime::kExtrapolates;
    if (r == 0.0) regime = PairRegime::kStill;
    regimes.push_back(regime);
  }
  return regimes;
}

LawViolations check_laws(const Rotary& rotary, std::int64_t max_position, int samples,
                         std::uint64_t seed) {
  Rng rng(seed);
  Turner turn(rotary);
  const double a = rotary.attention_factor;
  LawViolations worst;
  for (int sample = 0; sample < samples; ++sample) {
    const Vector x = window_only(rotary, random_vector(rotary.head_dim, rng));
    const Vector y = window_only(rotary, random_vector(rotary.head_dim, rng));
    const double length = std::sqrt(dot(x, x));
    const std::int64_t i = rng.integer(0, max_position / 2);
    const std::int64_t j = rng.integer(0, max_position / 2);
    const std::int64_t s = rng.integer(0, max_position / 2);
    const Vector xi = turn(i, x);
    worst.norm = std::max(worst.norm, std::abs(std::sqrt(dot(xi, xi)) - a * length) / length);
    worst.group = std::max(worst.group, distance(turn(j, xi), turn(i + j, x), a) / length);
    worst.inverse = std::max(worst.inverse, distance(turn.transposed(i, xi), x, a * a) / length);
    const double here = dot(xi, turn(j, y, Role::kKey));
    const double shifted = dot(turn(i + s, x), turn(j + s, y, Role::kKey));
    worst.relative =
        std::max(worst.relative, std::abs(here - shifted) / (length * std::sqrt(dot(y, y))));
  }
  return worst;
}

}  // namespace posenc
