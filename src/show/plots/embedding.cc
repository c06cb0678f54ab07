// Position vectors in two dimensions: principal components, and t-SNE.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plots/components.h"
#include "plots/inputs.h"
#include "plots/kinds.h"
#include "plots/panels.h"

namespace posenc::plots {
namespace {

using Layout = std::vector<std::array<double, 2>>;

// A curve per quarter of the positions, so that colour tells early from late; neighbours stay joined.
void add_quarters(draw::Panel& panel, const Layout& y) {
  constexpr std::size_t kQuarters = 4;
  for (std::size_t quarter = 0; quarter < kQuarters; ++quarter) {
    const std::size_t begin = y.size() * quarter / kQuarters;
    const std::size_t end = y.size() * (quarter + 1) / kQuarters;
    if (begin == end) continue;
    draw::Curve curve;
    curve.name = fmt::format("positions {} to {}", begin, end - 1);
    curve.color = static_cast<int>(quarter);
    curve.stroke = draw::Stroke::kDotsAndLine;
    for (std::size_t t = begin; t < std::min(end + 1, y.size()); ++t) {
      curve.x.push_back(y[t][0]);
      curve.y.push_back(y[t][1]);
    }
    panel.curves.push_back(std::move(curve));
  }
}

std::string variance_label(int component, double share) {
  return fmt::format("component {} ({:.1f} % of the variance)", component, 100.0 * share);
}

draw::Panel pca_panel(const NamedSpec& named, const Principal& principal) {
  Layout y;
  for (const auto& scores : principal.scores) {
    y.push_back({scores[0], scores.size() > 1 ? scores[1] : 0.0});
  }
  draw::Panel panel;
  panel.title = named.label;
  panel.square = true;
  panel.x.label = variance_label(1, principal.share[0]);
  panel.y.label = variance_label(2, principal.share.size() > 1 ? principal.share[1] : 0.0);
  add_quarters(panel, y);
  return panel;
}

draw::Panel shares_panel(const Principal& principal) {
  constexpr std::size_t kBars = 16;
  draw::Panel panel;
  panel.title = "variance by component";
  panel.x.label = "component";
  panel.y.label = "share of the variance (%)";
  panel.y.low = 0.0;
  draw::Curve bars;
  bars.stroke = draw::Stroke::kBars;
  for (std::size_t k = 0; k < std::min(kBars, principal.share.size()); ++k) {
    bars.x.push_back(static_cast<double>(k + 1));
    bars.y.push_back(100.0 * principal.share[k]);
  }
  panel.curves.push_back(std::move(bars));
  return panel;
}

std::string source_text(const PlotRequest& request, const std::vector<NamedSpec>& specs) {
  const std::string rotated = request.content == Content::kOnes
                                  ? std::string("a vector of ones")
                                  : fmt::format("a normal vector (seed {})", request.seed);
  return fmt::format("Embeddings, or {} after rotation, {} channels: {}.{}", rotated,
                     request.head_dim, spec_list(specs), parameters_text(request, specs));
}

}  // namespace

draw::Figure plot_pca(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 4);
  draw::Figure figure;
  figure.title = fmt::format("Vectors of {} positions: principal components", request.length);
  figure.columns = 2;
  for (const NamedSpec& named : specs) {
    const Principal principal =
        principal_components(position_vectors(request, named, request.length, Role::kQuery));
    figure.panels.push_back(pca_panel(named, principal));
    if (specs.size() == 1) figure.panels.push_back(shares_panel(principal));
  }
  figure.caption = fmt::format(
      "The two directions of largest variance, to one scale; the axes say how much of it they "
      "keep. Where neighbours lie side by side along a curve, near positions have near vectors. {}",
      source_text(request, specs));
  figure.panel_width = 380;
  figure.panel_height = 380;
  return figure;
}

draw::Figure plot_tsne(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 4);
  if (request.perplexity >= static_cast<double>(request.length) / 3.0) {
    refuse(ErrorKind::kConflict, "perplexity",
           fmt::format("must be below a third of the {} positions", request.length),
           plain_number(request.perplexity), "take a smaller one, or more positions");
  }
  const TsneOptions options{.perplexity = request.perplexity,
                            .iterations = request.iterations,
                            .seed = static_cast<std::uint64_t>(request.seed)};
  draw::Figure figure;
  figure.title = fmt::format("Vectors of {} positions: t-SNE", request.length);
  figure.columns = specs.size() == 1 ? 1 : 2;
  for (const NamedSpec& named : specs) {
    draw::Panel panel;
    panel.title = named.label;
    panel.square = true;
    panel.x.label = "t-SNE 1 (no unit)";
    panel.y.label = "t-SNE 2 (no unit)";
    add_quarters(panel,
                 tsne(position_vectors(request, named, request.length, Role::kQuery), options));
    figure.panels.push_back(std::move(panel));
  }
  figure.caption = fmt::format(
      "Neighbours in the plane are neighbours among the vectors; distances between far points, and "
      "the shape of the whole, mean little. Exact t-SNE, perplexity {}, {} steps, seed {}. {}",
      plain_number(request.perplexity), request.iterations, request.seed,
      source_text(request, specs));
  figure.panel_width = 380;
  figure.panel_height = 380;
  return figure;
}

}  // namespace posenc::plots
