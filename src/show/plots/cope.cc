// CoPE on a toy input: a query that counts chosen words, its gates and its fractional positions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plots/inputs.h"
#include "plots/kinds.h"
#include "plots/panels.h"
#include "plots/words.h"

namespace posenc::plots {
namespace {

const Cope& cope_of(const PlotRequest& request, const NamedSpec& named) {
  constexpr std::string_view kInstead = "cope, with its fields; posenc plot scores shows sums";
  const auto* config = std::get_if<Cope>(&single_encoding(request, named, kInstead));
  if (config != nullptr) return *config;
  refuse(ErrorKind::kUnsupported, "encodings", "must be cope", "'" + to_text(named.spec) + "'",
         fmt::format("take {}", kInstead));
}

// The counting query is 2 s SUM_w u_w with a constant channel of -s, and a key is u_word with a 1 there:
// the logit is s on a word that it counts, and near -s on any other.
std::vector<double> word_logits(const PlotRequest& request, const Words& words) {
  std::vector<double> query(request.head_dim, 0.0);
  for (const std::string& word : request.gate_words) {
    if (std::find(words.tokens.begin(), words.tokens.end(), word) == words.tokens.end()) {
      refuse(ErrorKind::kConflict, "gate_words", "must be words of the text", "'" + word + "'",
             "the gates would open on nothing");
    }
    const std::vector<double> vector = word_vector(request, word);
    for (std::size_t c = 0; c < query.size(); ++c) query[c] += vector[c];
  }
  std::vector<double> logits;
  for (const std::string& token : words.tokens) {
    logits.push_back(request.gate_strength * (2.0 * dot(query, word_vector(request, token)) - 1.0));
  }
  return logits;
}

std::vector<double> gate_logits(const PlotRequest& request, const Words& words) {
  if (request.gates.empty()) return word_logits(request, words);
  if (request.gates.size() != words.tokens.size()) {
    refuse(ErrorKind::kWrongLength, "gates",
           fmt::format("must have one logit per word of the text ({})", words.tokens.size()),
           std::to_string(request.gates.size()), "punctuation marks count as words");
  }
  return request.gates;
}

// Rows of gates and positions, one per query; causal, as the paper has it.
std::vector<CopeRow> cope_rows(const Cope& config, const std::vector<double>& logits) {
  std::vector<CopeRow> rows;
  std::vector<bool> visible(logits.size(), false);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    visible[i] = true;
    rows.push_back(cope_positions(config, logits, visible));
  }
  return rows;
}

draw::Panel word_map(std::string title, const Words& words, draw::Heatmap map) {
  map.masked = kKeyAfterQuery;
  draw::Panel panel = matrix_panel(std::move(title), std::move(map));
  panel.x.label = "key";
  panel.y.label = "query";
  panel.x.words = words.tokens;
  panel.y.words = words.tokens;
  return panel;
}

draw::Panel gates_panel(const Words& words, const std::vector<CopeRow>& rows) {
  const auto n = std::ssize(rows);
  const auto gate = [&](std::int64_t i, std::int64_t j) {
    return j > i ? kHidden : rows[i].gate[j];
  };
  return word_map("gates g_{ij}", words,
                  map_of(n, n, draw::ColorMap::kSequential, "gate (0 to 1)", gate));
}

draw::Panel positions_panel(const Words& words, const std::vector<CopeRow>& rows) {
  const auto n = std::ssize(rows);
  const auto position = [&](std::int64_t i, std::int64_t j) {
    return j > i ? kHidden : rows[i].position[j];
  };
  return word_map("positions p_{ij}", words,
                  map_of(n, n, draw::ColorMap::kSequential, "position (counted keys)", position));
}

draw::Panel staircase_panel(const Cope& config, const Words& words, const CopeRow& last) {
  const auto n = std::ssize(words.tokens);
  draw::Panel panel;
  panel.title = "positions that the last query sees";
  panel.x.label = "key";
  panel.y.label = "position (counted keys)";
  panel.x.words = words.tokens;
  panel.y.low = 0.0;
  panel.x.low = -0.5;
  panel.x.high = static_cast<double>(n) - 0.5;
  const std::vector<std::int64_t> keys = thinned(n - 1, n);
  const auto counted = [&](std::int64_t j) { return last.position[j]; };
  draw::Curve curve = curve_over("CoPE", keys, counted, 0);
  curve.stroke = draw::Stroke::kSteps;
  panel.curves.push_back(std::move(curve));
  const auto open = [&](std::int64_t j) {
    return static_cast<double>(std::min(n - j, config.npos_max - 1));
  };
  draw::Curve all = curve_over("all gates open", keys, open, 1);
  all.stroke = draw::Stroke::kDashed;
  panel.curves.push_back(std::move(all));
  return panel;
}

draw::Panel gate_bars(const Words& words, const CopeRow& last) {
  draw::Panel panel;
  panel.title = "gates of the last query";
  panel.x.label = "key";
  panel.y.label = "gate (0 to 1)";
  panel.x.words = words.tokens;
  panel.y.low = 0.0;
  panel.y.high = 1.0;
  const auto n = std::ssize(words.tokens);
  draw::Curve bars = curve_over(
      "", thinned(n - 1, n), [&](std::int64_t j) { return last.gate[j]; }, 0);
  bars.stroke = draw::Stroke::kBars;
  panel.curves.push_back(std::move(bars));
  return panel;
}

std::string origin_text(const PlotRequest& request) {
  if (!request.gates.empty()) return "Gates from the logits given, the same for every query.";
  return fmt::format(
      "Words have random unit vectors (seed {}), the same for equal words, and the query's gates "
      "open on \"{}\": logit {} there, about -{} elsewhere.",
      request.seed, fmt::join(request.gate_words, "\", \""), plain_number(request.gate_strength),
      plain_number(request.gate_strength));
}

}  // namespace

draw::Figure plot_cope(const PlotRequest& request) {
  const std::vector<NamedSpec> specs = read_specs(request, 1);
  const Cope& config = cope_of(request, specs[0]);
  const Words words = read_words(request);
  const std::vector<CopeRow> rows = cope_rows(config, gate_logits(request, words));
  draw::Figure figure;
  figure.title = "CoPE counts what its gates open on";
  figure.columns = 2;
  figure.panels = {gates_panel(words, rows), positions_panel(words, rows),
                   gate_bars(words, rows.back()), staircase_panel(config, words, rows.back())};
  figure.caption = fmt::format(
      "g = σ(logit), p_{{ij}} = min(Σ_{{t=j…i}} g_{{it}}, {}): a position grows by one at every "
      "counted word and hardly elsewhere, so keys of one sentence share a place; all gates open "
      "would give i − j + 1. {}",
      config.npos_max - 1, origin_text(request));
  figure.panel_width = 360;
  figure.panel_height = 240;
  return figure;
}

}  // namespace posenc::plots
