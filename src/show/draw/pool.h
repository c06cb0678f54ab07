// Downsamples maps such that spikes stay visible: a cell gets the value of largest magnitude among its inputs.
#pragma once

#include "draw/figure.h"

namespace posenc::draw {

// At most so many rows and columns; the same map where it fits already. Cells that are all masked stay so.
Heatmap pooled(const Heatmap& map, std::int64_t most_rows, std::int64_t most_columns);

}  // namespace posenc::draw
