#include "report/opening.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "config/load.h"
#include "posenc/core/error.h"
#include "report/words.h"

namespace posenc::report {
namespace {

constexpr std::int64_t kLongestRow = 256;  // that a reader looks at
constexpr std::size_t kMostConditions = 6;
constexpr double kSpread = 0.6;  // of the place of a condition, for its encodings side by side

struct ConditionName {
  std::string axis;
  double factor = 1.0;
  std::string words;
};

std::string words_of(const Cell& cell) {
  if (cell.axis == "longer") return fmt::format("{:.3g}x as long", cell.factor);
  return cell.factor > 1.0 ? fmt::format("{} at {:.3g}x", cell.axis, cell.factor) : cell.axis;
}

// Those beyond training that any entry has, in the order of the files.
std::vector<ConditionName> conditions_beyond(const TaskTable& table) {
  std::vector<ConditionName> names;
  for (const Entry& entry : table.entries) {
    for (const Cell& cell : entry.cells) {
      if (!cell.beyond_training || !cell.schedule.empty() || cell.n == 0) continue;
      const auto known = [&](const ConditionName& name) {
        return name.axis == cell.axis && name.factor == cell.factor;
      };
      if (std::any_of(names.begin(), names.end(), known)) continue;
      names.push_back({cell.axis, cell.factor, words_of(cell)});
    }
  }
  return names;
}

// A share as people take it: answers that are right, whatever the metric counts.
double taken(double value, Metric metric) {
  if (!traits_of(metric).share) return value;
  return 100.0 * (metric == Metric::kError ? 1.0 - value : value);
}

std::string unit_text(const TaskTable& table) {
  if (!traits_of(table.metric).share) return fmt::format(" {}", traits_of(table.metric).unit);
  return table.row_metric ? " % of the rows right" : " % of the answers right";
}

// Whole percents, but 99.6 is not 100 and 0.4 is not 0.
std::string shown_value(double value, Metric metric) {
  if (!traits_of(metric).share) return fmt::format("{:.2f}", value);
  const bool edge = (value > 99.0 && value < 100.0) || (value > 0.0 && value < 1.0);
  return fmt::format("{:.{}f}", value, edge ? 1 : 0);
}

struct Reached {
  std::string name;
  double value = 0.0;
};

// Without entries that have no figure, such as a learned table past its end.
template <class Value>
std::vector<Reached> reached_by(const TaskTable& table, Value value) {
  std::vector<Reached> all;
  for (const Entry& entry : table.entries) {
    for (const std::string& schedule : schedules_of(entry)) {
      const std::optional<double> found = value(entry, schedule);
      if (!found || !std::isfinite(*found)) continue;
      const std::string name = name_in_sentence(series_name(table, entry), schedule);
      all.push_back({name, taken(*found, table.metric)});
    }
  }
  const bool shares = traits_of(table.metric).share;
  std::stable_sort(all.begin(), all.end(), [&](const Reached& a, const Reached& b) {
    return shares ? a.value > b.value : a.value < b.value;
  });
  return all;
}

// A model has its own schedule there.
std::optional<double> in_domain(const Entry& entry, const std::string& schedule) {
  const Cell* cell = entry.cell(kInDomain, 1, schedule);
  return cell == nullptr ? std::nullopt : std::optional(cell->headline().mean);
}

std::string verb_text(const TaskTable& table) {
  return traits_of(table.metric).share ? "get" : "need";
}

// "all get 100 % of the rows right", "they get 3 to 100 % of the rows right"
std::string range_text(const TaskTable& table, const std::vector<Reached>& reached) {
  const std::string best = shown_value(reached.front().value, table.metric);
  const std::string last = shown_value(reached.back().value, table.metric);
  const std::string range = best == last ? best : fmt::format("{} to {}", last, best);
  const bool all = best == last && reached.size() > 1 && reached.size() == table.entries.size();
  return fmt::format("{} {} {}{}", all ? "all" : "they", verb_text(table), range, unit_text(table));
}

// What the sentences before leave out: nothing is dropped in silence.
std::string missing_text(const TaskTable& table, const std::vector<Reached>& beyond) {
  std::size_t failed = 0;
  std::size_t runs = 0;
  std::vector<std::string> without;
  for (const Entry& entry : table.entries) {
    failed += entry.failed.size();
    runs += entry.runs();
    const std::string name = series_name(table, entry);
    const bool known = std::any_of(beyond.begin(), beyond.end(),
                                   [&](const Reached& reached) { return reached.name == name; });
    if (!known) without.push_back(name);
  }
  std::string text;
  if (!beyond.empty() && !without.empty()) {
    text += fmt::format(" No figure there: {}.", fmt::join(without, ", "));
  }
  if (failed > 0) text += fmt::format(" {} of {} runs diverged or failed.", failed, runs);
  return text;
}

std::string beyond_text(const TaskTable& table, const std::vector<Reached>& reached) {
  std::vector<std::string> names;
  for (const ConditionName& name : conditions_beyond(table)) names.push_back(name.words);
  if (names.size() > kMostConditions) names = {fmt::format("{} kinds", names.size())};
  const Reached& best = reached.front();
  std::string text = fmt::format(" On rows unlike those of training ({}) {} {}s {}{}",
                                 fmt::join(names, ", "), best.name, verb_text(table),
                                 shown_value(best.value, table.metric), unit_text(table));
  if (reached.size() > 1) {
    text += fmt::format(", {} {}", reached.back().name,
                        shown_value(reached.back().value, table.metric));
    text += traits_of(table.metric).share ? " %" : "";
  }
  return text + ".";
}

std::string training_row(const tasks::Task& task, std::int64_t length) {
  if (length > kLongestRow || in_bits(task.info().metric)) return "";
  tasks::Batch batch;
  batch.rows = 1;
  task.fill({.axis = "train", .length = length, .train_length = length}, 0, 0, batch);
  return tasks::render(task, batch, 0);
}

Question question_of(const config::LabConfig& config) {
  Question question{
      .text = std::string(tasks::task_traits(config.task).doc), .row = {}, .axes = {}};
  try {
    const auto task = tasks::make_task(config.task);
    question.axes = task->axes();
    question.row = training_row(*task, config::train_length(config.train));
  } catch (const Error&) {
    return question;  // of files that are not here
  }
  return question;
}

draw::Curve seeds_of(const TaskTable& table, const Entry& entry,
                     const std::vector<ConditionName>& conditions, double offset) {
  draw::Curve curve{.name = series_name(table, entry), .stroke = draw::Stroke::kDots};
  for (std::size_t c = 0; c < conditions.size(); ++c) {
    const Cell* cell = entry.cell(conditions[c].axis, conditions[c].factor);
    if (cell == nullptr) continue;
    for (const double value : cell->headline().points) {
      curve.x.push_back(static_cast<double>(c) + offset);
      curve.y.push_back(taken(value, table.metric));
    }
  }
  return curve;
}

}  // namespace

std::optional<Question> question_of(const TaskTable& table, const Details& details) {
  for (const Entry& entry : table.entries) {
    for (const std::string& path : entry.paths) {
      const auto run = details.find(path);
      if (run == details.end() || run->second.config.empty()) continue;
      try {
        return question_of(config::parse_config(run->second.config, path).config);
      } catch (const Error&) {
        return std::nullopt;  // a run of another version
      }
    }
  }
  return std::nullopt;
}

std::string outcome_text(const TaskTable& table) {
  if (table.variants.size() > 1) {  // of which conditions and figures are not the same
    return "The runs differ in more than the encoding; the tables below have each variant apart.";
  }
  const std::vector<Reached> trained = reached_by(table, in_domain);
  if (trained.empty()) return "";
  std::string text =
      fmt::format("Each model was trained on rows of {} positions. On such rows {}.",
                  fmt::join(table.train_lengths, " or "), range_text(table, trained));
  const std::vector<Reached> beyond =
      reached_by(table, [&](const Entry& entry, const std::string& schedule) {
        return beyond_training(table, entry, schedule);
      });
  if (!beyond.empty()) text += beyond_text(table, beyond);
  return text + missing_text(table, beyond);
}

std::optional<draw::Figure> outcome_figure(const TaskTable& table, const SeriesColors& colors) {
  std::vector<ConditionName> conditions = conditions_beyond(table);
  if (conditions.empty() || table.variants.size() > 1) return std::nullopt;
  if (conditions.size() > kMostConditions) conditions.resize(kMostConditions);
  conditions.insert(conditions.begin(), {kInDomain, 1.0, "as trained"});
  draw::Panel panel{.title = "each trained model, by kind of row"};
  for (const ConditionName& condition : conditions) panel.x.words.push_back(condition.words);
  panel.x.low = -0.5;
  panel.x.high = static_cast<double>(conditions.size()) - 0.5;
  panel.y.label = traits_of(table.metric).share
                      ? (table.row_metric ? "rows right in %" : "answers right in %")
                      : std::string(traits_of(table.metric).title);
  if (traits_of(table.metric).share) panel.y.low = -4.0, panel.y.high = 104.0;  // room for dots
  panel.regions.push_back({0.5, *panel.x.high, "beyond training"});
  const auto entries = static_cast<double>(table.entries.size());
  for (std::size_t e = 0; e < table.entries.size(); ++e) {
    const double offset = kSpread * ((static_cast<double>(e) + 0.5) / entries - 0.5);
    draw::Curve curve = seeds_of(table, table.entries[e], conditions, offset);
    curve.color = colors.of(curve.name);
    if (!curve.x.empty()) panel.curves.push_back(std::move(curve));
  }
  draw::Figure figure{.title = fmt::format("{}: {}", table.task, panel.title)};
  figure.panels.push_back(std::move(panel));
  figure.panel_width = 640.0;
  figure.panel_height = 240.0;
  return figure;
}

}  // namespace posenc::report
