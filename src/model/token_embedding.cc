#include "model/token_embedding.h"

#include <torch/autograd.h>

#include <optional>

#include "torch/torch_version.h"

namespace posenc::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// libtorch's kernels take a fixed order while one lives.
class FixedOrder {
 public:
  FixedOrder()
      : was_(context().deterministicAlgorithms()),
        warned_(context().deterministicAlgorithmsWarnOnly()) {
    context().setDeterministicAlgorithms(true, true);
#if POSENC_TORCH_AT_LEAST(2, 4)
    filled_ = context().deterministicFillUninitializedMemory();
    context().setDeterministicFillUninitializedMemory(false);
#endif
  }
  ~FixedOrder() {
    context().setDeterministicAlgorithms(was_, warned_);
#if POSENC_TORCH_AT_LEAST(2, 4)
    context().setDeterministicFillUninitializedMemory(filled_);
#endif
  }
  FixedOrder(FixedOrder&&) = delete;
  FixedOrder& operator=(FixedOrder&&) = delete;

 private:
  static at::Context& context() { return at::globalContext(); }
  bool was_;
  bool warned_;
  [[maybe_unused]] bool filled_ = true;  // libtorch 1.13 fills nothing
};

struct TokenEmbedding : public torch::autograd::Function<TokenEmbedding> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weight,
                            const at::Tensor& tokens) {
    ctx->save_for_backward({tokens});
    ctx->saved_data["vocabulary"] = weight.size(0);
    return at::embedding(weight, tokens);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    std::optional<FixedOrder> scope;
    if (gradients[0].is_cuda()) scope.emplace();  // a CPU adds in a fixed order anyway
    return {at::embedding_dense_backward(gradients[0], ctx->get_saved_variables()[0],
                                         ctx->saved_data["vocabulary"].toInt(), -1, false),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor embed_tokens(const at::Tensor& weight, const at::Tensor& tokens) {
  return TokenEmbedding::apply(weight, tokens);
}

}  // namespace posenc::model
