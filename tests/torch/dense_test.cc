// Dense layers and norms against libtorch's: values, gradients, gradients of gradients, and under autocast.
#include "torch/dense.h"

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <functional>

#include "support/autocast.h"
#include "torch/residual_norm.h"

namespace posenc::nn {
namespace {

using testing::Autocast;
using torch::autograd::grad;
using Layer = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

struct Derivatives {
  at::Tensor value;
  std::vector<at::Tensor> first, second;
};

// Of <f(inputs), direction>, the direction exact in every type, then of the sum of the squares of the first derivatives.
Derivatives derivatives(const Layer& f, const std::vector<at::Tensor>& inputs, bool twice = true) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& x : inputs) leaves.push_back(x.detach().clone().requires_grad_(true));
  Derivatives d;
  d.value = f(leaves);
  torch::manual_seed(5);
  const at::Tensor direction = at::randn(d.value.sizes(), at::kBFloat16).to(d.value.device());
  d.first = grad({(d.value * direction.to(d.value.scalar_type())).sum()}, leaves, {}, true, twice);
  if (!twice) return d;
  at::Tensor squares = at::zeros({}, d.value.options().requires_grad(false));
  for (const at::Tensor& x : d.first) squares = squares + x.square().sum();
  d.second = grad({squares}, leaves, {}, false, false, true);
  return d;
}

void expect_close(const at::Tensor& a, const at::Tensor& b, double tolerance, const char* what) {
  ASSERT_EQ(a.defined(), b.defined()) << what;
  if (!a.defined()) return;
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  EXPECT_EQ(a.scalar_type(), b.scalar_type()) << what;
  const at::Tensor x = a.to(at::kDouble);
  const at::Tensor y = b.to(at::kDouble);
  EXPECT_LE((x - y).norm().item<double>(), tolerance * (1e-12 + y.norm().item<double>())) << what;
}

void expect_same(const Layer& mine, const Layer& theirs, const std::vector<at::Tensor>& inputs,
                 double tolerance, bool twice = true) {
  const Derivatives a = derivatives(mine, inputs, twice);
  const Derivatives b = derivatives(theirs, inputs, twice);
  expect_close(a.value, b.value, tolerance, "value");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    expect_close(a.first[i], b.first[i], tolerance, "gradient");
    if (twice) expect_close(a.second[i], b.second[i], tolerance, "gradient of a gradient");
  }
}

at::Tensor mine(const std::vector<at::Tensor>& x) { return dense(x[0], x[1], x[2]); }
at::Tensor theirs(const std::vector<at::Tensor>& x) { return at::linear(x[0], x[1], x[2]); }
at::Tensor my_norm(const std::vector<at::Tensor>& x) {
  return residual_norm(x[0], {}, x[1], x[2]).normalized;
}
at::Tensor their_norm(const std::vector<at::Tensor>& x) {
  return at::layer_norm(x[0], x[1].sizes(), x[1], x[2]);
}

// Both outputs in one number, so that each has a gradient.
at::Tensor both(const at::Tensor& sum, const at::Tensor& normalized) {
  return normalized.to(sum.scalar_type()) + sum * sum;
}
at::Tensor my_residual(const std::vector<at::Tensor>& x) {
  const ResidualNorm found = residual_norm(x[0], x[3], x[1], x[2]);
  return both(found.sum, found.normalized);
}
at::Tensor their_residual(const std::vector<at::Tensor>& x) {
  const at::Tensor sum = x[0] + x[3];
  return both(sum, at::layer_norm(sum, x[1].sizes(), x[1], x[2]));
}

std::vector<at::Tensor> layer_inputs(at::TensorOptions options, std::int64_t batch = 3,
                                     std::int64_t tokens = 5, std::int64_t from = 6,
                                     std::int64_t to = 4) {
  torch::manual_seed(7);
  return {at::randn({batch, tokens, from}, at::kDouble).to(options),
          at::randn({to, from}, at::kDouble).to(options), at::randn({to}, at::kDouble).to(options)};
}
std::vector<at::Tensor> norm_inputs(at::TensorOptions options, std::int64_t rows = 15,
                                    std::int64_t dim = 6) {
  torch::manual_seed(8);
  return {(at::randn({3, rows / 3, dim}, at::kDouble) * 2 + 1).to(options),
          at::randn({dim}, at::kDouble).to(options), at::randn({dim}, at::kDouble).to(options)};
}
std::vector<at::Tensor> residual_inputs(at::TensorOptions options, std::int64_t rows = 15,
                                        std::int64_t dim = 6) {
  std::vector<at::Tensor> all = norm_inputs(options, rows, dim);
  all.push_back(at::randn({3, rows / 3, dim}, at::kDouble).to(options));
  return all;
}

TEST(Dense, IsLibtorchsLayerWithItsDerivatives) {
  expect_same(mine, theirs, layer_inputs(at::kDouble), 1e-13);
  expect_same(mine, theirs, layer_inputs(at::kFloat), 1e-6);
}

TEST(Dense, HasNoBiasWhereNoneIsGiven) {
  const auto inputs = layer_inputs(at::kDouble);
  expect_same([](const auto& x) { return dense(x[0], x[1]); },
              [](const auto& x) { return at::linear(x[0], x[1]); }, {inputs[0], inputs[1]}, 1e-13);
}

TEST(Dense, TakesInputsThatNeedNoGradient) {
  auto inputs = layer_inputs(at::kDouble);
  const at::Tensor weight = inputs[1].requires_grad_(true);
  const at::Tensor d = grad({dense(inputs[0], weight, inputs[2]).sum()}, {weight})[0];
  expect_close(d, grad({at::linear(inputs[0], weight, inputs[2]).sum()}, {weight})[0], 1e-13, "");
}

TEST(Dense, LayersOfOneInputAreThoseLayers) {
  torch::manual_seed(2);
  std::vector<torch::nn::Linear> layers = {dense_layer(6, 4, false), dense_layer(6, 2, true),
                                           dense_layer(6, 3, true)};
  const at::Tensor x = at::randn({2, 5, 6}).requires_grad_(true);
  std::vector<at::Tensor> of = {x};
  for (const auto& layer : layers) {
    of.push_back(layer->weight);
    if (layer->bias.defined()) of.push_back(layer->bias);
  }
  const auto together = [&] {
    const auto parts = dense_parts(x, layers);
    return parts[0].square().sum() + parts[1].sum() * 2 - parts[2].exp().sum();
  };
  const auto apart = [&] {
    return layers[0]->forward(x).square().sum() + layers[1]->forward(x).sum() * 2 -
           layers[2]->forward(x).exp().sum();
  };
  const auto a = grad({together()}, of);
  const auto b = grad({apart()}, of);
  for (std::size_t i = 0; i < of.size(); ++i) expect_close(a[i], b[i], 1e-5, "gradient");
  const at::NoGradGuard quiet;
  const auto parts = dense_parts(x, layers);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    expect_close(parts[i], layers[i]->forward(x), 1e-6, "without gradients");
  }
}

// One step after the other, the weights changed in between: the same bits as without copies.
TEST(Dense, WeightCopiesFollowTheWeights) {
  torch::manual_seed(3);
  std::vector<torch::nn::Linear> layers = {dense_layer(6, 4, true), dense_layer(6, 3, true)};
  const at::Tensor x = at::randn({2, 5, 6}).requires_grad_(true);
  const auto gradients = [&] {
    const auto parts = dense_parts(x, layers);
    const at::Tensor y = dense(at::cat(parts, -1).slice(-1, 0, 6), layers[0]);
    const std::vector<at::Tensor> of = {x, layers[0]->weight, layers[1]->weight, layers[0]->bias};
    return grad({y.to(at::kFloat).square().sum()}, of);
  };
  const Autocast scope;
  WeightCopies copies;
  for (int step = 0; step < 3; ++step) {
    const auto plain = gradients();
    const WeightCopies::Use use(copies);
    const auto copied = gradients();
    for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(copied[i].equal(plain[i])) << i;
    const at::NoGradGuard changing;
    for (const auto& layer : layers) layer->weight.mul_(1.25).add_(0.1);
  }
}

TEST(Dense, NormIsLibtorchsWithItsDerivatives) {
  expect_same(my_norm, their_norm, norm_inputs(at::kDouble), 1e-12);
  expect_same(my_norm, their_norm, norm_inputs(at::kFloat), 1e-5);
  expect_same(my_residual, their_residual, residual_inputs(at::kDouble), 1e-12);
}

TEST(Dense, IsLibtorchsLayerUnderAutocast) {
  const Autocast scope;
  expect_same(mine, theirs, layer_inputs(at::kFloat), 2e-2);
}

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "SKIPPED: no CUDA device";
  }
  static at::TensorOptions options(at::ScalarType type) {
    return at::TensorOptions().device(at::kCUDA).dtype(type);
  }
};

using DenseOnGpu = OnGpu;

TEST_F(DenseOnGpu, IsLibtorchsLayerWithItsDerivatives) {
  for (const std::int64_t rows : {1, 7, 64, 65, 1000, 20000}) {
    for (const std::int64_t to : {1, 31, 33, 256}) {
      const auto inputs = layer_inputs(options(at::kFloat), 1, rows, 64, to);
      expect_same(mine, theirs, inputs, 3e-5, rows < 1000);
    }
  }
}

TEST_F(DenseOnGpu, NormIsLibtorchsWithItsDerivatives) {
  for (const std::int64_t rows : {3, 66, 999, 20001}) {
    for (const std::int64_t dim : {16, 64, 100, 512}) {
      expect_same(my_norm, their_norm, norm_inputs(options(at::kFloat), rows, dim), 3e-5,
                  rows < 900);
      expect_same(my_residual, their_residual, residual_inputs(options(at::kFloat), rows, dim),
                  3e-5, rows < 900);
    }
  }
}

// The branch and what products read are bfloat16, the sum and its gradient float32.
TEST_F(DenseOnGpu, NormUnderAutocastRoundsWhatProductsRead) {
  auto inputs = residual_inputs(options(at::kFloat), 999, 64);
  inputs[3] = inputs[3].to(at::kBFloat16);
  const Derivatives exact = derivatives(their_residual, inputs, false);
  const Autocast scope;
  const Derivatives got = derivatives(my_residual, inputs, false);
  EXPECT_EQ(residual_norm(inputs[0], inputs[3], inputs[1], inputs[2]).normalized.scalar_type(),
            at::kBFloat16);
  expect_close(got.value, exact.value, 3e-3, "value");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    expect_close(got.first[i], exact.first[i], 5e-3, "gradient");
  }
}

TEST_F(DenseOnGpu, NormWithoutGradientsOfOneOutput) {
  auto inputs = residual_inputs(options(at::kFloat), 66, 64);
  for (at::Tensor& x : inputs) x.requires_grad_(true);
  const ResidualNorm found = residual_norm(inputs[0], inputs[3], inputs[1], inputs[2]);
  const auto of_sum = grad({found.sum.sum()}, {inputs[0], inputs[3]}, {}, true);
  EXPECT_TRUE(of_sum[0].eq(1).all().item<bool>());
  EXPECT_TRUE(of_sum[1].eq(1).all().item<bool>());
}

// The weight's gradient is added up in float32: nearer to the exact one than libtorch's, which is rounded to bfloat16.
TEST_F(DenseOnGpu, UnderAutocastHasGradientsOfFloat32) {
  const auto inputs = layer_inputs(options(at::kFloat), 4, 512, 64, 96);
  std::vector<at::Tensor> exact;
  for (const at::Tensor& x : inputs) exact.push_back(x.to(at::kBFloat16).to(at::kDouble));
  const at::Tensor want = derivatives(theirs, exact, false).first[1];
  const Autocast scope;
  const auto error = [&](const Layer& layer) {
    const at::Tensor got = derivatives(layer, inputs, false).first[1].to(at::kDouble);
    return (got - want).norm().item<double>() / want.norm().item<double>();
  };
  EXPECT_LT(error(mine), 0.9 * error(theirs));
}

TEST_F(DenseOnGpu, HasTheSameBitsEveryTime) {
  const auto inputs = layer_inputs(options(at::kFloat), 16, 512, 64, 256);
  const Derivatives first = derivatives(mine, inputs, false);
  for (int i = 0; i < 10; ++i) {
    const Derivatives again = derivatives(mine, inputs, false);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      EXPECT_TRUE(again.first[k].equal(first.first[k])) << k;
    }
  }
}

}  // namespace
}  // namespace posenc::nn
