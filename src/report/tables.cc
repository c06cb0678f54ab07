#include "report/tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "report/words.h"

namespace posenc::report {
namespace {

constexpr std::size_t kLongestLabel = 17;

// Long specs are shortened and spelled out below the table, each once.
class Labels {
 public:
  explicit Labels(const TaskTable& table) : table_(table) {}

  std::string of(const Entry& entry, const std::string& schedule = "") {
    std::string label = entry.encoding;
    if (!schedule.empty()) label += " as " + schedule;
    const std::string& variant = table_.variants[entry.variant].name;
    const std::string tail = variant.empty() ? "" : fmt::format(" [{}]", variant);
    if (label.size() + tail.size() <= kLongestLabel) return label + tail;
    return shortened(label, kLongestLabel - tail.size()) + tail;
  }
  [[nodiscard]] std::vector<std::string> legend() const {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < long_.size(); ++i) {
      lines.push_back(fmt::format("#{} {}", i + 1, long_[i]));
    }
    return lines;
  }

 private:
  std::string shortened(const std::string& label, std::size_t room) {
    auto found = std::find(long_.begin(), long_.end(), label);
    if (found == long_.end()) found = long_.insert(long_.end(), label);
    const std::string mark = fmt::format("#{} ", found - long_.begin() + 1);
    return mark + label.substr(0, room - mark.size() - 2) + "..";
  }

  const TaskTable& table_;
  std::vector<std::string> long_;
};

std::string cell_text(const Cell* cell, const std::string& metric) {
  return cell == nullptr ? kNothing : estimate_text(cell->estimate, metric);
}

TextTable overview(const TaskTable& table) {
  TextTable text;
  text.title = fmt::format("{}: {} [95 %], trained at length {}", table.task,
                           metric_text(table.metric), fmt::join(table.train_lengths, ", "));
  text.header = {"encoding",     "n",        "in domain",        "parameters",
                 "of positions", "tokens/s", "time against none"};
  Labels labels(table);
  for (const Entry& entry : table.entries) {
    text.rows.push_back({labels.of(entry), std::to_string(entry.seeds.size()),
                         cell_text(entry.cell(kInDomain, 1), table.metric),
                         std::to_string(entry.parameters),
                         std::to_string(entry.position_parameters), speed_text(entry.tokens_per_s),
                         cost_text(entry)});
  }
  text.rows.push_back({"chance", "", chance_text(table, kInDomain, 1), "", "", "", ""});
  text.notes = labels.legend();
  text.notes.insert(text.notes.end(), table.notes.begin(), table.notes.end());
  return text;
}

// Answers that training never had put a ceiling on any encoding: shown where there are any.
void add_trained_share(const TaskTable& table, const std::string& axis,
                       const std::vector<double>& factors, TextTable& text) {
  std::vector<std::string> row = trained_shares(table, axis, factors);
  if (row.empty()) return;
  row.insert(row.begin(), "answers trained %");
  row.emplace_back("");
  text.rows.push_back(std::move(row));
}

TextTable axis_table(const TaskTable& table, const std::string& axis) {
  const std::vector<double> factors = factors_of(table, axis);
  const bool has_threshold = table.metric != "bits_per_byte";
  TextTable text;
  text.title = fmt::format("{}, axis {}: {} [95 %] at multiples of the training length", table.task,
                           axis, metric_text(table.metric));
  text.header = {"encoding"};
  for (const double factor : factors) text.header.push_back(fmt::format("{:.3g}x", factor));
  text.header.emplace_back("effective");
  Labels labels(table);
  for (const Entry& entry : table.entries) {
    for (const std::string& schedule : schedules_of(entry, axis)) {
      std::vector<std::string> row = {labels.of(entry, schedule)};
      for (const double factor : factors) {
        row.push_back(cell_text(entry.cell(axis, factor, schedule), table.metric));
      }
      const EffectiveLength* effective = effective_of(entry, axis, schedule);
      row.push_back(effective == nullptr ? kNothing : effective_text(*effective));
      text.rows.push_back(std::move(row));
    }
  }
  std::vector<std::string> chance = {"chance"};
  for (const double factor : factors) chance.push_back(chance_text(table, axis, factor));
  chance.emplace_back("");
  text.rows.push_back(std::move(chance));
  add_trained_share(table, axis, factors, text);
  text.notes = labels.legend();
  if (has_threshold) text.notes.push_back(effective_note(table));
  return text;
}

TextTable ranking_table(const Ranking& ranking) {
  TextTable text;
  text.title =
      fmt::format("mean reciprocal rank {}, over {} conditions [95 %, conditions resampled]",
                  ranking_place(ranking), ranking.tasks);
  text.header = {"encoding", "mean reciprocal rank"};
  for (const std::size_t i : ranking_order(ranking)) {
    text.rows.push_back({ranking.encodings[i], estimate_text(ranking.reciprocal_rank[i], "rank")});
  }
  return text;
}

}  // namespace

std::vector<TextTable> text_tables(const Comparison& comparison) {
  std::vector<TextTable> tables;
  for (const TaskTable& table : comparison.tasks) {
    tables.push_back(overview(table));
    for (const std::string& axis : table.axes) tables.push_back(axis_table(table, axis));
  }
  for (const Ranking& ranking : comparison.rankings) tables.push_back(ranking_table(ranking));
  return tables;
}

std::vector<TextTable> fitted(const TextTable& table, std::size_t width) {
  std::vector<std::size_t> widths(table.header.size());
  for (std::size_t c = 0; c < widths.size(); ++c) {
    widths[c] = table.header[c].size();
    for (const auto& row : table.rows) widths[c] = std::max(widths[c], row[c].size());
  }
  std::vector<TextTable> parts;
  std::size_t used = width;
  for (std::size_t c = 1; c < widths.size(); ++c) {
    if (parts.empty() || used + 2 + widths[c] > width) {
      TextTable part{.header = {table.header[0]}};
      for (const auto& row : table.rows) part.rows.push_back({row[0]});
      parts.push_back(std::move(part));
      used = widths[0];
    }
    used += 2 + widths[c];
    parts.back().header.push_back(table.header[c]);
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      parts.back().rows[r].push_back(table.rows[r][c]);
    }
  }
  return parts;
}

}  // namespace posenc::report
