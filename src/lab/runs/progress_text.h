// Formats progress: pure functions of a state.
#pragma once

#include <string>

#include "runs/progress.h"

namespace posenc::runs {

// "0:42", "1:02:03"
std::string duration_text(double seconds);
// "999", "12.3k", "4.56M"
std::string compact_count(double number);
// "512 KiB", "1.20 GiB"
std::string byte_text(double bytes);

// "loss 1.25  acc 93.1 %  12.3k tok/s  1.20 GiB"
std::string fields_text(const ProgressState& state);
// "train 420/1000  loss 1.25  ...  0:42 left"; `took` ends it instead once the phase is over.
std::string plain_line(const ProgressState& state, std::optional<double> took = {});
// At most `width` columns. The bar takes what the text leaves, and goes where that is too little.
std::string bar_line(const ProgressState& state, int width);
std::string json_line(const ProgressState& state);

}  // namespace posenc::runs
