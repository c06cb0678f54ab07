// Gradients leave in buckets while the backward pass still computes, and their sums are those of one exchange.
#include "train/gradient_buckets.h"

#include <torch/nn/modules/linear.h>

#include "train/several_processes.h"

namespace posenc::train {
namespace {

struct Layers : torch::nn::Module {
  Layers() {
    for (int i = 0; i < 4; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(8, 8)));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& layer : layers) x = layer->forward(x).tanh();
    return x.square().sum();
  }
  std::vector<torch::nn::Linear> layers;
};

class Buckets : public ::testing::Test {
 protected:
  Buckets()
      : ranks_({.launcher = parallel::Launcher::kTorchrun,
                .address = "127.0.0.1",
                .port = testing::free_port(),
                .job = "buckets"},
               {.timeout_s = 30.0}),
        optimizer_(config::TrainConfig{}, model_) {}
  // One bucket per layer: 64 weights and 8 biases, which take the place of 16.
  [[nodiscard]] std::size_t sent_early(const GradientBuckets::Predicate& late) {
    GradientBuckets buckets(ranks_, optimizer_, 80 * sizeof(float), late);
    EXPECT_EQ(buckets.count(), 4U);
    optimizer_.zero_grad();
    buckets.arm();
    model_.forward(input_).backward();
    buckets.finish();
    return buckets.sent_early();
  }
  parallel::Ranks ranks_;
  Layers model_;
  Optimizer optimizer_;
  at::Tensor input_ = at::linspace(-1, 1, 16).reshape({2, 8});
};

TEST_F(Buckets, LeaveDuringTheBackwardPass) {
  EXPECT_EQ(sent_early([](const std::string&) { return false; }), 4U);
  const at::Tensor summed = optimizer_.gradient().clone();
  optimizer_.zero_grad();
  model_.forward(input_).backward();
  EXPECT_TRUE(at::equal(summed, optimizer_.gradient()));
}

// Buckets leave in one order on all ranks: those after a late one wait with it.
TEST_F(Buckets, WaitForAParameterThatIsAddedToTwice) {
  EXPECT_EQ(sent_early([](const std::string& name) { return name == "layer2.bias"; }), 1U);
}

}  // namespace
}  // namespace posenc::train
