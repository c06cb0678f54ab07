// Scores of rotated vectors and of position vectors: the matrix, and the fall with distance.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plots/inputs.h"
#include "plots/kinds.h"
#include "plots/panels.h"

namespace posenc::plots {
namespace {

std::string content_text(const PlotRequest& request) {
  if (request.content == Content::kOnes) return "a query and a key of ones";
  return fmt::format("one normal vector as query and key (seed {})", request.seed);
}

// Vectors of all positions, as queries and as keys; only xPos tells them apart.
class Scorer {
 public:
  Scorer(const PlotRequest& request, const NamedSpec& named, std::int64_t length)
      : queries_(position_vectors(request, named, length, Role::kQuery)),
        keys_(position_vectors(request, named, length, Role::kKey)),
        decays_(std::holds_alternative<Xpos>(named.spec.encodings[0])),
        square_(0.0) {
    const std::vector<double> content = content_vector(request, 0);
    square_ = dot(content, content);
  }

  // <q_i, k_j> / (|q_i| |k_j|). xPos changes lengths on purpose: there, over |x|^2 of the unscaled x.
  [[nodiscard]] double operator()(std::int64_t i, std::int64_t j) const {
    const auto& q = queries_[i];
    const auto& k = keys_[j];
    const double lengths = decays_ ? square_ : std::sqrt(dot(q, q) * dot(k, k));
    return lengths > 0.0 ? dot(q, k) / lengths : 0.0;
  }

 private:
  std::vector<std::vector<double>> queries_;
  std::vector<std::vector<double>> keys_;
  bool decays_;
  double square_;
};

draw::Panel rows_panel(const PlotRequest& request, const Scorer& score) {
  draw::Panel panel;
  panel.title = "rows of the matrix";
  panel.x.label = "key position j (tokens)";
  panel.y.label = "inner product / (|q| |k|)";
  const std::int64_t last = request.length - 1;
  std::vector<std::int64_t> rows = request.positions;
  if (rows.empty()) rows = {last / 4, last / 2, 3 * last / 4};
  int color = 0;
  for (const std::int64_t i : chosen("positions", rows, request.length, 0)) {
    panel.curves.push_back(curve_over(
        fmt::format("query at {}", i), thinned(last, 1024),
        [&](std::int64_t j) { return score(i, j); }, color++));
  }
  return panel;
}

// Mean over the pairs of positions at a distance, and their extremes where these differ.
void add_distance(draw::Curve& curve, const Scorer& score, std::int64_t length, std::int64_t m) {
  constexpr std::int64_t kStarts = 24;
  double sum = 0.0;
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  const std::vector<std::int64_t> starts = thinned(length - 1 - m, kStarts);
  for (const std::int64_t j : starts) {
    const double value = score(j + m, j);
    sum += value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  curve.x.push_back(static_cast<double>(m));
  curve.y.push_back(sum / static_cast<double>(starts.size()));
  curve.low.push_back(low);
  curve.high.push_back(high);
}

bool has_band(const draw::Curve& curve) {
  constexpr double kVisible = 1e-9;
  for (std::size_t n = 0; n < curve.x.size(); ++n) {
    if (curve.high[n] - curve.low[n] > kVisible) return true;
  }
  return false;
}

}  // namespace

draw::Figure plot_inner_product(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 4);
  draw::Figure figure;
  figure.title = "Inner products of rotated vectors";
  for (const NamedSpec& named : specs) {
    static_cast<void>(single_rotary(request, named, {.sequence = request.length, .context = 0}));
    const Scorer score(request, named, request.length);
    draw::Heatmap map = map_of(request.length, request.length, draw::ColorMap::kDiverging,
                               "inner product / (|q| |k|)", score);
    figure.panels.push_back(matrix_panel(named.label, std::move(map)));
    if (specs.size() == 1) figure.panels.push_back(rows_panel(request, score));
  }
  figure.caption = fmt::format(
      "Query at i against key at j: constant along diagonals, since the product depends on i - j "
      "alone; the rows are one curve, shifted. From {} under {}, head_dim {}.",
      content_text(request), spec_list(specs), request.head_dim);
  figure.columns = 2;
  figure.panel_width = 360;
  figure.panel_height = 360;
  return figure;
}

draw::Figure plot_similarity(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 8);
  draw::Panel panel;
  panel.x.label = "distance i - j (tokens)";
  panel.y.label = "cosine similarity (no unit)";
  int color = 0;
  for (const NamedSpec& named : specs) {
    const Scorer score(request, named, request.length);
    draw::Curve curve;
    curve.name = named.label;
    curve.color = color++;
    for (const std::int64_t m : thinned(request.length - 1, 1024)) {
      add_distance(curve, score, request.length, m);
    }
    if (!has_band(curve)) {
      curve.low.clear();
      curve.high.clear();
    }
    panel.curves.push_back(std::move(curve));
  }
  panel.rules.push_back({0.0, "", false});
  draw::Figure figure;
  figure.title = "Similarity of positions against their distance";
  figure.caption = fmt::format(
      "Cosine of the vectors of two positions: of embeddings themselves, or of {} after rotation "
      "(xPos: over the length before its scaling). A band, where there is one, spans places of "
      "the pair: the similarity then depends on more than the distance. {}, {} channels.{}",
      content_text(request), spec_list(specs), request.head_dim, parameters_text(request, specs));
  figure.panels.push_back(std::move(panel));
  figure.panel_width = 680;
  figure.panel_height = 340;
  return figure;
}

}  // namespace posenc::plots
