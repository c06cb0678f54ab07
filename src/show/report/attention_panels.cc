#include "report/attention_panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "draw/pool.h"

namespace posenc::report {
namespace {

using runs::AttentionExample;
using runs::Map;

constexpr std::int64_t kMostWords = 64;  // tokens that can be read along an axis
constexpr int kUniformColor = 7;

constexpr double kLeastScale = 0.02;  // below it a map is flat, and its noise is not worth colours

// Weights of the first queries are large because they have few keys to share them among, so a head's
// scale ends at the largest weight past the first quarter.
double scale_end(const Map& map) {
  double largest = kLeastScale;
  for (std::int64_t i = map.rows / 4; i < map.rows; ++i) {
    for (std::int64_t j = 0; j < map.columns; ++j) {
      largest = std::max(largest, static_cast<double>(std::abs(map.at(i, j))));
    }
  }
  return largest;
}

std::string word_of(const runs::ScoredPlace& place, const std::string& token) {
  if (place.expected == place.predicted) return fmt::format("{} → {}", token, place.predicted);
  return fmt::format("{} → {} ≠ {}", token, place.predicted, place.expected);
}

// Tokens as queries: with what the model says there, and what it should.
std::vector<std::string> query_words(const AttentionExample& example) {
  std::vector<std::string> words = example.tokens;
  for (const runs::ScoredPlace& place : example.scored) {
    std::string& word = words[place.position];
    word = word_of(place, word);
  }
  return words;
}

std::string query_label(const AttentionExample& example) {
  if (example.scored.empty() || example.length > kMostWords) return "query (token)";
  const bool all_right =
      std::all_of(example.scored.begin(), example.scored.end(),
                  [](const auto& place) { return place.expected == place.predicted; });
  return all_right ? "query (token → answer)" : "query (token → answer ≠ the right one)";
}

// Lines, where a shade would change the colours below it.
void mark_instruction(draw::Panel& panel, const AttentionExample& example, bool labelled) {
  if (!example.has_instruction()) return;
  const double begin = static_cast<double>(example.instruction_begin) - 0.5;
  const double end = static_cast<double>(example.instruction_end) - 0.5;
  panel.rules.push_back({begin, "", true});
  panel.rules.push_back({end, labelled ? "the instruction ends" : "", true});
}

draw::Curve distance_curve(const runs::DistanceHistogram& histogram, const std::string& name,
                           int color, draw::Stroke stroke) {
  draw::Curve curve;
  curve.name = name;
  curve.color = color;
  curve.stroke = stroke;
  for (std::size_t b = 0; b < histogram.shares.size(); ++b) {
    curve.x.push_back(static_cast<double>(b));
    curve.y.push_back(100.0 * histogram.shares[b]);
  }
  return curve;
}

}  // namespace

draw::Heatmap heatmap(const AttentionExample& example, Map whole, std::int64_t cells) {
  draw::Heatmap map;
  map.rows = whole.rows;
  map.columns = whole.columns;
  map.values = std::move(whole.values);
  for (std::int64_t i = 0; i < map.rows; ++i) {
    for (std::int64_t j = 0; j < map.columns; ++j) {
      if (runs::is_visible(example, i, j)) continue;
      map.values[i * map.columns + j] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return draw::pooled(map, cells, cells);
}

draw::Panel map_panel(const AttentionExample& example, draw::Heatmap map, bool full) {
  draw::Panel panel;
  panel.y_down = panel.square = true;
  panel.map = std::move(map);
  panel.x.label = full ? "key (token)" : "";
  panel.y.label = full ? query_label(example) : "";
  if (full && example.length <= kMostWords) {
    panel.x.words = example.tokens;
    panel.y.words = query_words(example);
  }
  mark_instruction(panel, example, full);
  return panel;
}

draw::Heatmap weights_map(const AttentionExample& example, Map whole, std::int64_t cells,
                          const char* label) {
  const double end = scale_end(whole);
  draw::Heatmap map = heatmap(example, std::move(whole), cells);
  map.low = 0.0;
  map.high = end;
  map.label = label;
  return map;
}

draw::Heatmap difference_map(const AttentionExample& example, Map whole, std::int64_t cells,
                             const char* label) {
  const double end = scale_end(whole);
  draw::Heatmap map = heatmap(example, std::move(whole), cells);
  map.map = draw::ColorMap::kDiverging;
  map.low = -end;
  map.high = end;
  map.label = label;
  return map;
}

draw::Panel distance_panel(const AttentionExample& example, std::vector<draw::Curve> heads) {
  const runs::DistanceHistogram uniform = runs::uniform_distance(example);
  draw::Panel panel;
  panel.x.label = "distance to the key (tokens)";
  panel.x.words = uniform.buckets;
  panel.x.low = -0.5;
  panel.x.high = static_cast<double>(uniform.buckets.size()) - 0.5;
  panel.y.label = "share of weight (%)";
  panel.y.low = 0.0;
  panel.curves = std::move(heads);
  panel.curves.push_back(
      distance_curve(uniform, "uniform attention", kUniformColor, draw::Stroke::kDashed));
  return panel;
}

draw::Curve head_distances(const runs::AttentionRecord& record, std::int64_t layer,
                           std::int64_t head, const std::string& name, int color,
                           draw::Stroke stroke) {
  return distance_curve(runs::attended_distance(record, layer, head), name, color, stroke);
}

draw::Panel divergence_panel(std::int64_t layer, const std::vector<runs::Divergence>& heads) {
  draw::Curve bars;
  bars.name = "total variation";
  bars.stroke = draw::Stroke::kBars;
  draw::Curve dots;
  dots.name = "Jensen-Shannon (bits)";
  dots.stroke = draw::Stroke::kDots;
  dots.color = 1;
  draw::Panel panel;
  for (const runs::Divergence& d : heads) {
    panel.x.words.push_back(std::to_string(d.head));
    bars.x.push_back(static_cast<double>(d.head));
    bars.y.push_back(d.total_variation);
    dots.x.push_back(static_cast<double>(d.head));
    dots.y.push_back(d.jensen_shannon);
  }
  panel.title = fmt::format("layer {}: divergence", layer);
  panel.x.label = "head";
  panel.y.label = "0 (alike) to 1";
  panel.y.low = 0.0;
  panel.y.high = 1.0;
  panel.curves = {std::move(bars), std::move(dots)};
  return panel;
}

}  // namespace posenc::report
