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

std::string tokens_text(double wavelength) {
  if (!std::isfinite(wavelength)) return "still";
  return wavelength < 100.0 ? fmt::format("{:.1f}", wavelength) : fmt::format("{:.3g}", wavelength);
}

draw::Clock clock_of(const Rotary& rotary, const PlotRequest& request, std::int64_t group,
                     std::int64_t pair, std::int64_t position) {
  const double wavelength = wavelengths(rotary, group)[static_cast<std::size_t>(pair)];
  draw::Clock clock;
  clock.label = fmt::format("pair {}: {}", pair, tokens_text(wavelength));
  clock.angle = rotary.angle(group, pair, position);
  clock.length = std::min(1.0, rotary.magnitude(Role::kQuery, pair, position));
  for (std::int64_t n = std::max<std::int64_t>(0, position - kTrail); n < position; ++n) {
    clock.trail.push_back(rotary.angle(group, pair, n));
  }
  clock.muted = wavelength > static_cast<double>(request.train_length);
  return clock;
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
  constexpr std::int64_t kClocks = 8;
  const std::vector<NamedSpec> specs = read_specs(request, 1);
  const std::vector<std::int64_t> positions = shown_positions(request);
  const std::int64_t longest = *std::max_element(positions.begin(), positions.end()) + 1;
  const Rotary rotary = single_rotary(request, specs[0], {.sequence = longest, .context = 0});
  const std::int64_t group = rotary.group_of(request.head, request.heads);
  const std::vector<std::int64_t> pairs = chosen("pairs", request.pairs, rotary.pairs(), kClocks);

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
      "A pair of channels turns by position * inv_freq, as a hand that starts at 3 o'clock; the "
      "number "
      "is its wavelength in tokens, the trail the {} positions before. Grey: slower than the {} "
      "trained tokens, so it never came round. From {}, head_dim {}.",
      kTrail, request.train_length, to_text(specs[0].spec), request.head_dim);
  figure.panel_width = 720;
  figure.panel_height = 110.0 * std::ceil(static_cast<double>(pairs.size()) / kClocks);
  return figure;
}

}  // namespace posenc::plots
