// What every encoding has: a place in attention (Site), traits, a shape to live in, parameters and inputs.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "posenc/core/fields.h"
#include "posenc/core/rng.h"

namespace posenc {

// Where position enters attention; posenc.h states the five sites as one formula.
enum class Site { kNone, kInput, kQueryKey, kBias, kContent, kSoftmax };
constexpr std::array<std::string_view, 6> enum_names(Site /*tag*/) {
  return {"none", "input", "query/key", "bias", "content", "softmax"};
}

struct Traits {
  std::string_view name = {};  // as it is written in a spec
  Site site = Site::kNone;
  std::string_view title = {};
  std::string_view formula = {};  // as plain text
  std::string_view tex = {};      // as LaTeX, in the subset that KaTeX reads
  std::string_view where = {};    // the letters of tex, in a sentence
  std::string_view paper = {};
  bool relative = false;          // scores depend on i - j alone (given the content)
  bool extrapolates = false;      // defined at every position, trained on or not
  bool linear_attention = false;  // can be used without a T x T matrix of scores
};

// The part of a model that an encoding must know.
struct ModelShape {
  std::int64_t head_dim = 64;
  std::int64_t heads = 1;
  std::int64_t model_dim = 0;  // 0 means heads * head_dim

  [[nodiscard]] std::int64_t width() const { return model_dim > 0 ? model_dim : heads * head_dim; }
};

// What raw scores are multiplied by, unless a call says otherwise.
inline double default_scale(std::int64_t head_dim) {
  return 1.0 / std::sqrt(static_cast<double>(head_dim));
}

// Positions from -kLargestPosition to kLargestPosition are exact in float64; a larger one would be
// rounded to another position before its angle is computed, so every operation refuses it.
inline constexpr std::int64_t kLargestPosition = std::int64_t{1} << 53;
inline constexpr std::string_view kPositionRule = "must be in [-2^53, 2^53]";
constexpr bool is_exact_position(std::int64_t position) {
  return position >= -kLargestPosition && position <= kLargestPosition;
}
// Throws Error where it is not: [rope] positions must be in [-2^53, 2^53] but got ...
void require_exact_position(std::string_view scope, std::string_view key, std::int64_t position);

// How a parameter starts: constant a; normal with deviation a; uniform in [a, b); or given values.
struct Init {
  enum class Kind { kConstant, kNormal, kUniform, kValues };
  Kind kind = Kind::kConstant;
  double a = 0.0;
  double b = 0.0;
  std::vector<double> values;
};

struct ParameterInfo {
  std::string name;  // without the encoding's own name: "slopes", "pos_emb"
  std::vector<std::int64_t> shape;
  Init init;
  bool trainable = true;  // false: a constant that the formula reads, such as ALiBi's fixed slopes

  [[nodiscard]] std::int64_t count() const;
};

// Values (or gradients) of an encoding's parameters, row-major, in the order of its ParameterInfo.
using Parameters = std::vector<std::vector<double>>;

Parameters initial_parameters(const std::vector<ParameterInfo>& infos, Rng& rng);
Parameters zero_parameters(const std::vector<ParameterInfo>& infos);

// A tensor with a row per key that attention reads for an encoding, next to q, k and v:
// [B, heads, Tk, channels], differentiated as they are. A module makes it from its own input with a linear
// layer.
struct InputInfo {
  enum class Heads { kQuery, kKey };
  // kUnitNorm: the channels of a head are divided by their length.
  enum class Activation { kNone, kLogSigmoid, kTwiceSigmoid, kUnitNorm };

  std::string name;  // without the encoding's own name: "gate_k"
  Heads heads = Heads::kKey;
  std::int64_t channels = 0;
  bool float32 = false;    // float32 even where q has 16 bits; else of the type of q
  std::string projection;  // the name of the linear layer
  Activation activation = Activation::kNone;  // after the layer
  double shift = 0.0;                         // added before the activation

  // Whether the layer has a bias in every module: gates need one.
  [[nodiscard]] bool has_bias() const {
    return activation == Activation::kLogSigmoid || activation == Activation::kTwiceSigmoid;
  }

  [[nodiscard]] std::int64_t head_count(std::int64_t query_heads, std::int64_t key_heads) const {
    return heads == Heads::kQuery ? query_heads : key_heads;
  }
};

// Of tables that training starts from a normal distribution.
inline constexpr FieldRule kInitStdRule{
    .doc = "standard deviation of the initial weights", .min = 0, .max = 100, .usual = {0, 2}};

// Whether angles and slopes are computed in float64 (exact), or rounded to float32 at every step as
// Hugging Face transformers rounds them (hf), for parity with models run there.
enum class Precision { kExact, kHf };
constexpr std::array<std::string_view, 2> enum_names(Precision /*tag*/) { return {"exact", "hf"}; }

}  // namespace posenc
