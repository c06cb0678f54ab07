// Token embedding with a deterministic gradient.
#pragma once

#include <ATen/ATen.h>

namespace posenc::model {

// weight [vocabulary, dim], tokens [B, T] of int64 -> [B, T, dim]. libtorch's own gradient on a GPU adds the rows of
// a token in whatever order they arrive; this one asks it for a fixed order.
at::Tensor embed_tokens(const at::Tensor& weight, const at::Tensor& tokens);

}  // namespace posenc::model
