// Sinusoidal position vectors: the table, and single dimensions of it.
#include <fmt/format.h>

#include "plots/inputs.h"
#include "plots/kinds.h"
#include "plots/panels.h"

namespace posenc::plots {
namespace {

const Sinusoidal& sinusoidal_of(const PlotRequest& request, const NamedSpec& named) {
  constexpr std::string_view kInstead = "sinusoidal, with its fields";
  const auto* config = std::get_if<Sinusoidal>(&single_encoding(request, named, kInstead));
  if (config != nullptr) return *config;
  refuse(ErrorKind::kUnsupported, "encodings", "must be sinusoidal for " + request.kind,
         "'" + to_text(named.spec) + "'", fmt::format("take {}", kInstead));
}

std::string formula_text(const Sinusoidal& config, std::int64_t dim) {
  const bool paper = config.spacing == Sinusoidal::Spacing::kPaper;
  const bool interleaved = config.layout == Sinusoidal::Layout::kInterleaved;
  return fmt::format("sin and cos of t·θ^{{−{}}}, θ = {}, d = {}, {}", paper ? "2i/d" : "i/(d/2−1)",
                     plain_number(config.theta), dim,
                     interleaved ? "in turns" : "the sines first, then the cosines");
}

// Of the first half, where waves still turn; even ones, which are sines where sines and cosines alternate.
std::vector<std::int64_t> shown_dimensions(const PlotRequest& request) {
  constexpr std::int64_t kCurves = 5;
  std::vector<std::int64_t> dimensions = request.dimensions;
  if (dimensions.empty()) {
    for (std::int64_t c = 0; c < kCurves; ++c) {
      const std::int64_t even = request.head_dim * c / (2 * (kCurves - 1)) / 2 * 2;
      if (dimensions.empty() || dimensions.back() != even) dimensions.push_back(even);
    }
  }
  return chosen("dimensions", dimensions, request.head_dim, 0);
}

}  // namespace

draw::Figure plot_sinusoidal(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 1);
  const Sinusoidal& config = sinusoidal_of(request, specs[0]);
  const auto table = position_vectors(request, specs[0], request.length, Role::kQuery);
  draw::Panel panel;
  panel.x.label = "dimension c";
  panel.y.label = "position t (tokens)";
  panel.y_down = true;
  panel.map =
      map_of(request.length, request.head_dim, draw::ColorMap::kDiverging, "E_{c}(t) (no unit)",
             [&](std::int64_t t, std::int64_t c) { return table[t][c]; });

  draw::Figure figure;
  figure.title = "Sinusoidal position vectors";
  figure.caption = fmt::format(
      "A row is the vector of a position: {}. Low dimensions turn within a few tokens and tell "
      "neighbours apart; high ones hardly move over {} tokens.",
      formula_text(config, request.head_dim), request.length);
  figure.panels.push_back(std::move(panel));
  figure.panel_width = 560;
  figure.panel_height = 380;
  return figure;
}

draw::Figure plot_sinusoidal_curves(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 1);
  const Sinusoidal& config = sinusoidal_of(request, specs[0]);
  const auto table = position_vectors(request, specs[0], request.length, Role::kQuery);
  draw::Panel panel;
  panel.x.label = "position t (tokens)";
  panel.y.label = "E_{c}(t) (no unit)";
  panel.y.low = -1.1;
  panel.y.high = 1.1;
  int color = 0;
  for (const std::int64_t c : shown_dimensions(request)) {
    const auto value = [&](std::int64_t t) { return table[t][c]; };
    panel.curves.push_back(
        curve_over(fmt::format("c = {}", c), thinned(request.length - 1, 2048), value, color++));
  }
  draw::Figure figure;
  figure.title = "Sinusoidal position vectors, dimension by dimension";
  figure.caption =
      fmt::format("Each dimension is a wave of its own length, from 2π tokens to about 2πθ: {}.",
                  formula_text(config, request.head_dim));
  figure.panels.push_back(std::move(panel));
  figure.panel_width = 680;
  return figure;
}

}  // namespace posenc::plots
