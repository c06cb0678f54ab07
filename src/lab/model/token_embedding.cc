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

// Sums of the rows of each token as a product with a matrix of zeros and ones: one kernel where sorting the tokens
// takes ten.
constexpr std::int64_t kMostByProduct = 512;  // tokens of a vocabulary

at::Tensor summed_by_product(const at::Tensor& rows, const at::Tensor& tokens,
                             std::int64_t vocabulary) {
  const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);
  const at::Tensor all = at::arange(vocabulary, tokens.options()).unsqueeze(1);
  const at::Tensor is_token = all.eq(tokens.reshape({1, -1})).to(rows.scalar_type());
  return at::mm(is_token, rows.reshape({-1, rows.size(-1)}));
}

at::Tensor summed_in_order(const at::Tensor& rows, const at::Tensor& tokens,
                           std::int64_t vocabulary) {
  std::optional<FixedOrder> scope;
  if (rows.is_cuda()) scope.emplace();  // a CPU adds in a fixed order anyway
  return at::embedding_dense_backward(rows, tokens, vocabulary, -1, false);
}

struct TokenEmbedding : public torch::autograd::Function<TokenEmbedding> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weight,
                            const at::Tensor& tokens) {
    ctx->save_for_backward({tokens});
    ctx->saved_data["vocabulary"] = weight.size(0);
    return at::embedding(weight, tokens);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const at::Tensor tokens = ctx->get_saved_variables()[0];
    const std::int64_t vocabulary = ctx->saved_data["vocabulary"].toInt();
    const bool by_product = gradients[0].is_cuda() && vocabulary <= kMostByProduct;
    return {(by_product ? summed_by_product : summed_in_order)(gradients[0], tokens, vocabulary),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor embed_tokens(const at::Tensor& weight, const at::Tensor& tokens) {
  return TokenEmbedding::apply(weight, tokens);
}

}  // namespace posenc::model
