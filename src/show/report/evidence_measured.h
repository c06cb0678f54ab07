// What an evidence page shows of a measured part: the rows of `posenc bench train`, as tables over lengths.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/tables.h"

namespace posenc::report {

// Tokens per second and memory by encoding and length, "posenc / composed" in each cell: two tables for each model and
// device. An Error signed `scope` where the text is not such a list of rows.
std::vector<TextTable> measured_tables(std::string_view json, const std::string& scope);

// The Markdown between the markers. `json` is empty where nothing is committed.
std::string measured_block(const std::string& json, const std::string& scope,
                           const std::string& command);

}  // namespace posenc::report
