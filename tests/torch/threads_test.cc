// Operators called from several threads at once. Each caller computes alone (one thread of libtorch), so
// that ThreadSanitizer sees our locks and not OpenMP's, which it does not know.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <thread>

#include "posenc/torch/ops.h"

namespace posenc {
namespace {

constexpr std::int64_t kCallers = 4;

// Forward and backward of one spec; the gradient of q.
at::Tensor gradient_of(const std::string& spec, double seed) {
  const auto options = at::TensorOptions().dtype(at::kFloat);
  at::Tensor q = at::arange(2 * 24 * 16, options).add(seed).sin().reshape({1, 2, 24, 16});
  q.set_requires_grad(true);
  const at::Tensor k = q.detach().flip(2);
  ops::AttentionOptions o;
  o.causal = true;
  const at::Tensor out = ops::attention(q, k, k, spec, {}, o);
  return torch::autograd::grad({out.square().sum()}, {q})[0];
}

TEST(TorchThreads, OperatorsAgreeWhereManyThreadsCallThem) {
  at::set_num_threads(1);
  // More specs than one: each caller finds some prepared by others, and prepares some itself.
  const std::vector<std::string> specs = {"rope", "rope + alibi", "alibi", "xpos",
                                          "rope(theta=500000)"};
  std::vector<std::vector<at::Tensor>> found(kCallers);
  std::vector<std::thread> callers;
  for (std::int64_t caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 3; ++round) {
        for (const std::string& spec : specs) found[caller].push_back(gradient_of(spec, 7));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const auto& gradients : found) {
    ASSERT_EQ(gradients.size(), 3 * specs.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_TRUE(at::equal(gradients[i], gradient_of(specs[i % specs.size()], 7)))
          << specs[i % specs.size()];
    }
  }
}

}  // namespace
}  // namespace posenc
