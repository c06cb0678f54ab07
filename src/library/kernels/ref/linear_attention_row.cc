#include "kernels/ref/linear_attention_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/ref/checks.h"
#include "kernels/ref/vectors.h"

namespace posenc::ref::linear {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

ModelShape model_shape(const AttentionShape& shape) {
  return {.head_dim = shape.head_dim, .heads = shape.heads, .model_dim = 0};
}

const AttentionShape& checked(const Spec& spec, const SpecParameters& parameters,
                              const AttentionShape& shape, const AttentionInputs& inputs,
                              const Options& options) {
  check_shape(kScope, shape);
  if (shape.value_width() != shape.head_dim) {
    throw Error(ErrorKind::kUnsupported,
                {.scope = kScope,
                 .key = "value_dim",
                 .rule = "must be head_dim (" + std::to_string(shape.head_dim) + ")",
                 .value = std::to_string(shape.value_dim),
                 .hint = "linear attention has values as wide as keys"});
  }
  require_attention_part(kScope, spec);
  check_inputs(kScope, shape, inputs, {});
  for (const Encoding& encoding : spec.encodings) {
    require_plain_rotation(kScope, encoding);
    if (traits(encoding).linear_attention) continue;
    throw Error(ErrorKind::kUnsupported,
                {.scope = kScope,
                 .key = std::string(traits(encoding).name),
                 .rule = "needs a row of scores, which linear attention does not have",
                 .value = "",
                 .hint = "use rope or xpos"});
  }
  check_parameters(kScope, spec, parameters, model_shape(shape));
  if (options.masking.window_left >= 0 || options.masking.window_right >= 0) {
    throw Error(ErrorKind::kUnsupported, {.scope = kScope,
                                          .key = "window",
                                          .rule = "is not for linear attention",
                                          .value = "",
                                          .hint = "leave window_left and window_right at -1"});
  }
  if (!(options.epsilon > 0.0)) {
    throw Error(ErrorKind::kOutOfRange, {.scope = kScope,
                                         .key = "epsilon",
                                         .rule = "must be > 0",
                                         .value = std::to_string(options.epsilon),
                                         .hint = ""});
  }
  return shape;
}

double phi(const Options& options, double x) {
  if (options.feature_map == Options::FeatureMap::kRelu) {
    return (x < 0.0 ? 0.0 : x) + options.epsilon;  // NaN stays NaN
  }
  return x > 0.0 ? x + 1.0 : std::exp(x);
}

double phi_slope(const Options& options, double x) {
  if (x > 0.0) return 1.0;
  return options.feature_map == Options::FeatureMap::kRelu ? 0.0 * x
                                                           : std::exp(x);  // NaN stays NaN
}

// u(x) = x / |x|; returns |x|, or 0 for a vector too short to have a direction.
double normalize(std::span<double> x) {
  const double length = std::sqrt(dot(x, x));
  const bool short_vector = length < Options::kShortest;
  if (std::isinf(length)) std::fill(x.begin(), x.end(), kNaN);  // not 0, which x / |x| would be
  for (double& value : x) value = short_vector ? 0.0 : value / length;
  return short_vector ? 0.0 : length;
}

// phi(x), or x itself for the cosine.
std::vector<double> mapped(const Call& call, std::span<const double> x) {
  std::vector<double> values(x.begin(), x.end());
  if (call.cosine()) return values;
  for (double& value : values) value = phi(call.options, value);
  return values;
}

// From the gradient at u(x) to that at x: (du - u <u, du>) / |x|.
void normalize_backward(std::vector<double> x, std::span<double> d) {
  const double length = normalize(x);
  const double along = dot(x, d);
  for (std::size_t c = 0; c < d.size(); ++c) {
    d[c] = length == 0.0 ? 0.0 : (d[c] - along * x[c]) / length;
  }
}

}  // namespace

Call::Call(const Spec& spec, const SpecParameters& parameters, const AttentionShape& shape_in,
           const AttentionInputs& inputs_in, const Options& options_in)
    : shape(checked(spec, parameters, shape_in, inputs_in, options_in)),
      inputs(inputs_in),
      options(options_in),
      mask(kScope, shape, options.masking),
      positions(kScope, shape, options.positions, mask),
      transforms(kScope, spec, parameters, model_shape(shape), positions.lengths(options.lengths),
                 positions.axes()) {}

Feature feature(const Call& call, const Token& token) {
  Feature f;
  f.plain = mapped(call, token.x);
  f.rotated = f.plain;
  call.transforms.apply(token.role, {token.head, token.position}, f.rotated);
  if (call.cosine()) normalize(f.rotated);
  return f;
}

void feature_backward(const Call& call, const Token& token, const Feature& df, std::span<double> dx,
                      SpecParameters& gradient) {
  if (is_zero(df.rotated) && is_zero(df.plain)) return;  // a token that sees nothing may be NaN
  const std::vector<double> plain = mapped(call, token.x);
  std::vector<double> d = df.rotated;
  if (call.cosine()) {
    std::vector<double> rotated = plain;
    call.transforms.apply(token.role, {token.head, token.position}, rotated);
    normalize_backward(std::move(rotated), d);
  }
  call.transforms.backward(token.role, {token.head, token.position}, plain, d, gradient);
  add_scaled(1.0, df.plain, d);  // nothing for the cosine, which has no plain products
  for (std::size_t c = 0; c < d.size(); ++c) {
    dx[c] += call.cosine() ? d[c] : d[c] * phi_slope(call.options, token.x[c]);
  }
}

Head::Head(const Call& call, std::int64_t batch_in, std::int64_t head_in)
    : batch(batch_in),
      head(head_in),
      query_matrix(batch * call.shape.heads + head),
      key_matrix(batch * call.shape.kv_heads + call.shape.kv_head_of(head)) {
  for (std::int64_t i = 0; i < call.shape.queries; ++i) {
    queries.push_back(feature(call, query(call, i)));
  }
  for (std::int64_t j = 0; j < call.shape.keys; ++j) keys.push_back(feature(call, key(call, j)));
}

Token Head::query(const Call& call, std::int64_t i) const {
  return {Role::kQuery, head, call.positions.query(batch, i),
          vector_at(call.inputs.q, query_row(call, i), call.shape.head_dim)};
}

Token Head::key(const Call& call, std::int64_t j) const {
  return {Role::kKey, head, call.positions.key(batch, j),
          vector_at(call.inputs.k, key_row(call, j), call.shape.head_dim)};
}

}  // namespace posenc::ref::linear
