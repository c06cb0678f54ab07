// Starting values of weights: functions of a seed and of the parameter's name.
#pragma once

#include <torch/nn.h>

namespace posenc::model {

// Matrices and embeddings are normal with variance 1 / fan-in, those that end a part further divided by the
// number of parts that are summed (2 layers), embeddings that are also the head normal with deviation 0.02;
// biases 0 and norms 1. Parameters of encodings keep the start their spec gives.
void initialise(torch::nn::Module& model, std::uint64_t seed, std::int64_t layers, bool tied);

}  // namespace posenc::model
