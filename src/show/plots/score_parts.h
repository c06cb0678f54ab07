// The parts of the attention scores of a sentence, one head, under any spec.
//
//   weight = softmax(raw + bias + content)        over the keys that are not hidden
//
// All four are those of the reference (posenc/kernels/ref/attention.h), which also knows what site 5 does to them.
#pragma once

#include "plots/words.h"
#include "posenc/encodings/spec.h"

namespace posenc::plots {

// Each is [T, T], row-major, and 0 for hidden keys.
struct ScoreParts {
  std::vector<double> raw;
  std::vector<double> bias;     // site 3
  std::vector<double> content;  // site 4
  std::vector<double> weight;
};

ScoreParts score_parts(const PlotRequest& request, const Spec& spec, const Words& words);

}  // namespace posenc::plots
