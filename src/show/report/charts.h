// The charts of a comparison, as figures: what is drawn, not how.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "draw/figure.h"
#include "report/details.h"

namespace posenc::report {

// "rope [B]", or "rope [B], yarn": what tables, legends and maps call an entry under a schedule.
std::string series_name(const TaskTable& table, const Entry& entry,
                        const std::string& schedule = "");

// One colour per name, through all charts of a page.
class SeriesColors {
 public:
  explicit SeriesColors(const Comparison& comparison);
  [[nodiscard]] int of(const std::string& name) const;

 private:
  std::vector<std::string> names_;
};

// Pixels of a label, roughly.
double text_width(const std::string& text);
// A value as charts draw it: accuracies in %, as tables say them.
double drawn(double value, Metric metric);
draw::Axis metric_axis(Metric metric, const std::string& what = "");

// The headline against the length, a panel per axis; bands are 95 % intervals, dots are seeds where there is
// none.
std::optional<draw::Figure> length_figure(const TaskTable& table, const SeriesColors& colors);
// The metric by position, a panel per condition beyond training, with the trained length and chance.
std::optional<draw::Figure> position_figure(const TaskTable& table, const SeriesColors& colors);
// Whole rows that are right by length and depth, a panel per entry; of tasks that hide something.
std::optional<draw::Figure> depth_figure(const TaskTable& table);
// Quality against tokens per second and memory.
std::optional<draw::Figure> cost_figure(const TaskTable& table, const SeriesColors& colors);
// Loss and accuracy against the step; bands are from the lowest to the highest seed.
std::optional<draw::Figure> training_figure(const TaskTable& table, const Details& details,
                                            const SeriesColors& colors);

}  // namespace posenc::report
