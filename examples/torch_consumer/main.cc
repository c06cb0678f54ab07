// Trains one attention module to say, at every token, the token before it: a question of position
// alone. Without an encoding it cannot be learnt; with rope it can.
#include <posenc/torch/nn.h>
#include <torch/optim.h>

#include <cstdio>

namespace {

double train(const char* spec) {
  torch::manual_seed(1);
  posenc::nn::Attention attention(posenc::nn::AttentionConfig{
      .model_dim = 16, .heads = 1, .spec = spec, .bias = true, .causal = true});
  torch::optim::Adam optimizer(attention->parameters(), 0.02);
  double loss_now = 0.0;
  for (int step = 0; step < 120; ++step) {
    const at::Tensor tokens = torch::randn({8, 24, 16});
    const at::Tensor wanted = tokens.slice(1, 0, 23);
    const at::Tensor said = attention->forward(tokens).slice(1, 1, 24);
    const at::Tensor loss = torch::mse_loss(said, wanted);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    loss_now = loss.item<double>();
  }
  return loss_now;
}

}  // namespace

int main() {
  const double none = train("none");
  const double rope = train("rope");
  std::printf("mean square error with none %.3f, with rope %.3f\n", none, rope);
  return rope < 0.5 * none ? 0 : 1;
}
