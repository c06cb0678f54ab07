// Initial values of weights, which are functions of the seed and the parameter's name.
#pragma once

#include <torch/nn.h>

namespace posenc::model {

// Matrices and embeddings (tied ones, too) are normal with variance 1 / fan-in, those that end a part further
// divided by the number of parts that are summed (2 layers); biases 0 and norms 1. Parameters of encodings keep
// the initial values that their spec gives.
void initialise(torch::nn::Module& model, std::uint64_t seed, std::int64_t layers);

}  // namespace posenc::model
