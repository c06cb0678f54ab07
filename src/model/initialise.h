// Starting values of weights: functions of a seed and of the parameter's name.
#pragma once

#include <torch/nn.h>

namespace posenc::model {

// Matrices are normal with variance 1 / fan-in, those that end a part further divided by the number of
// parts that are summed (2 layers). Embeddings are normal with deviation 1, on the scale of the sines and
// cosines that may be added to them, or 0.02 where they are also the head; biases 0 and norms 1. Parameters
// of encodings keep the start their spec gives.
void initialise(torch::nn::Module& model, std::uint64_t seed, std::int64_t layers, bool tied);

}  // namespace posenc::model
