// The parts of the attention scores of a sentence, one head, under any spec.
//
//   weight = softmax(raw + bias + content)        over the keys that are not hidden
//
// raw, bias and content follow the formulas of posenc/kernels/ref/attention.h; the weights are that
// reference's own.
#pragma once

#include "plots/words.h"
#include "posenc/encodings/spec.h"

namespace posenc::plots {

// Each is [T, T], row-major. Of hidden keys, only the weights (0) mean anything.
struct ScoreParts {
  std::vector<double> raw;
  std::vector<double> bias;     // site 3
  std::vector<double> content;  // site 4
  std::vector<double> weight;
};

ScoreParts score_parts(const PlotRequest& request, const Spec& spec, const Words& words);

}  // namespace posenc::plots
