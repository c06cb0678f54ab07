// Figures as words: the same in a terminal, a document and a page.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "report/compare.h"

namespace posenc::report {

inline constexpr const char* kNothing = "-";

// "99.2" (an accuracy in %), "0.013" (an error in %), "2.345" (bits).
std::string figure_text(double value, Metric metric);
// "98.2 [97.1,99.0]" where there is an interval, else the points: "98.3 97.1".
std::string headline_text(const Cell* cell, Metric metric);
// The mean where there is one, else the points.
std::string mean_text(const Cell* cell, runs::Region region, Metric metric);
// Figures of single or of generated answers, by seed: means with failed runs counted as in every mean.
using SeedFigures = std::vector<double> Cell::*;
std::optional<double> seeds_mean(const Cell* cell, SeedFigures figures, Metric metric);
std::string seeds_mean_text(const Cell* cell, SeedFigures figures, Metric metric);
// "98.3 97.1 x": one value per seed, x for a run that diverged or failed.
std::string points_text(const Cell* cell, runs::Region region, Metric metric);

// "accuracy in %", "error in % of whole rows"
std::string metric_title(const TaskTable& table);

// "rope, yarn": the row of an encoding under a schedule that is not the model's own.
std::string row_name(const std::string& name, const std::string& schedule);
// "rope with yarn": the same in a sentence, whose commas stand between encodings.
std::string name_in_sentence(const std::string& name, const std::string& schedule);

// "5", or "1 of 5 diverged".
std::string runs_text(const Entry& entry);
bool any_failed(const TaskTable& table);
// Whether an entry has runs enough for an interval, so that its points need a column of their own.
bool has_intervals(const TaskTable& table);

// "64", or "64 [32,128]" where seeds differ.
std::string effective_text(const EffectiveLength& length);
const EffectiveLength* effective_of(const Entry& entry, const std::string& axis,
                                    const std::string& schedule);
std::string threshold_text(const TaskTable& table);
// What the word means, in a sentence.
std::string effective_note(const TaskTable& table);
// What the figures of longer rows are over.
std::string regions_note();
// How failed runs are counted.
std::string failure_note(Metric metric);

std::string speed_text(double tokens_per_s);
std::string cost_text(const Entry& entry);
std::string memory_text(const Entry& entry);  // "512", in MiB
bool has_beyond(const TaskTable& table);
std::string beyond_mean_text(const TaskTable& table, const Entry& entry);

// Lengths that an axis has anywhere, and the schedules that an entry has on it.
std::vector<double> factors_of(const TaskTable& table, const std::string& axis);
std::vector<std::string> schedules_of(const Entry& entry, const std::string& axis);
// On any axis; its own, the empty one, comes first.
std::vector<std::string> schedules_of(const Entry& entry);
// Whether the headline is over a part of the row, so that the last eighth and all positions differ from it.
bool has_regions(const TaskTable& table, const std::string& axis, double factor);
bool has_figures(const TaskTable& table, const std::string& axis, double factor,
                 SeedFigures figures);
// Columns after the headline, where a condition has such figures, and what their names mean.
struct ExtraColumn {
  const char* name;
  SeedFigures figures;
  const char* note;
};
inline constexpr std::array<ExtraColumn, 2> kExtraColumns = {
    {{"answers", &Cell::single, "answers: the metric of single answers instead of whole rows"},
     {"generated", &Cell::generated,
      "generated: each token of an answer follows the model's own ones, not the correct ones"}}};

// A figure that belongs to the condition, not to the encoding: once where all agree.
using PickFigure = std::function<std::optional<double>(const Cell&)>;
std::string shared_text(const TaskTable& table, const std::string& axis, double factor,
                        Metric metric, const PickFigure& pick);
std::string chance_text(const TaskTable& table, const std::string& axis, double factor,
                        runs::Region region = runs::Region::kHeadline);
// The share of answers that training had, in %.
std::string trained_text(const TaskTable& table, const std::string& axis, double factor);
// Whether a condition of the axis has answers that training had not: no encoding can know them.
bool has_untrained(const TaskTable& table, const std::string& axis);

}  // namespace posenc::report
