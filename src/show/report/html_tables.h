// Tables of the page; each can be sorted by its columns.
#pragma once

#include <string>

#include "report/charts.h"

namespace posenc::report {

// What the page calls the tables of a task.
std::string overview_id(std::size_t task);
std::string axis_id(std::size_t task, std::size_t axis);

std::string overview_table(const TaskTable& table, const SeriesColors& colors,
                           const std::string& id);
std::string axis_table(const TaskTable& table, const std::string& axis, const SeriesColors& colors,
                       const std::string& id);

}  // namespace posenc::report
