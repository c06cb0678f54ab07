// Attention of a sentence under any composition: raw score, bias, their sum and the weights.
#include <fmt/format.h>

#include "plots/inputs.h"
#include "plots/kinds.h"
#include "plots/panels.h"
#include "plots/score_parts.h"

namespace posenc::plots {
namespace {

struct Map {
  const char* title;
  const char* label;
  draw::ColorMap colors;
  std::vector<double> values;
};

std::vector<double> sum_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> sum = a;
  for (std::size_t n = 0; n < sum.size(); ++n) sum[n] += b[n];
  return sum;
}

// Where one sentence ends and the next begins.
void mark_sentences(draw::Panel& panel, const Words& words) {
  for (std::size_t s = 1; s < words.starts.size(); ++s) {
    const double edge = static_cast<double>(words.starts[s]) - 0.5;
    panel.rules.push_back({edge, "", true});
    panel.rules.push_back({edge, "", false});
  }
}

draw::Panel map_panel(const PlotRequest& request, const Words& words, const Map& map) {
  const auto n = std::ssize(words.tokens);
  const auto value = [&](std::int64_t i, std::int64_t j) {
    return request.causal && j > i ? kHidden : map.values[i * n + j];
  };
  draw::Panel panel = matrix_panel(map.title, map_of(n, n, map.colors, map.label, value));
  panel.map->masked = kKeyAfterQuery;
  panel.x.label = "key";
  panel.y.label = "query";
  panel.x.words = words.tokens;
  panel.y.words = words.tokens;
  mark_sentences(panel, words);
  return panel;
}

}  // namespace

draw::Figure plot_scores(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 1);
  const Words words = read_words(request);
  const ScoreParts parts = score_parts(request, specs[0].spec, words);
  const std::vector<double> added = sum_of(parts.bias, parts.content);
  const std::vector<Map> maps = {
      {"raw score", "score (logits)", draw::ColorMap::kDiverging, parts.raw},
      {"what is added: bias", "bias (logits)", draw::ColorMap::kDiverging, added},
      {"raw score + bias", "score (logits)", draw::ColorMap::kDiverging, sum_of(parts.raw, added)},
      {"softmax: attention weights", "weight (0 to 1)", draw::ColorMap::kSequential, parts.weight}};
  draw::Figure figure;
  figure.title =
      fmt::format("Attention under {}, head {} of {}", specs[0].label, request.head, request.heads);
  figure.columns = 2;
  for (const Map& map : maps) figure.panels.push_back(map_panel(request, words, map));
  figure.caption = fmt::format(
      "Raw: q_{{i}} · k_{{j}} / √d after rotation; bias: what sites 3 and 4 add; softmax over a "
      "row. "
      "Queries and keys are random vectors of the words (seed {}), equal for equal words, which "
      "score {} with themselves before any encoding; head_dim {}. {}.{}",
      request.seed, plain_number(request.match_score), request.head_dim, to_text(specs[0].spec),
      parameters_text(request, specs));
  figure.panel_width = 360;
  figure.panel_height = 360;
  return figure;
}

}  // namespace posenc::plots
