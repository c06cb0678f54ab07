#include "kernels/ref/transforms.h"

#include <algorithm>
#include <array>

#include "kernels/ref/checks.h"
#include "kernels/ref/vectors.h"

namespace posenc::ref {
namespace {

// One coordinate per axis of the Rotary.
std::vector<std::int64_t> coordinates(const Rotary& rotary,
                                      std::span<const std::int64_t> position) {
  std::vector<std::int64_t> all(position.begin(), position.end());
  if (all.size() == 1) all.assign(rotary.axes.axes, position[0]);
  return all;
}

struct CosSin {
  std::vector<double> cos;
  std::vector<double> sin;
};

CosSin cos_sin(const Rotary& rotary, Role role, std::int64_t group,
               std::span<const std::int64_t> position) {
  const auto pairs = static_cast<std::size_t>(rotary.pairs());
  CosSin row{std::vector<double>(pairs), std::vector<double>(pairs)};
  rotary_row(rotary, role, group, coordinates(rotary, position), row.cos, row.sin);
  return row;
}

}  // namespace

void turn(const Rotary& rotary, Role role, std::int64_t group,
          std::span<const std::int64_t> position, std::span<double> x) {
  const CosSin row = cos_sin(rotary, role, group, position);
  rotate(rotary, row.cos, row.sin, x);
}

void turn_backward(const Rotary& rotary, Role role, std::int64_t group,
                   std::span<const std::int64_t> position, std::span<const double> y,
                   std::span<double> dy, std::span<double> dinv_freq) {
  const std::vector<std::int64_t> n = coordinates(rotary, position);
  const double direction = rotary.inverse ? -1.0 : 1.0;
  for (std::int64_t pair = 0; pair < rotary.pairs(); ++pair) {
    const auto p = static_cast<std::size_t>(pair);
    const auto [first, second] = rotary.channels(pair);
    const double dangle = y[first] * dy[second] - y[second] * dy[first];
    const auto axis = static_cast<std::size_t>(rotary.axes.axis_of_pair[p]);
    dinv_freq[p] += direction * static_cast<double>(n[axis]) * dangle;
  }
  const CosSin row = cos_sin(rotary, role, group, position);
  rotate_transposed(rotary, row.cos, row.sin, dy);
}

void check_axes(const std::string& scope, const Rotary& rotary, std::int64_t axes) {
  if (axes == 1 || rotary.axes.axes == 1 || rotary.axes.axes == axes) return;
  throw Error(ErrorKind::kWrongLength, {.scope = scope,
                                        .key = "positions.axes",
                                        .rule = "must be 1 or the axes of the encoding (" +
                                                std::to_string(rotary.axes.axes) + ")",
                                        .value = std::to_string(axes),
                                        .hint = ""});
}

Transforms::Transforms(const std::string& scope, const Spec& spec, const SpecParameters& parameters,
                       const ModelShape& shape, const Lengths& lengths, std::int64_t axes)
    : heads_(shape.heads) {
  const std::vector<SpecInput> inputs = token_inputs(spec, shape);
  for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
    if (const auto* temperature = std::get_if<Temperature>(&spec.encodings[e])) {
      factors_.push_back(
          {*temperature, e, temperature->trained() ? parameters[e][0] : std::vector<double>()});
    }
    if (!is_rotary(spec.encodings[e])) continue;
    const std::span<const double> alpha =
        parameters[e].empty() ? std::span<const double>() : std::span(parameters[e][0]);
    stages_.push_back({rotary_of(spec.encodings[e], shape, lengths, alpha), e});
    check_axes(scope, stages_.back().rotary, axes);
    const auto* rope = std::get_if<Rope>(&spec.encodings[e]);
    if (rope == nullptr) continue;
    if (rope->reads_input()) stages_.back().input = first_input(inputs, e);
    stages_.back().input_positions = rope->angles == Rope::Angles::kInputPosition;
    if (!rope->values) continue;
    value_stages_.push_back(stages_.back());
    value_stages_.back().rotary.attention_factor = 1.0;
  }
}

double Transforms::softmax_factor() const {
  double factor = 1.0;
  for (const Stage& stage : stages_) factor *= stage.rotary.softmax_factor;
  return factor;
}

namespace {

constexpr std::array<std::int64_t, 1> kOne = {1};

// A rotation whose frequencies are a token's own angles, at position 1.
Rotary with_angles(Rotary rotary, bool input_positions, std::span<const double> row) {
  for (std::vector<double>& group : rotary.inv_freq) {
    for (std::size_t p = 0; p < group.size(); ++p) {
      if (row.empty()) {
        group[p] = 0.0;
      } else {
        group[p] = input_positions ? group[p] * row[0] : row[p];
      }
    }
  }
  rotary.precision = Precision::kExact;
  return rotary;
}

}  // namespace

void Transforms::turn_by(const Stage& stage, Role role, const HeadToken& token,
                         std::span<double> x) const {
  if (!stage.input) {
    turn(stage.rotary, role, group_of(stage, token), token.position, x);
    return;
  }
  turn(with_angles(stage.rotary, stage.input_positions, token.rows[*stage.input]), role,
       group_of(stage, token), kOne, x);
}

std::vector<std::vector<double>> Transforms::all_left(const Stages& stages, Role role,
                                                      const HeadToken& token,
                                                      std::span<const double> x) const {
  std::vector<std::vector<double>> left = {{x.begin(), x.end()}};
  for (const Stage& stage : stages) {
    left.push_back(left.back());
    turn_by(stage, role, token, left.back());
  }
  return left;
}

// From the last stage to the first.
void Transforms::stages_backward(const Stages& stages, Role role, const HeadToken& token,
                                 const std::vector<std::vector<double>>& left, std::span<double> dy,
                                 SpecParameters& gradient, const GradientRows& drows) const {
  for (std::size_t s = stages.size(); s-- > 0;) {
    const Stage& stage = stages[s];
    const std::int64_t group = group_of(stage, token);
    const std::vector<double>& frequencies = stage.rotary.inv_freq[group];
    std::vector<double> dfrequencies(frequencies.size(), 0.0);
    if (stage.input) {
      turn_backward(with_angles(stage.rotary, stage.input_positions, token.rows[*stage.input]),
                    role, group, kOne, left[s + 1], dy, dfrequencies);
      const std::span<double> drow = drows[*stage.input];
      for (std::size_t p = 0; p < dfrequencies.size() && !drow.empty(); ++p) {
        if (stage.input_positions) {
          drow[0] += dfrequencies[p] * frequencies[p];
        } else {
          drow[p] += dfrequencies[p];
        }
      }
      continue;
    }
    turn_backward(stage.rotary, role, group, token.position, left[s + 1], dy, dfrequencies);
    Parameters& learned = gradient[stage.encoding];
    if (learned.empty()) continue;
    // inv_freq = base exp(alpha), so d inv_freq / d alpha is inv_freq itself.
    for (std::size_t p = 0; p < dfrequencies.size(); ++p) {
      learned[0][p] += dfrequencies[p] * frequencies[p];
    }
  }
}

void Transforms::apply(Role role, const HeadToken& token, std::span<double> x) const {
  for (const Stage& stage : stages_) turn_by(stage, role, token, x);
  if (role == Role::kKey || factors_.empty()) return;
  const double by = factor(token.head, token.position[0]);
  for (double& channel : x) channel *= by;
}

void Transforms::backward(Role role, const HeadToken& token, std::span<const double> x,
                          std::span<double> dy, SpecParameters& gradient,
                          const GradientRows& drows) const {
  const auto left = all_left(stages_, role, token, x);
  if (role == Role::kQuery) {
    factors_backward(token.head, token.position[0], left.back(), dy, gradient);
  }
  stages_backward(stages_, role, token, left, dy, gradient, drows);
}

// In the order in which they are applied: the output is rotated back by the last one first.
Transforms::Stages Transforms::value_stages(bool back) const {
  Stages stages = value_stages_;
  if (!back) return stages;
  std::reverse(stages.begin(), stages.end());
  for (Stage& stage : stages) stage.rotary.inverse = !stage.rotary.inverse;
  return stages;
}

void Transforms::apply_to_value(const HeadToken& token, bool back, std::span<double> x) const {
  for (const Stage& stage : value_stages(back)) turn_by(stage, Role::kKey, token, x);
}

void Transforms::value_backward(const HeadToken& token, bool back, std::span<const double> x,
                                std::span<double> dy, SpecParameters& gradient,
                                const GradientRows& drows) const {
  const Stages stages = value_stages(back);
  stages_backward(stages, Role::kKey, token, all_left(stages, Role::kKey, token, x), dy, gradient,
                  drows);
}

double Transforms::factor(std::int64_t head, std::int64_t position, const Factor* without) const {
  double product = 1.0;
  for (const Factor& f : factors_) {
    if (&f == without) continue;
    product *= f.config.factor(static_cast<double>(position));
    if (!f.trained.empty()) product *= f.trained[head];
  }
  return product;
}

// `y` is the query before the factors.
void Transforms::factors_backward(std::int64_t head, std::int64_t position,
                                  std::span<const double> y, std::span<double> dy,
                                  SpecParameters& gradient) const {
  for (const Factor& f : factors_) {
    if (f.trained.empty()) continue;
    gradient[f.encoding][0][head] +=
        f.config.factor(static_cast<double>(position)) * factor(head, position, &f) * dot(y, dy);
  }
  const double by = factor(head, position);
  for (double& channel : dy) channel *= by;
}

}  // namespace posenc::ref
