// Types shared by all encodings: site, traits, model shape, parameters and inputs.
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
  std::string_view name = {};  // in a spec
  Site site = Site::kNone;
  std::string_view title = {};
  std::string_view formula = {};  // as plain text
  std::string_view tex = {};      // as LaTeX, in the subset that KaTeX supports
  std::string_view where = {};    // a sentence that explains the symbols in tex
  std::string_view paper = {};
  bool relative = false;          // scores depend on positions only through i - j
  bool extrapolates = false;      // defined at positions that were not seen in training
  bool linear_attention = false;  // works without a T x T matrix of scores
};

// The dimensions of a model that encodings depend on.
struct ModelShape {
  std::int64_t head_dim = 64;
  std::int64_t heads = 1;
  std::int64_t model_dim = 0;  // 0 means heads * head_dim

  [[nodiscard]] std::int64_t width() const { return model_dim > 0 ? model_dim : heads * head_dim; }
};

// The scale of raw scores, unless a call sets another.
inline double default_scale(std::int64_t head_dim) {
  return 1.0 / std::sqrt(static_cast<double>(head_dim));
}

// Positions from -kLargestPosition to kLargestPosition are exact in float64. Larger ones would be
// rounded to another position before the angle is computed, so every operation rejects them.
inline constexpr std::int64_t kLargestPosition = std::int64_t{1} << 53;
inline constexpr std::string_view kPositionRule = "must be in [-2^53, 2^53]";
constexpr bool is_exact_position(std::int64_t position) {
  return position >= -kLargestPosition && position <= kLargestPosition;
}
// Throws Error if it is not exact: [rope] positions must be in [-2^53, 2^53] but got ...
void require_exact_position(std::string_view scope, std::string_view key, std::int64_t position);

// Initial values: the constant a; normal with standard deviation a; uniform in [a, b); or `values`.
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
  bool trainable = true;  // false: a constant of the formula, such as ALiBi's fixed slopes
  // Zeros in all such parameters make the encoding the identity, and its gradients do not vanish there, so a
  // trained model can get it as it is: a table of biases, but not ALiBi's slopes.
  bool identity_at_zero = false;

  [[nodiscard]] std::int64_t count() const;
};

// Values (or gradients) of an encoding's parameters, row-major, in the order of its ParameterInfo.
using Parameters = std::vector<std::vector<double>>;

Parameters initial_parameters(const std::vector<ParameterInfo>& infos, Rng& rng);
Parameters zero_parameters(const std::vector<ParameterInfo>& infos);

// An extra input of attention that an encoding needs in addition to q, k and v, with a row per key:
// [B, heads, Tk, channels]. It is differentiable. Modules compute it from their input with a linear layer.
struct InputInfo {
  enum class Heads { kQuery, kKey };
  // kUnitNorm: each head's vector is divided by its Euclidean norm.
  enum class Activation { kNone, kLogSigmoid, kTwiceSigmoid, kUnitNorm };
  // The rows of scores that depend on a token's row of the input.
  struct Readers {
    bool own_query = false;     // that of the query at the token's own place
    bool other_queries = true;  // those of all queries that see the token as a key
    bool steps = false;         // those of queries that see a key before the token
    bool sums = false;          // what they read is a sum over the rows up to it
  };

  std::string name;  // without the encoding's own name: "gate_k"
  Heads heads = Heads::kKey;
  std::int64_t channels = 0;
  bool float32 = false;                       // always float32; otherwise the type of q
  std::string projection;                     // the name of the linear layer
  Activation activation = Activation::kNone;  // after the layer
  double shift = 0.0;                         // added before the activation
  Readers readers = {};                       // where a NaN shows

  // Whether the layer always has a bias, which gates need, whatever the module's setting.
  [[nodiscard]] bool has_bias() const {
    return activation == Activation::kLogSigmoid || activation == Activation::kTwiceSigmoid;
  }

  [[nodiscard]] std::int64_t head_count(std::int64_t query_heads, std::int64_t key_heads) const {
    return heads == Heads::kQuery ? query_heads : key_heads;
  }
};

// The rule of `init_std`, for tables with normally distributed initial values.
inline constexpr FieldRule kInitStdRule{
    .doc = "standard deviation of the initial weights", .min = 0, .max = 100, .usual = {0, 2}};

// exact: angles and slopes are computed in float64. hf: every step is rounded to float32 as in
// Hugging Face transformers, for parity with models that run there.
enum class Precision { kExact, kHf };
constexpr std::array<std::string_view, 2> enum_names(Precision /*tag*/) { return {"exact", "hf"}; }

}  // namespace posenc

// SPDX-License-Identifier: MIT
