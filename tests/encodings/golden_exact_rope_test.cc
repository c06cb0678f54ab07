// `exact` precision against a reference in long double that shares no code with the library: every
// schedule, several dimensions and bases, positions up to 2^24.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "posenc/core/rng.h"
#include "posenc/encodings/rotary.h"
#include "posenc/encodings/spec.h"

namespace posenc {
namespace {

using Real = long double;
constexpr Real kPi = std::numbers::pi_v<Real>;
constexpr std::int64_t kLast = std::int64_t{1} << 24;

struct Reference {
  std::vector<Real> inv_freq;
  Real attention_factor = 1;
};

// What a reference may ask for.
struct Situation {
  Real theta;
  std::int64_t dim;
  std::int64_t length;
};

Real real(std::int64_t n) { return static_cast<Real>(n); }

Reference geometric(Real theta, std::int64_t dim) {
  Reference result;
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    result.inv_freq.push_back(std::exp(-2 * real(i) / real(dim) * std::log(theta)));
  }
  return result;
}

Real grown(Real theta, Real scale, std::int64_t dim) {
  return theta * std::exp(real(dim) / real(dim - 2) * std::log(scale));
}

Real yarn_g(Real factor, Real mscale) {
  return factor <= 1 ? Real{1} : Real{0.1L} * mscale * std::log(factor) + 1;
}

struct Refer {
  Situation at;

  Reference operator()(const DefaultSchedule& /*s*/) const { return geometric(at.theta, at.dim); }
  Reference operator()(const LearnableSchedule& /*s*/) const { return geometric(at.theta, at.dim); }
  Reference operator()(const LinearSchedule& s) const {
    Reference result = geometric(at.theta, at.dim);
    for (Real& f : result.inv_freq) f /= s.factor;
    return result;
  }
  Reference operator()(const NtkSchedule& s) const {
    return geometric(grown(at.theta, s.factor, at.dim), at.dim);
  }
  Reference operator()(const DynamicSchedule& s) const {
    const Real trained = real(s.max_position_embeddings);
    const Real length = std::max(real(at.length), trained);
    const Real scale = s.factor * length / trained - (s.factor - 1);
    return geometric(grown(at.theta, scale, at.dim), at.dim);
  }
  Reference operator()(const YarnSchedule& s) const {
    const auto correction = [&](Real rotations) {
      return real(at.dim) *
             std::log(real(s.original_max_position_embeddings) / (2 * kPi * rotations)) /
             (2 * std::log(at.theta));
    };
    Real low = correction(s.beta_fast);
    Real high = correction(s.beta_slow);
    if (s.truncate) low = std::floor(low);
    if (s.truncate) high = std::ceil(high);
    low = std::max(low, Real{0});
    high = std::min(high, real(at.dim - 1));
    if (low == high) high += Real{0.001L};
    Reference result = geometric(at.theta, at.dim);
    for (std::size_t i = 0; i < result.inv_freq.size(); ++i) {
      const Real ramp = std::clamp((static_cast<Real>(i) - low) / (high - low), Real{0}, Real{1});
      result.inv_freq[i] *= ramp / s.factor + (1 - ramp);
    }
    result.attention_factor = yarn_g(s.factor, 1);
    if (s.mscale && s.mscale_all_dim) {
      result.attention_factor = yarn_g(s.factor, *s.mscale) / yarn_g(s.factor, *s.mscale_all_dim);
    }
    if (s.attention_factor) result.attention_factor = *s.attention_factor;
    return result;
  }
  Reference operator()(const LongRopeSchedule& s) const {
    const bool past = at.length > s.original_max_position_embeddings;
    Reference result = geometric(at.theta, at.dim);
    for (std::size_t i = 0; i < result.inv_freq.size(); ++i) {
      result.inv_freq[i] /= past ? s.long_factor[i] : s.short_factor[i];
    }
    result.attention_factor = std::sqrt(1 + std::log(Real{*s.factor}) /
                                                std::log(real(s.original_max_position_embeddings)));
    return result;
  }
  Reference operator()(const Llama3Schedule& s) const {
    Reference result = geometric(at.theta, at.dim);
    for (Real& f : result.inv_freq) {
      const Real rotations = real(s.original_max_position_embeddings) * f / (2 * kPi);
      const Real share = std::clamp(
          (rotations - s.low_freq_factor) / (Real{s.high_freq_factor} - s.low_freq_factor), Real{0},
          Real{1});
      f *= (1 - share) / s.factor + share;
    }
    return result;
  }
  Reference operator()(const ProportionalSchedule& s) const {
    Reference result = geometric(at.theta, at.dim);
    const auto turning = static_cast<std::size_t>(s.partial_rotary_factor * real(at.dim) / 2);
    for (std::size_t i = 0; i < result.inv_freq.size(); ++i) {
      result.inv_freq[i] = i < turning ? result.inv_freq[i] / s.factor : Real{0};
    }
    return result;
  }
  Reference operator()(const LinearIndexSchedule& /*s*/) const {
    Reference result;
    for (std::int64_t i = 0; i < at.dim / 2; ++i) result.inv_freq.push_back(1 / real(1 + 2 * i));
    return result;
  }
};

LongRopeSchedule random_longrope(Rng& rng, std::int64_t dim) {
  LongRopeSchedule s;
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    s.short_factor.push_back(rng.uniform(1.0, 2.0));
    s.long_factor.push_back(rng.uniform(1.0, 60.0));
  }
  s.original_max_position_embeddings = 4096;
  s.factor = rng.uniform(2.0, 32.0);
  return s;
}

// One of each, with random arguments; some twice, for their other branch.
std::vector<Schedule> random_schedules(Rng& rng, std::int64_t dim) {
  const double factor = rng.uniform(1.0, 64.0);
  const YarnSchedule yarn{.factor = factor, .original_max_position_embeddings = 8192};
  YarnSchedule deepseek = yarn;
  deepseek.truncate = false;
  deepseek.mscale = rng.uniform(0.5, 1.5);
  deepseek.mscale_all_dim = rng.uniform(0.5, 1.5);
  YarnSchedule explicit_factor = yarn;
  explicit_factor.attention_factor = rng.uniform(0.5, 3.0);
  return {DefaultSchedule{},
          LinearSchedule{factor},
          NtkSchedule{factor},
          DynamicSchedule{.factor = factor, .max_position_embeddings = 4096},
          yarn,
          deepseek,
          explicit_factor,
          random_longrope(rng, dim),
          Llama3Schedule{factor, 1.0, 4.0, 8192},
          ProportionalSchedule{factor, rng.uniform(0.1, 1.0)},
          LinearIndexSchedule{},
          LearnableSchedule{}};
}

struct Case {
  Rope rope;
  ModelShape shape;
  Lengths lengths;
  std::vector<double> alpha;  // of the learnable schedule
};

std::string name_of(const Case& test_case) {
  return to_text(Spec{{test_case.rope}}) + " head_dim " + std::to_string(test_case.shape.head_dim);
}

// The largest distance of cos or sin, as a float32, from the reference, over a few positions.
double worst_error(const Case& test_case, const Rotary& rotary, const Reference& want, Rng& rng) {
  std::vector<std::int64_t> positions = {0, 1, 4097, kLast - 1, kLast};
  for (int i = 0; i < 12; ++i) positions.push_back(rng.integer(0, kLast));
  std::vector<double> cos(static_cast<std::size_t>(rotary.pairs()));
  std::vector<double> sin(cos.size());
  Real worst = 0;
  for (const std::int64_t position : positions) {
    rotary_row(rotary, Role::kKey, 0, std::vector<std::int64_t>{position}, cos, sin);
    for (std::size_t p = 0; p < cos.size(); ++p) {
      const Real alpha = test_case.alpha.empty() ? Real{0} : Real{test_case.alpha[p]};
      const Real angle = real(position) * want.inv_freq[p] * std::exp(alpha);
      const auto float_cos = static_cast<Real>(static_cast<float>(cos[p]));
      const auto float_sin = static_cast<Real>(static_cast<float>(sin[p]));
      worst = std::max(worst, std::abs(float_cos - want.attention_factor * std::cos(angle)));
      worst = std::max(worst, std::abs(float_sin - want.attention_factor * std::sin(angle)));
    }
  }
  return static_cast<double>(worst);
}

void expect_exact(const Case& test_case, Rng& rng) {
  const Rotary rotary =
      make_rotary(test_case.rope, test_case.shape, test_case.lengths, test_case.alpha);
  const Situation situation{test_case.rope.theta.front(), test_case.shape.head_dim,
                            test_case.lengths.sequence};
  const Reference want = std::visit(Refer{situation}, test_case.rope.schedule);
  ASSERT_EQ(want.inv_freq.size(), rotary.inv_freq.at(0).size());
  const double bound = 3e-7 * std::max(1.0, static_cast<double>(want.attention_factor));
  EXPECT_LE(worst_error(test_case, rotary, want, rng), bound) << name_of(test_case);
}

TEST(ExactRope, EveryScheduleAtEveryPosition) {
  Rng rng(20240501);
  for (const std::int64_t dim : {4, 32, 64, 80, 128, 256}) {
    for (const double theta : {100.0, 10000.0, 500000.0, 1e7, rng.uniform(2.0, 1e6)}) {
      for (const Schedule& schedule : random_schedules(rng, dim)) {
        Case test_case;
        test_case.rope.theta = {theta};
        test_case.rope.schedule = schedule;
        test_case.shape = ModelShape{.head_dim = dim, .heads = 2};
        test_case.lengths.sequence = rng.integer(1, 1 << 20);
        if (std::holds_alternative<LearnableSchedule>(schedule)) {
          for (std::int64_t p = 0; p < dim / 2; ++p) test_case.alpha.push_back(0.1 * rng.normal());
        }
        expect_exact(test_case, rng);
      }
    }
  }
}

}  // namespace
}  // namespace posenc
