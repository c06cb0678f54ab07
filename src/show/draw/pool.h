// Maps made smaller so that spikes survive: a cell takes the value of the largest magnitude below it.
#pragma once

#include "draw/figure.h"

namespace posenc::draw {

// At most so many rows and columns; the same map where it fits already. Cells that are all masked stay so.
Heatmap pooled(const Heatmap& map, std::int64_t most_rows, std::int64_t most_columns);

}  // namespace posenc::draw
