// Reduces the rows of metrics.jsonl such that curves keep their shape.
#pragma once

#include <cstddef>
#include <vector>

#include "core/value.h"

namespace posenc::runs {

// At most `most` of the rows, in their order. The last row of every kind stays; `eval` rows go before other
// kinds and `train` rows come last. Rows of one kind are spread evenly over its steps, and the rows of a step
// stay together: a step has one per condition of the evaluation.
std::vector<Value> thin_metrics(const std::vector<Value>& rows, std::size_t most);

}  // namespace posenc::runs
