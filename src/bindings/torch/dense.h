// Dense layers, optimised for training: the product adds the bias, layers with the same input share one product, and the
// sums over tokens for bias gradients are bound by memory. Results are compared with libtorch's layers: the same formulas,
// also under autocast, and for derivatives of any order.
#pragma once

// clang in C++20 reads the headers of PyTorch 1.13 in this order only.
// clang-format off
#include <ATen/core/ivalue.h>
#include <torch/nn.h>
// clang-format on

#include <map>
#include <utility>
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

// Weights in the type of products, for the layers of a training step: one kernel rounds them all, and layers that read
// the same input have theirs one below the other. It learns which are wanted from the first step.
class WeightCopies {
 public:
  // Copies the weights as they are now; while it lives, layers of this thread take them from here.
  class Use {
   public:
    explicit Use(WeightCopies& copies);
    ~Use();
    Use(Use&&) = delete;
    Use& operator=(Use&&) = delete;

   private:
    WeightCopies* before_ = nullptr;
  };

  // The parts one below the other, kept from now on.
  at::Tensor of(at::TensorList parts, at::ScalarType type);

 private:
  using Key =
      std::pair<const c10::TensorImpl*, std::size_t>;  // the first part, and how many there are
  std::map<Key, at::Tensor> copies_;
  std::vector<at::Tensor> from_, to_;  // the parts, and their places in the copies
};

// What a product of x is computed in.
at::ScalarType product_type(const at::Tensor& x);

}  // namespace posenc::nn
