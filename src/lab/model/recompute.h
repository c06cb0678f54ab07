// Gradient checkpointing of a block (Chen et al. 2016): activations are not stored but recomputed in the backward pass,
// with the same dropout.
#pragma once

#include "model/transformer.h"

namespace posenc::model {

// As block->forward(); `calls` is what the block's attention counts from, for its dropout.
Residual recomputed(const Block& block, const Residual& in, const at::Tensor& key_mask,
                    const at::Tensor& positions, const at::Tensor& query_scale, std::int64_t calls);

}  // namespace posenc::model
