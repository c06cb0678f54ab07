// RoPE's pairs of channels as clocks: the hand of a pair at each position.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plots/inputs.h"
#include "plots/kinds.h"
#include "posenc/encodings/analysis.h"

namespace posenc::plots {
namespace {

constexpr std::int64_t kTrail = 12;
constexpr std::int64_t kClocks = 8;  // in a row

std::string tokens_text(double wavelength) {
  if (!std::isfinite(wavelength)) return "still";
  if (wavelength < 100.0) return fmt::format("{:.1f}", wavelength);
  if (wavelength < 1e5) return fmt::format("{:.0f}", wavelength);
  return wavelength < 1e8 ? fmt::format("{:.0f}k", wavelength / 1e3)
                          : fmt::format("{:.0e}", wavelength);
}

// The way of the hand over the last positions, as an arc; less than a turn, so that it can be followed.
std::vector<double> trail_of(const Rotary& rotary, std::int64_t group, std::int64_t pair,
                             std::int64_t position) {
  constexpr double kMostTurn = 5.5;  // radians
  constexpr double kStep = 0.1;
  const double end = rotary.angle(group, pair, position);
  const double back = end - rotary.angle(group, pair, std::max<std::int64_t>(0, position - kTrail));
  const double arc = std::clamp(back, -kMostTurn, kMostTurn);
  const int steps = std::max(1, static_cast<int>(std::ceil(std::abs(arc) / kStep)));
  std::vector<double> trail;
  for (int s = 0; s <= steps; ++s)
    trail.push_back(end - arc * (1.0 - s / static_cast<double>(steps)));
  return trail;
}

draw::Clock clock_of(const Rotary& rotary, const PlotRequest& request, std::int64_t group,
                     std::int64_t pair, std::int64_t position) {
  const double wavelength = wavelengths(rotary, group)[pair];
  draw::Clock clock;
  clock.label = fmt::format("pair {}: {}", pair, tokens_text(wavelength));
  clock.angle = rotary.angle(group, pair, position);
  clock.length = std::min(1.0, rotary.magnitude(Role::kQuery, pair, position));
  clock.trail = trail_of(rotary, group, pair, position);
  clock.muted = wavelength > static_cast<double>(request.train_length);
  return clock;
}

std::vector<std::int64_t> shown_pairs(const PlotRequest& request, const Rotary& rotary) {
  constexpr std::size_t kMost = 32;
  if (request.pairs.size() > kMost) {
    refuse(ErrorKind::kWrongLength, "pairs", "must be at most 32 for clocks",
           std::to_string(request.pairs.size()), "draw the others in a second figure");
  }
  return chosen("pairs", request.pairs, rotary.pairs(), kClocks);
}

std::vector<std::int64_t> shown_positions(const PlotRequest& request) {
  constexpr std::size_t kMost = 12;
  if (request.positions.size() > kMost) {
    refuse(ErrorKind::kWrongLength, "positions", "must be at most 12 for clocks",
           std::to_string(request.positions.size()), "draw the others in a second figure");
  }
  return request.positions.empty() ? std::vector<std::int64_t>{0, 1, 2, 8, 64} : request.positions;
}

}  // namespace

draw::Figure plot_clocks(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 1);
  const std::vector<std::int64_t> positions = shown_positions(request);
  const std::int64_t longest = *std::max_element(positions.begin(), positions.end()) + 1;
  const Rotary rotary = single_rotary(request, specs[0], {.sequence = longest, .context = 0});
  const std::int64_t group = rotary.group_of(request.head, request.heads);
  const std::vector<std::int64_t> pairs = shown_pairs(request, rotary);

  draw::Figure figure;
  figure.title = fmt::format("Clocks of {}", specs[0].label);
  for (const std::int64_t position : positions) {
    draw::Panel panel;
    panel.title = fmt::format("position {}", position);
    panel.clock_columns = kClocks;
    for (const std::int64_t pair : pairs) {
      panel.clocks.push_back(clock_of(rotary, request, group, pair, position));
    }
    figure.panels.push_back(std::move(panel));
  }
  figure.caption = fmt::format(
      "A pair of channels turns by position · ω, its frequency, as a hand that starts at 3 "
      "o'clock; the "
      "number is its wavelength in tokens, the trail its way over the last {} positions, or most "
      "of a turn. Grey: slower than the {} trained tokens, so it never came round. From {}, "
      "head_dim {}.",
      kTrail, request.train_length, to_text(specs[0].spec), request.head_dim);
  figure.panel_width = 720;
  figure.panel_height = 110.0 * std::ceil(static_cast<double>(pairs.size()) / kClocks);
  return figure;
}

}  // namespace posenc::plots
