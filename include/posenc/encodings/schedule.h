// Frequency schedules: the second axis of RoPE, orthogonal to rotation.
//
// A schedule turns a base theta and a dimension into inv_freq, one angular frequency per rotated
// pair, and an attention factor that multiplies cos and sin. With d the number of rotated channels,
//
//   base[i] = theta^(-2i/d),   i = 0 .. d/2 - 1
//
// and the names of the fields are those of a Hugging Face config.json, so that what stands there
// can be written here. Where published systems disagree, a field names the choice
// (YarnSchedule::magnitude, DynamicSchedule::length, LongRopeSchedule::switch_by), and
// apply_profile sets them as a system does.
#pragma once

#include <optional>
#include <span>
#include <variant>

#include "posenc/encodings/common.h"
#include "posenc/encodings/length.h"

namespace posenc {

// Schedules change frequencies and nothing else: what RoPE is, each of them leaves it.
constexpr Traits schedule_traits(std::string_view name, std::string_view title,
                                 std::string_view formula, std::string_view paper) {
  return {.name = name,
          .site = Site::kQueryKey,
          .title = title,
          .formula = formula,
          .paper = paper,
          .relative = true,
          .extrapolates = true,
          .linear_attention = true};
}

// inv_freq[i] = base[i].   Su et al. 2021, arXiv 2104.09864, section 3.2.2
struct DefaultSchedule {
  static constexpr Traits kTraits = schedule_traits(
      "default", "the original frequencies", "theta^(-2i/d)", "Su et al. 2021, arXiv 2104.09864");
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}
  bool operator==(const DefaultSchedule&) const = default;
};

// inv_freq[i] = base[i] / factor: positions squeezed into the trained range.
// Chen et al. 2023, arXiv 2306.15595, equation 4
struct LinearSchedule {
  double factor = 1.0;

  static constexpr Traits kTraits =
      schedule_traits("linear", "linear position interpolation", "theta^(-2i/d) / factor",
                      "Chen et al. 2023, arXiv 2306.15595");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor,
          FieldRule{
              .doc = "how many times longer than trained", .min = 1, .max = 1e9, .required = true});
  }
  bool operator==(const LinearSchedule&) const = default;
};

// theta' = theta * factor^(d/(d-2)): high frequencies stay, the lowest is divided by factor.
// "NTK-aware scaled RoPE" (bloc97, 2023); Peng et al. 2023, arXiv 2309.00071, section 3.1
struct NtkSchedule {
  double factor = 1.0;

  static constexpr Traits kTraits =
      schedule_traits("ntk", "NTK-aware base change", "(theta factor^(d/(d-2)))^(-2i/d)",
                      "Peng et al. 2023, arXiv 2309.00071, section 3.1");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor,
          FieldRule{
              .doc = "how many times longer than trained", .min = 1, .max = 1e9, .required = true});
  }
  bool operator==(const NtkSchedule&) const = default;
};

// theta' = theta * (factor n / max_pos - (factor - 1))^(d/(d-2)), n = max(seq_len, max_pos).
// length=fixed takes n = factor * max_pos once and for all, as vLLM does, so that cached keys stay
// valid; length=current follows the sequence, as Hugging Face does.
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
                      "Peng et al. 2023, arXiv 2309.00071, section 3.3");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor,
          FieldRule{.doc = "strength of the change", .min = 1, .max = 1e9, .required = true});
    visit("max_position_embeddings", self.max_position_embeddings,
          FieldRule{.doc = "the trained length", .min = 1, .max = 1e15, .required = true});
    visit("length", self.length,
          FieldRule{.doc = "follow the current length (hf), or take factor * max once (vllm)"});
  }
  bool operator==(const DynamicSchedule&) const = default;
};

// YaRN: low frequencies interpolate, high ones stay, a ramp in between; cos and sin are scaled.
//
//   corr(r) = d ln(orig/(2 pi r)) / (2 ln theta);  low = corr(beta_fast), high = corr(beta_slow)
//   ramp(i) = clamp((i - low)/(high - low), 0, 1)
//   inv_freq[i] = base[i]/factor * ramp(i) + base[i] * (1 - ramp(i))
//   g(s, m) = s <= 1 ? 1 : 0.1 m ln(s) + 1
//
// Peng et al. 2023, arXiv 2309.00071, equations 17 to 22.
struct YarnSchedule {
  // What becomes of the magnitude; systems differ:
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
  std::optional<double> attention_factor;
  std::optional<double> attn_factor;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  Magnitude magnitude = Magnitude::kReplace;
  bool softmax_mscale = false;

  static constexpr Traits kTraits = schedule_traits(
      "yarn", "YaRN: interpolation by frequency, and a magnitude",
      "base/factor ramp(i) + base (1 - ramp(i))", "Peng et al. 2023, arXiv 2309.00071");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor,
          FieldRule{
              .doc = "how many times longer than trained", .min = 1, .max = 1e9, .required = true});
    visit("original_max_position_embeddings", self.original_max_position_embeddings,
          FieldRule{.doc = "the trained length", .min = 1, .max = 1e15, .required = true});
    visit("beta_fast", self.beta_fast,
          FieldRule{.doc = "pairs with more rotations than this stay",
                    .min = 0,
                    .max = 1e9,
                    .open_min = true});
    visit("beta_slow", self.beta_slow,
          FieldRule{.doc = "pairs with fewer rotations than this interpolate",
                    .min = 0,
                    .max = 1e9,
                    .open_min = true});
    visit("truncate", self.truncate, FieldRule{.doc = "round the ramp's ends to whole pairs"});
    visit("attention_factor", self.attention_factor,
          FieldRule{
              .doc = "explicit magnitude of cos and sin", .min = 0, .max = 1e6, .open_min = true});
    visit("attn_factor", self.attn_factor,
          FieldRule{
              .doc = "vLLM's multiplier of the magnitude", .min = 0, .max = 1e6, .open_min = true});
    visit("mscale", self.mscale,
          FieldRule{.doc = "DeepSeek's numerator; 0 means absent", .min = 0, .max = 1e6});
    visit("mscale_all_dim", self.mscale_all_dim,
          FieldRule{.doc = "DeepSeek's denominator; 0 means absent", .min = 0, .max = 1e6});
    visit("magnitude", self.magnitude,
          FieldRule{.doc = "who decides the magnitude: replace (hf), multiply or ratio (vllm), "
                           "unit_ratio (llama.cpp)"});
    visit("softmax_mscale", self.softmax_mscale,
          FieldRule{
              .doc = "also multiply the softmax scale by g(factor, mscale_all_dim)^2 (DeepSeek)"});
  }
  bool operator==(const YarnSchedule&) const = default;
};
constexpr std::array<std::string_view, 4> enum_names(YarnSchedule::Magnitude /*tag*/) {
  return {"replace", "multiply", "ratio", "unit_ratio"};
}
constexpr std::array<std::string_view, 2> enum_names(DynamicSchedule::Length /*tag*/) {
  return {"current", "fixed"};
}

// inv_freq[i] = base[i] / ext[i], ext = long_factor past the original length, else short_factor;
// attention factor sqrt(1 + ln(factor)/ln(original)).   Ding et al. 2024, arXiv 2402.13753
struct LongRopeSchedule {
  // What is compared with the original length: the current length (hf), the model's maximum (vllm)
  // or the context that was set up (llama.cpp).
  enum class SwitchBy { kCurrent, kMaximum, kContext };

  std::vector<double> short_factor;
  std::vector<double> long_factor;
  std::int64_t original_max_position_embeddings = 4096;
  std::int64_t max_position_embeddings = 0;
  std::optional<double> factor;
  std::optional<double> attention_factor;
  SwitchBy switch_by = SwitchBy::kCurrent;

  [[nodiscard]] bool follows_length(const Lengths& lengths) const {
    const bool open_ended = lengths.context == 0 || lengths.sequence > lengths.context;
    return switch_by == SwitchBy::kCurrent || (switch_by == SwitchBy::kContext && open_ended);
  }
  [[nodiscard]] LongRopeSchedule at(const Lengths& lengths) const;

  static constexpr Traits kTraits =
      schedule_traits("longrope", "LongRoPE: a searched factor per pair", "theta^(-2i/d) / ext_i",
                      "Ding et al. 2024, arXiv 2402.13753");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("short_factor", self.short_factor,
          FieldRule{.doc = "one per pair, up to the original length",
                    .min = 0,
                    .max = 1e9,
                    .open_min = true,
                    .required = true});
    visit("long_factor", self.long_factor,
          FieldRule{.doc = "one per pair, past the original length",
                    .min = 0,
                    .max = 1e9,
                    .open_min = true,
                    .required = true});
    visit("original_max_position_embeddings", self.original_max_position_embeddings,
          FieldRule{.doc = "the trained length", .min = 2, .max = 1e15, .required = true});
    visit("max_position_embeddings", self.max_position_embeddings,
          FieldRule{.doc = "the extended length; gives factor where that is absent",
                    .min = 0,
                    .max = 1e15});
    visit("factor", self.factor,
          FieldRule{.doc = "extended over trained length", .min = 1, .max = 1e9});
    visit("attention_factor", self.attention_factor,
          FieldRule{
              .doc = "explicit magnitude of cos and sin", .min = 0, .max = 1e6, .open_min = true});
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
      "base, base/factor, or a blend between two wavelengths", "Llama team 2024, arXiv 2407.21783");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor,
          FieldRule{
              .doc = "how many times longer than trained", .min = 1, .max = 1e9, .required = true});
    visit("low_freq_factor", self.low_freq_factor,
          FieldRule{.doc = "wavelengths above original/this interpolate",
                    .min = 0,
                    .max = 1e9,
                    .open_min = true,
                    .required = true});
    visit("high_freq_factor", self.high_freq_factor,
          FieldRule{.doc = "wavelengths below original/this stay",
                    .min = 0,
                    .max = 1e9,
                    .open_min = true,
                    .required = true});
    visit("original_max_position_embeddings", self.original_max_position_embeddings,
          FieldRule{.doc = "the trained length", .min = 1, .max = 1e15, .required = true});
  }
  bool operator==(const Llama3Schedule&) const = default;
};

// The first int(partial * head_dim / 2) pairs turn with theta^(-2i/head_dim) / factor; the others
// do not turn at all.
struct ProportionalSchedule {
  double factor = 1.0;
  double partial_rotary_factor = 1.0;

  static constexpr Traits kTraits =
      schedule_traits("proportional", "a part of the pairs, spaced over the whole head",
                      "theta^(-2i/head_dim) / factor, then 0",
                      "Hugging Face transformers 5, rope_type proportional");
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("factor", self.factor,
          FieldRule{.doc = "how many times longer than trained", .min = 1, .max = 1e9});
    visit("partial_rotary_factor", self.partial_rotary_factor,
          FieldRule{.doc = "share of the pairs that turn", .min = 0, .max = 1, .open_min = true});
  }
  bool operator==(const ProportionalSchedule&) const = default;
};

// inv_freq[i] = 1/(1 + 2i): harmonic instead of geometric; theta is not used.
struct LinearIndexSchedule {
  static constexpr Traits kTraits =
      schedule_traits("linear-index", "harmonic frequencies", "1/(1 + 2i)",
                      "a variant of Su et al. 2021, arXiv 2104.09864");
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}
  bool operator==(const LinearIndexSchedule&) const = default;
};

// inv_freq[i] = base[i] * exp(alpha[i]), alpha learned and 0 at the start: always positive, and a
// step in alpha is a relative step in frequency.
struct LearnableSchedule {
  static constexpr Traits kTraits =
      schedule_traits("learnable", "trained frequencies", "theta^(-2i/d) exp(alpha_i)",
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
  Lengths lengths;
  Precision precision = Precision::kExact;
};

struct ScheduleOutput {
  std::vector<double> inv_freq;   // dim/2 of them
  double attention_factor = 1.0;  // multiplies cos and sin
  double softmax_factor = 1.0;    // multiplies the softmax scale
};

// Frequencies under a schedule; throws where the schedule's fields do not fit together or do not
// fit the dimension (LongRoPE's lists, for one). The length of the sequence is read by schedules that
// follow it (length.h); the others are not told.
ScheduleOutput evaluate(const Schedule& schedule, const ScheduleInput& input);

// The systems whose choices a profile takes over.
enum class Profile { kHf, kVllm, kLlamaCpp };
constexpr std::array<std::string_view, 3> enum_names(Profile /*tag*/) {
  return {"hf", "vllm", "llama.cpp"};
}

// The schedule with every field on which the systems disagree set as the named one sets it.
// `deepseek` tells models whose YaRN vLLM treats in its own way.
Schedule apply_profile(Schedule schedule, Profile profile, bool deepseek = false);

}  // namespace posenc
