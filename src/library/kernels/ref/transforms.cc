#include "kernels/ref/transforms.h"

#include "kernels/ref/checks.h"

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
  for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
    if (traits(spec.encodings[e]).site != Site::kQueryKey) continue;
    const std::span<const double> alpha =
        parameters[e].empty() ? std::span<const double>() : std::span(parameters[e][0]);
    stages_.push_back({rotary_of(spec.encodings[e], shape, lengths, alpha), e});
    check_axes(scope, stages_.back().rotary, axes);
  }
}

double Transforms::softmax_factor() const {
  double factor = 1.0;
  for (const Stage& stage : stages_) factor *= stage.rotary.softmax_factor;
  return factor;
}

void Transforms::apply(Role role, std::int64_t head, std::span<const std::int64_t> position,
                       std::span<double> x) const {
  for (const Stage& stage : stages_) {
    turn(stage.rotary, role, stage.rotary.group_of(head, heads_), position, x);
  }
}

void Transforms::backward(Role role, std::int64_t head, std::span<const std::int64_t> position,
                          std::span<const double> x, std::span<double> dy,
                          SpecParameters& gradient) const {
  // What each stage left: the backward visits them last to first.
  std::vector<std::vector<double>> left = {{x.begin(), x.end()}};
  for (const Stage& stage : stages_) {
    left.push_back(left.back());
    turn(stage.rotary, role, stage.rotary.group_of(head, heads_), position, left.back());
  }
  for (std::size_t s = stages_.size(); s-- > 0;) {
    const Rotary& rotary = stages_[s].rotary;
    const std::int64_t group = rotary.group_of(head, heads_);
    std::vector<double> dinv_freq(rotary.pairs(), 0.0);
    turn_backward(rotary, role, group, position, left[s + 1], dy, dinv_freq);
    Parameters& learned = gradient[stages_[s].encoding];
    if (learned.empty()) continue;
    // inv_freq = base exp(alpha), so d inv_freq / d alpha is inv_freq itself.
    for (std::size_t p = 0; p < dinv_freq.size(); ++p) {
      learned[0][p] += dinv_freq[p] * rotary.inv_freq[group][p];
    }
  }
}

}  // namespace posenc::ref
