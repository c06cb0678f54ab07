#include "model/packed_attention.h"

#include <gtest/gtest.h>

#include <set>

#include "model/transformer.h"

namespace posenc::model {
namespace {

constexpr std::int64_t kSeparator = 0;

at::Tensor row(const std::vector<std::int64_t>& tokens) { return at::tensor(tokens, at::kLong); }

TEST(PackedDocuments, EndWithSeparatorsAndRows) {
  const at::Tensor tokens = at::stack({row({5, 0, 7, 8}), row({0, 0, 3, 0})});
  const PackedDocuments documents = packed_documents(tokens, kSeparator);
  EXPECT_TRUE(documents.lengths.equal(row({0, 2, 4, 5, 6, 8})));
  EXPECT_TRUE(documents.positions.equal(at::stack({row({0, 1, 0, 1}), row({0, 0, 0, 1})})));
}

TransformerImpl make_model(const std::string& encoding, std::int64_t separator) {
  config::ModelConfig config;
  config.encoding = {encoding};
  config.layers = 2;
  config.dim = 32;
  config.heads = 2;
  const ModelContext context{
      .vocabulary = 11, .causal = true, .train_length = 16, .seed = 3, .separator = separator};
  return {config, context};
}

// A document's logits and gradients are those that it has alone.
TEST(PackedDocuments, AreComputedAsIfAlone) {
  const at::Tensor first = row({4, 7, 1, 9, 0});
  const at::Tensor second = row({3, 8, 8, 2, 5, 6, 0});
  const at::Tensor third = row({1, 2, 3, 4});
  for (const char* encoding :
       {"none", "learned(max_positions=64)", "sinusoidal", "rope", "alibi", "t5", "fire",
        "cope(npos_max=8)", "rope + cope(npos_max=8)", "fox"}) {
    TransformerImpl packed = make_model(encoding, kSeparator);
    TransformerImpl alone = make_model(encoding, -1);
    packed.eval();
    alone.eval();
    const at::Tensor tokens =
        at::stack({at::cat({first, second, third}), at::cat({third.flip(0), second, first})});
    const at::Tensor logits = packed.forward(tokens);
    const auto expect_alone = [&](std::int64_t in_row, std::int64_t begin, const at::Tensor& text) {
      const at::Tensor own = alone.forward(text.unsqueeze(0))[0];
      const at::Tensor got = logits[in_row].narrow(0, begin, text.numel());
      EXPECT_LT((own - got).abs().max().item<double>(), 2e-5) << encoding;
    };
    expect_alone(0, 0, first);
    expect_alone(0, 5, second);
    expect_alone(0, 12, third);
    expect_alone(1, 0, at::cat({third.flip(0), second}));
    expect_alone(1, 11, first);
    EXPECT_GT((alone.forward(tokens) - logits).abs().max().item<double>(), 1e-4) << encoding;
  }
}

TEST(PackedDocuments, GradientsStayWithinADocument) {
  TransformerImpl packed = make_model("rope", kSeparator);
  TransformerImpl alone = make_model("rope", -1);
  const at::Tensor text = row({3, 8, 8, 2, 5, 6, 0});
  const at::Tensor tokens = at::cat({row({4, 7, 1, 9, 0}), text, row({1, 2})}).unsqueeze(0);
  packed.forward(tokens)[0].narrow(0, 5, 7).square().sum().backward();
  alone.forward(text.unsqueeze(0)).square().sum().backward();
  for (const auto& item : alone.named_parameters()) {
    const at::Tensor got = packed.named_parameters()[item.key()].grad();
    const at::Tensor want = item.value().grad();
    EXPECT_LT((got - want).abs().max().item<double>(), 1e-4 * (1 + want.abs().max().item<double>()))
        << item.key();
  }
}

// How many nodes of a graph compute a block again.
std::int64_t recomputing_nodes(const at::Tensor& y) {
  std::int64_t count = 0;
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open = {y.grad_fn().get()};
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (node->name().find("Recompute") != std::string::npos) ++count;
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return count;
}

TEST(PackedDocuments, BlocksAreComputedAgain) {
  TransformerImpl model = make_model("rope", kSeparator);
  const at::Tensor tokens = at::stack({row({4, 7, 1, 9, 0, 3, 8}), row({1, 2, 0, 4, 5, 6, 7})});
  const auto gradients = [&](std::int64_t blocks) {
    model.zero_grad();
    const at::Tensor y = model.forward(tokens);
    EXPECT_EQ(recomputing_nodes(y), blocks);
    y.square().sum().backward();
    std::vector<at::Tensor> all;
    for (const at::Tensor& p : model.parameters()) all.push_back(p.grad().clone());
    return all;
  };
  const std::vector<at::Tensor> kept = gradients(0);
  model.recompute_blocks(true);
  const std::vector<at::Tensor> again = gradients(2);
  ASSERT_EQ(kept.size(), again.size());
  for (std::size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(at::allclose(kept[i], again[i], 1e-4, 1e-4)) << i;
}

}  // namespace
}  // namespace posenc::model
