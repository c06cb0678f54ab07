// Frequency schedules of RoPE, mostly for context extension (NTK, YaRN, LongRoPE, Llama 3).
//
// A schedule maps a base theta and a dimension to inv_freq, one angular frequency per rotated pair,
// and to an attention factor that multiplies cos and sin. With d the number of rotated channels,
//
//   base[i] = theta^(-2i/d),   i = 0 .. d/2 - 1
//
// Field names are those of a Hugging Face config.json. Where published systems disagree, a field
// selects the behaviour (YarnSchedule::magnitude, DynamicSchedule::length,
// LongRopeSchedule::switch_by); apply_profile sets these fields to match a given system.
#pragma once

#include <optional>
#include <span>
#include <variant>

#include "posenc/encodings/common.h"
#include "posenc/encodings/length.h"

namespace posenc {

// Schedules change only frequencies and magnitude, so all of them have the traits of RoPE.
constexpr Traits schedule_traits(std::string_view name, std::string_view title,
                                 std::string_view formula, std::string_view tex,
                                 std::string_view where, std::string_view paper) {
  return {.name = name,
          .site = Site::kQueryKey,
          .title = title,
          .formula = formula,
          .tex = tex,
          .where = where,
          .paper = paper,
          .relative = true,
          .extrapolates = true,
          .linear_attention = true};
}

// Rules of fields that several schedules share.
namespace schedule_rules {
constexpr FieldRule factor(std::string_view doc = "how many times longer than trained",
                           bool required = true) {
  return {.doc = doc,
          .min = 1,
          .max = 1e9,
          .required = required,
          .usual = log_range(1, 64),
          .example = "4"};
}
constexpr FieldRule trained_length(double min = 1) {
  return {.doc = "the trained length",
          .min = min,
          .max = 1e15,
          .required = true,
          .usual = log_range(128, 131072),
          .example = "2048"};
}
constexpr FieldRule per_pair(std::string_view doc, std::string_view example) {
  return {.doc = doc,
          .min = 0,
          .max = 1e9,
          .open_min = true,
          .required = true,
          .example = example,
          .pairs = Pairs::kEntryEach};
}
constexpr FieldRule positive(std::string_view doc, UsualRange usual,
                             std::string_view example = {}) {
  return {.doc = doc,
          .min = 0,
          .max = 1e9,
          .open_min = true,
          .required = !example.empty(),
          .usual = usual,
          .example = example};
}
constexpr FieldRule magnitude(std::string_view doc) {
  return {.doc = doc, .min = 0, .max = 1e6, .open_min = true, .advanced = true, .usual = {0.5, 2}};
}
constexpr FieldRule mscale(std::string_view doc) {
  return {.doc = doc, .min = 0, .max = 1e6, .advanced = true, .usual = {0, 2}};
}
}  // namespace schedule_rules

// inv_freq[i] = base[i].   Su et al. 2021, arXiv 2104.09864, section 3.2.2
struct DefaultSchedule {
  static constexpr Traits kTraits = schedule_traits(
      "default", "the original frequencies", "theta^(-2i/d)", R"(\omega_p = \theta^{-2p/d})",
      "The original frequencies: wavelengths grow geometrically from 2π to almost "
      "2πθ tokens.",
      "Su et al. 2021, arXiv 2104.09864");
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}
  bool operator==(const DefaultSchedule&) const = default;
};

// inv_freq[i] = base[i] / factor: positions are compressed into the trained range.
// Chen et al. 2023, arXiv 2306.15595, equation 4
struct LinearSchedule {
  double factor = 1.0;

  static constexpr Traits kTraits =
      schedule_traits("linear", "linear position interpolation", "theta^(-2i/d) / factor",
                      R"(\omega_p = \frac{\theta^{-2p/d}}{s})",
                      "s is factor: all positions are compressed into the trained range.",
                      "Chen et al. 2023, arXiv 2306.15595");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor, schedule_rules::factor());
  }
  bool operator==(const LinearSchedule&) const = default;
};

// theta' = theta * factor^(d/(d-2)): high frequencies hardly change, the lowest is divided by factor.
// "NTK-aware scaled RoPE" (bloc97, 2023); Peng et al. 2023, arXiv 2309.00071, section 3.1
struct NtkSchedule {
  double factor = 1.0;

  static constexpr Traits kTraits =
      schedule_traits("ntk", "NTK-aware base change", "(theta factor^(d/(d-2)))^(-2i/d)",
                      R"(\omega_p = \big(\theta\, s^{\,d/(d-2)}\big)^{-2p/d})",
                      "s is factor: fast pairs hardly change, the slowest rotates s times slower.",
                      "Peng et al. 2023, arXiv 2309.00071, section 3.1");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor, schedule_rules::factor());
  }
  bool operator==(const NtkSchedule&) const = default;
};

// theta' = theta * (factor n / max_pos - (factor - 1))^(d/(d-2)), n = max(seq_len, max_pos).
// length=fixed always uses n = factor * max_pos, as vLLM does, so cached keys stay valid;
// length=current uses the current sequence length, as Hugging Face does.
struct DynamicSchedule {
  enum class Length { kCurrent, kFixed };

  double factor = 1.0;
  std::int64_t max_position_embeddings = 2048;
  Length length = Length::kCurrent;

  [[nodiscard]] bool follows_length(const Lengths& /*lengths*/) const {
    return length == Length::kCurrent;
  }
  [[nodiscard]] NtkSchedule at(const Lengths& lengths) const;

  static constexpr Traits kTraits =
      schedule_traits("dynamic", "dynamic NTK: the base follows the length",
                      "theta' = theta (factor n/max - (factor-1))^(d/(d-2))",
                      R"(\theta' = \theta\left(\frac{s\,n}{N} - (s - 1)\right)^{d/(d-2)},\qquad )"
                      R"(n = \max(\text{length}, N))",
                      "N is the trained length: the base follows the length of the sequence.",
                      "Peng et al. 2023, arXiv 2309.00071, section 3.3");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor, schedule_rules::factor("strength of the change"));
    visit("max_position_embeddings", self.max_position_embeddings,
          schedule_rules::trained_length());
    visit("length", self.length,
          FieldRule{.doc = "use the current length (hf), or always factor * max (vllm)"});
  }
  bool operator==(const DynamicSchedule&) const = default;
};

// YaRN: low frequencies are interpolated, high ones unchanged, with a linear ramp in between; cos and
// sin are scaled.
//
//   corr(r) = d ln(orig/(2 pi r)) / (2 ln theta);  low = corr(beta_fast), high = corr(beta_slow)
//   ramp(i) = clamp((i - low)/(high - low), 0, 1)
//   inv_freq[i] = base[i]/factor * ramp(i) + base[i] * (1 - ramp(i))
//   g(s, m) = s <= 1 ? 1 : 0.1 m ln(s) + 1
//
// Peng et al. 2023, arXiv 2309.00071, equations 17 to 22.
struct YarnSchedule {
  // How the magnitude is computed, which differs between systems:
  enum class Magnitude {
    kReplace,   // hf: attention_factor, else g(mscale)/g(mscale_all_dim) if both, else g(1)
    kMultiply,  // vllm: g(1) * attn_factor; attention_factor and the mscale pair are ignored
    kRatio,     // vllm for DeepSeek's models: g(mscale)/g(mscale_all_dim) * attn_factor
    kUnitRatio  // llama.cpp: g(1)/g(mscale_all_dim); attention_factor is overwritten
  };

  double factor = 1.0;
  std::int64_t original_max_position_embeddings = 4096;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;
  std::optional<double> attention_factor = {};
  std::optional<double> attn_factor = {};
  std::optional<double> mscale = {};
  std::optional<double> mscale_all_dim = {};
  Magnitude magnitude = Magnitude::kReplace;
  bool softmax_mscale = false;

  static constexpr Traits kTraits = schedule_traits(
      "yarn", "YaRN: interpolation by frequency, and a magnitude",
      "base/factor ramp(i) + base (1 - ramp(i))",
      R"(\omega_p = \frac{\theta^{-2p/d}}{s}\,\rho_p + \theta^{-2p/d}\,(1 - \rho_p),\qquad )"
      R"(\rho_p = \mathrm{clamp}\!\left(\frac{p - p_{\mathrm{fast}}})"
      R"({p_{\mathrm{slow}} - p_{\mathrm{fast}}},\, 0,\, 1\right))",
      "Pairs with more than beta_fast rotations in training are unchanged, those with "
      "fewer than beta_slow are interpolated, with a ramp in between.",
      "Peng et al. 2023, arXiv 2309.00071");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor, schedule_rules::factor());
    visit("original_max_position_embeddings", self.original_max_position_embeddings,
          schedule_rules::trained_length());
    visit("beta_fast", self.beta_fast,
          schedule_rules::positive("pairs with more rotations are unchanged", log_range(2, 128)));
    visit("beta_slow", self.beta_slow,
          schedule_rules::positive("pairs with fewer rotations are interpolated",
                                   log_range(0.1, 16)));
    visit("truncate", self.truncate,
          FieldRule{.doc = "round the ramp's ends to whole pairs", .advanced = true});
    visit("attention_factor", self.attention_factor,
          schedule_rules::magnitude("explicit magnitude of cos and sin"));
    visit("attn_factor", self.attn_factor,
          schedule_rules::magnitude("vLLM's multiplier of the magnitude"));
    visit("mscale", self.mscale, schedule_rules::mscale("DeepSeek's numerator; 0 means absent"));
    visit("mscale_all_dim", self.mscale_all_dim,
          schedule_rules::mscale("DeepSeek's denominator; 0 means absent"));
    visit("magnitude", self.magnitude,
          FieldRule{.doc = "rule for the magnitude: replace (hf), multiply or ratio (vllm), "
                           "unit_ratio (llama.cpp)",
                    .advanced = true});
    visit("softmax_mscale", self.softmax_mscale,
          FieldRule{
              .doc = "also multiply the softmax scale by g(factor, mscale_all_dim)^2 (DeepSeek)",
              .advanced = true});
  }
  bool operator==(const YarnSchedule&) const = default;
};
constexpr std::array<std::string_view, 4> enum_names(YarnSchedule::Magnitude /*tag*/) {
  return {"replace", "multiply", "ratio", "unit_ratio"};
}
constexpr std::array<std::string_view, 2> enum_names(DynamicSchedule::Length /*tag*/) {
  return {"current", "fixed"};
}

// inv_freq[i] = base[i] / ext[i], ext = long_factor beyond the original length, else short_factor;
// attention factor sqrt(1 + ln(factor)/ln(original)).   Ding et al. 2024, arXiv 2402.13753
struct LongRopeSchedule {
  // The length that is compared with the original length: the current one (hf), the model's maximum
  // (vllm) or the configured context (llama.cpp).
  enum class SwitchBy { kCurrent, kMaximum, kContext };

  std::vector<double> short_factor = {};
  std::vector<double> long_factor = {};
  std::int64_t original_max_position_embeddings = 4096;
  std::int64_t max_position_embeddings = 0;
  std::optional<double> factor = {};
  std::optional<double> attention_factor = {};
  SwitchBy switch_by = SwitchBy::kCurrent;

  [[nodiscard]] bool follows_length(const Lengths& lengths) const {
    const bool open_ended = lengths.context == 0 || lengths.sequence > lengths.context;
    return switch_by == SwitchBy::kCurrent || (switch_by == SwitchBy::kContext && open_ended);
  }
  [[nodiscard]] LongRopeSchedule at(const Lengths& lengths) const;

  static constexpr Traits kTraits =
      schedule_traits("longrope", "LongRoPE: a searched factor per pair", "theta^(-2i/d) / ext_i",
                      R"(\omega_p = \frac{\theta^{-2p/d}}{\lambda_p})",
                      "λ is a searched factor per pair: one list up to the trained length, another "
                      "beyond it.",
                      "Ding et al. 2024, arXiv 2402.13753");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("short_factor", self.short_factor,
          schedule_rules::per_pair("one per pair, up to the original length", "[1, 1]"));
    visit("long_factor", self.long_factor,
          schedule_rules::per_pair("one per pair, beyond the original length", "[1, 4]"));
    visit("original_max_position_embeddings", self.original_max_position_embeddings,
          schedule_rules::trained_length(2));
    visit("max_position_embeddings", self.max_position_embeddings,
          rule_between("the extended length; sets factor if that is absent", 0, 1e15,
                       log_range(128, 131072)));
    visit("factor", self.factor, schedule_rules::factor("extended over trained length", false));
    visit("attention_factor", self.attention_factor,
          schedule_rules::magnitude("explicit magnitude of cos and sin"));
    visit(
        "switch_by", self.switch_by,
        FieldRule{.doc = "length that decides: current (hf), maximum (vllm), context (llama.cpp)"});
  }
  bool operator==(const LongRopeSchedule&) const = default;
};
constexpr std::array<std::string_view, 3> enum_names(LongRopeSchedule::SwitchBy /*tag*/) {
  return {"current", "maximum", "context"};
}

// With wavelength w = 2 pi / base: w > orig/low: base/factor; w < orig/high: base; between them
// s = (orig/w - low)/(high - low): (1-s) base/factor + s base.   Llama 3.1 (Meta, 2024)
struct Llama3Schedule {
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 8192;

  static constexpr Traits kTraits = schedule_traits(
      "llama3", "Llama 3.1: interpolation by wavelength",
      "base, base/factor, or a blend between two wavelengths",
      R"(\omega_p = \theta^{-2p/d}\,\Big(\frac{1 - t_p}{s} + t_p\Big),\qquad )"
      R"(t_p = \mathrm{clamp}\!\left(\frac{N/\lambda_p - a}{b - a},\, 0,\, 1\right))",
      "Short wavelengths are unchanged, long ones interpolated, those in between blended. λ is "
      "the wavelength at the original frequency, N the trained length, a and b are "
      "low_freq_factor and high_freq_factor.",
      "Llama team 2024, arXiv 2407.21783");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor, schedule_rules::factor());
    visit("low_freq_factor", self.low_freq_factor,
          schedule_rules::positive("wavelengths above original/this are interpolated",
                                   log_range(0.25, 8), "1"));
    visit("high_freq_factor", self.high_freq_factor,
          schedule_rules::positive("wavelengths below original/this are unchanged",
                                   log_range(1, 32), "4"));
    visit("original_max_position_embeddings", self.original_max_position_embeddings,
          schedule_rules::trained_length());
  }
  bool operator==(const Llama3Schedule&) const = default;
};

// The first int(partial * head_dim / 2) pairs have frequency theta^(-2i/head_dim) / factor; the
// others are not rotated.
struct ProportionalSchedule {
  double factor = 1.0;
  double partial_rotary_factor = 1.0;

  static constexpr Traits kTraits =
      schedule_traits("proportional", "a part of the pairs, spaced over the whole head",
                      "theta^(-2i/head_dim) / factor, then 0",
                      R"(\omega_p = \begin{cases}\theta^{-2p/d_{\text{head}}}/s )"
                      R"(& p < \rho\,d_{\text{head}}/2\\ 0 & \text{else}\end{cases})",
                      "ρ is partial_rotary_factor: the other pairs are not rotated.",
                      "Hugging Face transformers 5, rope_type proportional");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor,
          rule_between("how many times longer than trained", 1, 1e9, log_range(1, 64)));
    visit("partial_rotary_factor", self.partial_rotary_factor,
          rule_above("fraction of the pairs that are rotated", 0, 1, {0.05, 1}));
  }
  bool operator==(const ProportionalSchedule&) const = default;
};

// inv_freq[i] = 1/(1 + 2i): harmonic instead of geometric; theta is not used.
struct LinearIndexSchedule {
  static constexpr Traits kTraits = schedule_traits(
      "linear-index", "harmonic frequencies", "1/(1 + 2i)", R"(\omega_p = \frac{1}{1 + 2p})",
      "Harmonic frequencies; theta is not used.", "a variant of Su et al. 2021, arXiv 2104.09864");
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}
  bool operator==(const LinearIndexSchedule&) const = default;
};

// inv_freq[i] = base[i] * exp(alpha[i]) with trained alpha, initially 0: always positive, and a change
// of alpha is a relative change of the frequency.
struct LearnableSchedule {
  static constexpr Traits kTraits = schedule_traits(
      "learnable", "trained frequencies", "theta^(-2i/d) exp(alpha_i)",
      R"(\omega_p = \theta^{-2p/d}\, e^{\alpha_p})", "α is trained and initially 0.",
      "a variant of Su et al. 2021, arXiv 2104.09864");
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}
  bool operator==(const LearnableSchedule&) const = default;
};

using Schedule = std::variant<DefaultSchedule, LinearSchedule, NtkSchedule, DynamicSchedule,
                              YarnSchedule, LongRopeSchedule, Llama3Schedule, ProportionalSchedule,
                              LinearIndexSchedule, LearnableSchedule>;

struct ScheduleInput {
  double theta = 10000.0;
  std::int64_t dim = 0;  // rotated channels that share this set of frequencies
  std::int64_t head_dim = 0;
  Lengths lengths = {};
  Precision precision = Precision::kExact;
};

struct ScheduleOutput {
  std::vector<double> inv_freq;   // dim/2 of them
  double attention_factor = 1.0;  // multiplies cos and sin
  double softmax_factor = 1.0;    // multiplies the softmax scale
};

// Frequencies of a schedule. Throws Error if its fields are inconsistent or do not fit the dimension
// (LongRoPE's lists, for example). Only length-dependent schedules (length.h) receive the sequence
// length.
ScheduleOutput evaluate(const Schedule& schedule, const ScheduleInput& input);

// Systems that a profile can match.
enum class Profile { kHf, kVllm, kLlamaCpp };
constexpr std::array<std::string_view, 3> enum_names(Profile /*tag*/) {
  return {"hf", "vllm", "llama.cpp"};
}

// The schedule with the fields on which systems disagree set to match `profile`. Set `deepseek` for
// DeepSeek's models, for which vLLM has a different YaRN.
Schedule apply_profile(Schedule schedule, Profile profile, bool deepseek = false);

}  // namespace posenc

// SPDX-License-Identifier: MIT
