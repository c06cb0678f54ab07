// The charts of a comparison, as figures: what is drawn, not how.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "draw/figure.h"
#include "report/details.h"

namespace posenc::report {

// "rope [B]": what tables, legends and maps call an entry.
std::string series_name(const TaskTable& table, const Entry& entry);

// One colour per name, through all charts of a page.
class SeriesColors {
 public:
  explicit SeriesColors(const Comparison& comparison);
  [[nodiscard]] int of(const std::string& name) const;

 private:
  std::vector<std::string> names_;
};

// The mean over all axes' lengths beyond the training length; nothing where there are none.
std::optional<double> beyond_training(const TaskTable& table, const Entry& entry);

// The metric against the length, a panel per axis; bands are 95 % intervals.
std::optional<draw::Figure> length_figure(const TaskTable& table, const SeriesColors& colors);
// Quality against tokens per second and memory.
std::optional<draw::Figure> cost_figure(const TaskTable& table, const SeriesColors& colors);
// Loss and accuracy against the step; bands are from the lowest to the highest seed.
std::optional<draw::Figure> training_figure(const TaskTable& table, const Details& details,
                                            const SeriesColors& colors);

}  // namespace posenc::report
