// Dense layers and norms as training wants them: biases are added by the product itself, layers that read the same input
// share one product, and sums over tokens for the gradients of biases and norms run at the speed of memory. libtorch's
// own are the judge: the same formulas, under autocast too, to any order of derivative.
#pragma once

// clang in C++20 reads the headers of PyTorch 1.13 in this order only.
// clang-format off
#include <ATen/core/ivalue.h>
#include <torch/nn.h>
// clang-format on

#include <vector>

namespace posenc::nn {

torch::nn::Linear dense_layer(std::int64_t from, std::int64_t to, bool bias);

// x W^T + b over the last dimension; bias may be undefined. Under autocast the product is in its type, and the gradient
// of the weight is added up in float32 where libtorch can.
at::Tensor dense(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});
at::Tensor dense(const at::Tensor& x, const torch::nn::Linear& layer);
// The outputs of several layers for one input, as views of one tensor where gradients are wanted.
std::vector<at::Tensor> dense_parts(const at::Tensor& x,
                                    const std::vector<torch::nn::Linear>& layers);

// LayerNorm over the last dimension, epsilon 1e-5.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace posenc::nn
