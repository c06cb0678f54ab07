// Tables of the page; each can be sorted by its columns.
#pragma once

#include <string>

#include "report/charts.h"

namespace posenc::report {

std::string overview_table(const TaskTable& table, const SeriesColors& colors,
                           const std::string& id);
std::string axis_table(const TaskTable& table, const std::string& axis, const SeriesColors& colors,
                       const std::string& id);

}  // namespace posenc::report
