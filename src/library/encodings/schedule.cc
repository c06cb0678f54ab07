#include "posenc/encodings/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/value.h"
#include "encodings/hf_pow.h"
#include "posenc/core/error.h"

namespace posenc {
namespace {

Error schedule_error(ErrorKind kind, std::string_view scope, const std::string& key,
                     const std::string& rule, const std::string& value,
                     const std::string& hint = "") {
  return {kind,
          {.scope = std::string(scope), .key = key, .rule = rule, .value = value, .hint = hint}};
}

// theta^(2i/dim), rounded to Real wherever Hugging Face rounds to float32.
template <class Real>
std::vector<Real> powers(double theta, std::int64_t count, std::int64_t dim) {
  std::vector<Real> exponents;
  for (std::int64_t i = 0; i < count; ++i) {
    exponents.push_back(static_cast<Real>(2 * i) / static_cast<Real>(dim));
  }
  if constexpr (std::is_same_v<Real, float>) return hf_powers(static_cast<float>(theta), exponents);
  for (Real& x : exponents) x = std::pow(static_cast<Real>(theta), x);
  return exponents;
}

template <class Real>
std::vector<Real> base_frequencies(double theta, std::int64_t dim) {
  std::vector<Real> result = powers<Real>(theta, dim / 2, dim);
  for (Real& p : result) p = Real{1} / p;
  return result;
}

double ntk_base(std::string_view scope, double theta, double scale, std::int64_t dim) {
  if (dim < 4) {
    throw schedule_error(ErrorKind::kOutOfRange, scope, "rotary_dim",
                         "must be >= 4, since the base grows by factor^(d/(d-2)),",
                         std::to_string(dim));
  }
  const auto d = static_cast<double>(dim);
  return theta * std::pow(scale, d / (d - 2.0));
}

double yarn_magnitude(double scale, double mscale) {
  return scale <= 1.0 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

double yarn_attention_factor(const YarnSchedule& y) {
  const double mscale = y.mscale.value_or(0.0);
  const double all_dim = y.mscale_all_dim.value_or(0.0);
  const double plain = yarn_magnitude(y.factor, 1.0);
  switch (y.magnitude) {
    case YarnSchedule::Magnitude::kReplace:
      if (y.attention_factor) return *y.attention_factor;
      if (mscale == 0.0 || all_dim == 0.0) return plain;
      return yarn_magnitude(y.factor, mscale) / yarn_magnitude(y.factor, all_dim);
    case YarnSchedule::Magnitude::kMultiply:
      return plain * y.attn_factor.value_or(1.0);
    case YarnSchedule::Magnitude::kRatio:
      return yarn_magnitude(y.factor, y.mscale.value_or(1.0)) / yarn_magnitude(y.factor, all_dim) *
             y.attn_factor.value_or(1.0);
    case YarnSchedule::Magnitude::kUnitRatio:
      return plain / yarn_magnitude(y.factor, all_dim);
  }
  return plain;
}

struct Ramp {
  double low = 0.0;
  double high = 0.0;
};

Ramp yarn_ramp(const YarnSchedule& y, double theta, std::int64_t dim) {
  const auto d = static_cast<double>(dim);
  const auto original = static_cast<double>(y.original_max_position_embeddings);
  const auto correction = [&](double rotations) {
    return d * std::log(original / (rotations * 2.0 * std::numbers::pi)) / (2.0 * std::log(theta));
  };
  Ramp ramp{correction(y.beta_fast), correction(y.beta_slow)};
  if (y.truncate) ramp = {std::floor(ramp.low), std::ceil(ramp.high)};
  ramp = {std::max(ramp.low, 0.0), std::min(ramp.high, d - 1.0)};
  if (ramp.low == ramp.high) ramp.high += 0.001;
  return ramp;
}

// The length that LongRoPE compares with the original one.
std::int64_t deciding_length(const LongRopeSchedule& s, const Lengths& lengths) {
  if (s.switch_by == LongRopeSchedule::SwitchBy::kCurrent) return lengths.sequence;
  if (s.switch_by == LongRopeSchedule::SwitchBy::kContext) {
    return std::max(lengths.context, lengths.sequence);
  }
  if (s.max_position_embeddings > 0) return s.max_position_embeddings;
  throw schedule_error(ErrorKind::kMissingKey, "longrope", "max_position_embeddings",
                       "is required with switch_by=maximum", "", "add it");
}

// One functor per precision; each schedule is one overload, and the compiler says which is missing.
template <class Real>
struct Evaluate {
  const ScheduleInput& in;

  [[nodiscard]] ScheduleOutput of_base(double theta) const {
    return output(base_frequencies<Real>(theta, in.dim));
  }
  static ScheduleOutput output(const std::vector<Real>& inv_freq, double attention_factor = 1.0) {
    return {std::vector<double>(inv_freq.begin(), inv_freq.end()), attention_factor, 1.0};
  }

  ScheduleOutput operator()(const DefaultSchedule& /*s*/) const { return of_base(in.theta); }
  ScheduleOutput operator()(const LearnableSchedule& /*s*/) const { return of_base(in.theta); }

  ScheduleOutput operator()(const LinearSchedule& s) const {
    std::vector<Real> inv = base_frequencies<Real>(in.theta, in.dim);
    for (Real& f : inv) f /= static_cast<Real>(s.factor);
    return output(inv);
  }

  ScheduleOutput operator()(const NtkSchedule& s) const {
    return of_base(ntk_base("ntk", in.theta, s.factor, in.dim));
  }

  ScheduleOutput operator()(const DynamicSchedule& s) const {
    return of_base(ntk_base("dynamic", in.theta, s.at(in.lengths).factor, in.dim));
  }

  ScheduleOutput operator()(const YarnSchedule& s) const {
    if (s.beta_fast < s.beta_slow) {
      throw schedule_error(ErrorKind::kConflict, "yarn", "beta_fast",
                           "must not be below beta_slow (" + number_text(s.beta_slow) + ")",
                           number_text(s.beta_fast));
    }
    const Ramp ends = yarn_ramp(s, in.theta, in.dim);
    const std::vector<Real> p = powers<Real>(in.theta, in.dim / 2, in.dim);
    std::vector<Real> inv;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const Real position = (static_cast<Real>(i) - static_cast<Real>(ends.low)) /
                            static_cast<Real>(ends.high - ends.low);
      const Real keep = Real{1} - std::clamp(position, Real{0}, Real{1});
      const Real interpolated = Real{1} / (static_cast<Real>(s.factor) * p[i]);
      inv.push_back(interpolated * (Real{1} - keep) + Real{1} / p[i] * keep);
    }
    ScheduleOutput result = output(inv, yarn_attention_factor(s));
    if (s.softmax_mscale) {
      const double g = yarn_magnitude(s.factor, s.mscale_all_dim.value_or(0.0));
      result.softmax_factor = g * g;
    }
    return result;
  }

  ScheduleOutput operator()(const LongRopeSchedule& s) const {
    check_length("short_factor", s.short_factor);
    check_length("long_factor", s.long_factor);
    const std::vector<double> ext = s.at(in.lengths).long_factor;
    std::vector<Real> inv = powers<Real>(in.theta, in.dim / 2, in.dim);
    for (std::size_t i = 0; i < inv.size(); ++i)
      inv[i] = Real{1} / (static_cast<Real>(ext[i]) * inv[i]);
    return output(inv, longrope_attention_factor(s));
  }

  ScheduleOutput operator()(const Llama3Schedule& s) const {
    if (s.high_freq_factor <= s.low_freq_factor) {
      throw schedule_error(ErrorKind::kConflict, "llama3", "high_freq_factor",
                           "must be above low_freq_factor (" + number_text(s.low_freq_factor) + ")",
                           number_text(s.high_freq_factor));
    }
    const auto original = static_cast<Real>(s.original_max_position_embeddings);
    const auto factor = static_cast<Real>(s.factor);
    const auto low = static_cast<Real>(s.low_freq_factor);
    std::vector<Real> inv = base_frequencies<Real>(in.theta, in.dim);
    for (Real& f : inv) {
      const Real wavelength = static_cast<Real>(2.0 * std::numbers::pi) / f;
      if (wavelength > static_cast<Real>(original / s.low_freq_factor)) {
        f /= factor;
      } else if (wavelength >= static_cast<Real>(original / s.high_freq_factor)) {
        const Real smooth = (original / wavelength - low) /
                            static_cast<Real>(s.high_freq_factor - s.low_freq_factor);
        f = (Real{1} - smooth) * f / factor + smooth * f;
      }
    }
    return output(inv);
  }

  ScheduleOutput operator()(const ProportionalSchedule& s) const {
    if (in.dim != in.head_dim) {
      throw schedule_error(ErrorKind::kConflict, "proportional", "rotary_dim",
                           fmt::format("must be the head dimension ({})", in.head_dim),
                           std::to_string(in.dim), "use partial_rotary_factor instead");
    }
    const auto turning =
        static_cast<std::int64_t>(s.partial_rotary_factor * static_cast<double>(in.head_dim) / 2.0);
    std::vector<Real> inv = powers<Real>(in.theta, turning, in.head_dim);
    for (Real& p : inv) p = Real{1} / p / static_cast<Real>(s.factor);
    inv.resize(in.dim / 2, Real{0});
    return output(inv);
  }

  ScheduleOutput operator()(const LinearIndexSchedule& /*s*/) const {
    std::vector<Real> inv;
    for (std::int64_t i = 0; i < in.dim / 2; ++i)
      inv.push_back(Real{1} / static_cast<Real>(1 + 2 * i));
    return output(inv);
  }

 private:
  void check_length(const char* key, const std::vector<double>& list) const {
    const auto pairs = static_cast<std::size_t>(in.dim / 2);
    if (list.size() == pairs) return;
    throw schedule_error(ErrorKind::kWrongLength, "longrope", key,
                         fmt::format("must have one entry per rotated pair ({})", pairs),
                         fmt::format("{} entries", list.size()));
  }

  static double longrope_attention_factor(const LongRopeSchedule& s) {
    if (s.attention_factor) return *s.attention_factor;
    const auto original = static_cast<double>(s.original_max_position_embeddings);
    if (!s.factor && s.max_position_embeddings == 0) {
      throw schedule_error(ErrorKind::kMissingKey, "longrope", "factor", "is required", "",
                           "add factor=..., max_position_embeddings=... or attention_factor=...");
    }
    const double factor =
        s.factor.value_or(static_cast<double>(s.max_position_embeddings) / original);
    return factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original));
  }
};

struct ApplyProfile {
  Profile profile;
  bool deepseek;

  template <class Other>
  void operator()(Other& /*s*/) const {}

  void operator()(DynamicSchedule& s) const {
    if (profile == Profile::kLlamaCpp) {
      throw schedule_error(ErrorKind::kUnsupported, "dynamic", "profile", "must be hf or vllm",
                           "llama.cpp",
                           "llama.cpp has no dynamic NTK; use ntk with a fixed factor");
    }
    s.length = profile == Profile::kVllm ? DynamicSchedule::Length::kFixed
                                         : DynamicSchedule::Length::kCurrent;
  }

  void operator()(YarnSchedule& s) const {
    using Magnitude = YarnSchedule::Magnitude;
    if (profile == Profile::kHf) s.magnitude = Magnitude::kReplace;
    if (profile == Profile::kVllm)
      s.magnitude = deepseek ? Magnitude::kRatio : Magnitude::kMultiply;
    if (profile == Profile::kLlamaCpp) s.magnitude = Magnitude::kUnitRatio;
    // Neither llama.cpp nor vLLM's variant for DeepSeek can leave the ramp's ends unrounded.
    if (profile == Profile::kLlamaCpp || (profile == Profile::kVllm && deepseek)) s.truncate = true;
  }

  void operator()(LongRopeSchedule& s) const {
    using SwitchBy = LongRopeSchedule::SwitchBy;
    constexpr std::array<SwitchBy, 3> kChoices = {SwitchBy::kCurrent, SwitchBy::kMaximum,
                                                  SwitchBy::kContext};
    s.switch_by = kChoices[static_cast<std::size_t>(profile)];
  }
};

}  // namespace

NtkSchedule DynamicSchedule::at(const Lengths& lengths) const {
  const auto trained = static_cast<double>(max_position_embeddings);
  const double n = length == Length::kFixed
                       ? trained * factor
                       : std::max(static_cast<double>(lengths.sequence), trained);
  return {.factor = factor * n / trained - (factor - 1.0)};
}

LongRopeSchedule LongRopeSchedule::at(const Lengths& lengths) const {
  LongRopeSchedule fixed = *this;
  const bool past = deciding_length(*this, lengths) > original_max_position_embeddings;
  (past ? fixed.short_factor : fixed.long_factor) = past ? long_factor : short_factor;
  fixed.switch_by = SwitchBy::kMaximum;
  // Both lists are alike, so any maximum will do; one that is absent must not become the factor.
  if (max_position_embeddings == 0 && (factor || attention_factor)) {
    fixed.max_position_embeddings = original_max_position_embeddings;
  }
  return fixed;
}

ScheduleOutput evaluate(const Schedule& schedule, const ScheduleInput& input) {
  if (input.dim <= 0 || input.dim % 2 != 0) {
    throw schedule_error(ErrorKind::kOutOfRange, "rope", "rotary_dim", "must be even and positive",
                         std::to_string(input.dim));
  }
  ScheduleInput told = input;
  if (!follows_length(schedule, input.lengths)) told.lengths.sequence = 0;
  if (input.precision == Precision::kHf) return std::visit(Evaluate<float>{told}, schedule);
  return std::visit(Evaluate<double>{told}, schedule);
}

Schedule apply_profile(Schedule schedule, Profile profile, bool deepseek) {
  std::visit(ApplyProfile{profile, deepseek}, schedule);
  return schedule;
}

}  // namespace posenc
