#include "report/attention_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "report/attention_panels.h"

namespace posenc::report {
namespace {

using runs::AttentionExample;
using runs::AttentionRecord;
using runs::MapKind;

constexpr std::int64_t kThumbnailCells = 64;
constexpr std::int64_t kFullCells = 1024;
constexpr double kThumbnail = 150.0;
constexpr double kFull = 560.0;

double mean_distance(const AttentionRecord& record, const HeadChoice& head) {
  return runs::attended_distance(record, head.layer, head.head).mean;
}

const std::string& encoding_of(const AttentionRecord& record, std::int64_t layer) {
  return record.example.encodings[layer];
}

std::string encodings_text(const AttentionExample& example) {
  std::vector<std::string> names;
  for (const std::string& name : example.encodings) {
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  std::string text = names.front();
  for (std::size_t i = 1; i < names.size() && i < 4; ++i) text += ", " + names[i];
  return names.size() > 4 ? text + ", ..." : text;
}

std::string map_words(const AttentionExample& example) {
  return fmt::format(
      "Rows are queries, columns keys; every map has a scale of its own.{}",
      example.has_instruction() ? " The instruction is between the two upright lines." : "");
}

draw::Figure new_figure(const std::string& title, const std::string& caption, std::int64_t columns,
                        double size) {
  draw::Figure figure;
  figure.title = title;
  figure.caption = caption;
  figure.columns = columns;
  figure.panel_width = figure.panel_height = size;
  return figure;
}

std::int64_t layers_of(const AttentionRecord& record) { return std::ssize(record.layers); }

// CoPE's own two maps.
void add_cope(draw::Figure& figure, const AttentionRecord& record, const HeadChoice& head) {
  if (!record.layers[head.layer].has_cope()) return;
  const auto add = [&](MapKind kind, const char* title, const char* label,
                       std::optional<double> high) {
    draw::Heatmap map =
        heatmap(record.example, runs::head_map(record, head.layer, head.head, kind), kFullCells);
    map.low = 0.0;
    map.high = high;
    map.label = label;
    draw::Panel panel = map_panel(record.example, std::move(map), true);
    panel.title = fmt::format("layer {}, head {}: {}", head.layer, head.head, title);
    figure.panels.push_back(std::move(panel));
  };
  add(MapKind::kGates, "gates, how much a key counts", "gate", 1.0);
  add(MapKind::kPositions, "positions, the gates summed from the key to the query",
      "position (keys that count)", std::nullopt);
}

std::string answers_text(const AttentionExample& example) {
  const auto right = std::count_if(example.scored.begin(), example.scored.end(),
                                   [](const auto& p) { return p.expected == p.predicted; });
  return fmt::format("{} of {}", right, example.scored.size());
}

std::string sample_text(const AttentionExample& example) {
  return fmt::format("{}, axis {}, {} tokens, sample {}", example.task, example.axis,
                     example.length, example.sample);
}

std::string both_text(const AttentionRecord& first, const AttentionRecord& second,
                      const runs::RecordNames& names) {
  return fmt::format("{}; answers right: {} {}, {} {}", sample_text(first.example), names.first,
                     answers_text(first.example), names.second, answers_text(second.example));
}

}  // namespace

std::string example_text(const AttentionExample& example) {
  return fmt::format("{}; {} answers right", sample_text(example), answers_text(example));
}

std::vector<HeadChoice> chosen_heads(const AttentionRecord& record,
                                     std::vector<std::int64_t> layers,
                                     std::vector<std::int64_t> heads) {
  const auto or_all = [](std::vector<std::int64_t>& numbers, std::int64_t count) {
    if (!numbers.empty()) return;
    numbers.resize(count);
    std::iota(numbers.begin(), numbers.end(), 0);
  };
  or_all(layers, layers_of(record));
  or_all(heads, record.heads);
  std::vector<HeadChoice> chosen;
  for (const std::int64_t layer : layers) {
    for (const std::int64_t head : heads) {
      (void)runs::head_map(record, layer, head);  // says what is wrong with either
      chosen.push_back({layer, head});
    }
  }
  return chosen;
}

draw::Figure attention_overview(const AttentionRecord& record, const std::string& name) {
  draw::Figure figure =
      new_figure(fmt::format("Attention of {} ({})", name, encodings_text(record.example)),
                 fmt::format("{}. Colours are weights. {}", example_text(record.example),
                             map_words(record.example)),
                 record.heads + 1, kThumbnail);
  for (std::int64_t l = 0; l < layers_of(record); ++l) {
    std::vector<draw::Curve> curves;
    for (std::int64_t h = 0; h < record.heads; ++h) {
      draw::Panel panel = map_panel(
          record.example,
          weights_map(record.example, runs::head_map(record, l, h), kThumbnailCells, ""), false);
      panel.title = fmt::format("layer {}, head {}", l, h);
      figure.panels.push_back(std::move(panel));
      curves.push_back(head_distances(record, l, h, fmt::format("head {}", h), static_cast<int>(h),
                                      draw::Stroke::kDotsAndLine));
    }
    draw::Panel distances = distance_panel(record.example, std::move(curves));
    distances.title = fmt::format("layer {}: distances", l);
    figure.panels.push_back(std::move(distances));
  }
  return figure;
}

draw::Figure attention_heads(const AttentionRecord& record, const std::string& name,
                             const std::vector<HeadChoice>& heads) {
  draw::Figure figure = new_figure(
      fmt::format("Attention of {} ({})", name, encodings_text(record.example)),
      fmt::format("{}. {}", example_text(record.example), map_words(record.example)), 2, kFull);
  const double uniform = runs::uniform_distance(record.example).mean;
  for (const HeadChoice& head : heads) {
    const std::string where = fmt::format("layer {}, head {}", head.layer, head.head);
    draw::Panel panel =
        map_panel(record.example,
                  weights_map(record.example, runs::head_map(record, head.layer, head.head),
                              kFullCells, "weight"),
                  true);
    panel.title = fmt::format("{}: weights ({})", where, encoding_of(record, head.layer));
    figure.panels.push_back(std::move(panel));
    draw::Panel distances = distance_panel(
        record.example,
        {head_distances(record, head.layer, head.head, "this head", 0, draw::Stroke::kBars)});
    distances.title = fmt::format("{}: distances, mean {:.1f} (uniform {:.1f})", where,
                                  mean_distance(record, head), uniform);
    figure.panels.push_back(std::move(distances));
    add_cope(figure, record, head);
  }
  return figure;
}

draw::Figure difference_overview(const AttentionRecord& first, const AttentionRecord& second,
                                 const runs::RecordNames& names) {
  const auto apart = runs::divergences(first, second, names);
  draw::Figure figure = new_figure(
      fmt::format("Attention of {} ({}) minus {} ({})", names.second,
                  encodings_text(second.example), names.first, encodings_text(first.example)),
      fmt::format("{}. Colours are differences of weights. TV is the total variation, 0 (alike) to "
                  "1, mean over queries. {}",
                  both_text(first, second, names), map_words(first.example)),
      first.heads + 1, kThumbnail);
  for (std::int64_t l = 0; l < layers_of(first); ++l) {
    std::vector<runs::Divergence> here;
    for (std::int64_t h = 0; h < first.heads; ++h) {
      here.push_back(apart[l * first.heads + h]);
      draw::Panel panel =
          map_panel(first.example,
                    difference_map(first.example, runs::head_difference(first, second, l, h),
                                   kThumbnailCells, ""),
                    false);
      panel.title = fmt::format("layer {}, head {}: TV {:.2f}", l, h, here.back().total_variation);
      figure.panels.push_back(std::move(panel));
    }
    figure.panels.push_back(divergence_panel(l, here));
  }
  return figure;
}

draw::Figure difference_heads(const AttentionRecord& first, const AttentionRecord& second,
                              const runs::RecordNames& names,
                              const std::vector<HeadChoice>& heads) {
  const auto apart = runs::divergences(first, second, names);
  draw::Figure figure = new_figure(
      fmt::format("Attention of {} and {}", names.first, names.second),
      fmt::format("{}. {}", both_text(first, second, names), map_words(first.example)), 2, kFull);
  for (const HeadChoice& head : heads) {
    const auto& d = apart[head.layer * first.heads + head.head];
    const std::string where = fmt::format("layer {}, head {}", head.layer, head.head);
    const auto add = [&](const AttentionRecord& record, draw::Heatmap map,
                         const std::string& what) {
      draw::Panel panel = map_panel(record.example, std::move(map), true);
      panel.title = fmt::format("{}: {}", where, what);
      figure.panels.push_back(std::move(panel));
    };
    const auto weights = [&](const AttentionRecord& record) {
      return weights_map(record.example, runs::head_map(record, head.layer, head.head), kFullCells,
                         "weight");
    };
    add(first, weights(first), names.first);
    add(second, weights(second), names.second);
    add(second,
        difference_map(second.example, runs::head_difference(first, second, head.layer, head.head),
                       kFullCells, "difference of weights"),
        fmt::format("second minus first (TV {:.2f}, JS {:.2f} bits)", d.total_variation,
                    d.jensen_shannon));
    draw::Panel distances = distance_panel(
        first.example,
        {head_distances(first, head.layer, head.head, names.first, 0, draw::Stroke::kDotsAndLine),
         head_distances(second, head.layer, head.head, names.second, 1,
                        draw::Stroke::kDotsAndLine)});
    distances.title = fmt::format("{}: distances, mean {:.1f} and {:.1f}", where,
                                  mean_distance(first, head), mean_distance(second, head));
    figure.panels.push_back(std::move(distances));
  }
  return figure;
}

}  // namespace posenc::report
