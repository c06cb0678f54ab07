// The operators: gradients in float64 against differences, float32 against float64, against compositions
// of libtorch's own operations, and what they refuse.
#include "posenc/torch/ops.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/torch.h>

#include "bench/torch/compositions.h"
#include "cases/table.h"
#include "posenc/core/rng.h"
#include "posenc/encodings/spec.h"
#include "support/finite_difference.h"
#include "support/message_of.h"
#include "torch/fitted_input.h"

namespace posenc {
namespace {

using Tensors = std::vector<at::Tensor>;
using testing::message_of;

struct Problem {
  Problem(const std::string& text, at::ScalarType type, std::int64_t tokens = 7)
      : spec(text), grad_out(at::randn({2, 4, tokens, 8}, at::kDouble).to(type)) {
    const auto leaf = [&](std::int64_t heads) {
      return at::randn({2, heads, tokens, 8}, at::kDouble).to(type).set_requires_grad(true);
    };
    q = leaf(4);
    k = leaf(2);
    v = leaf(2);
    options.causal = true;
    Rng rng(3);
    const Spec parsed = parse_spec(text);
    const ModelShape shape{.head_dim = 8, .heads = 4};
    for (const SpecInput& input : token_inputs(parsed, shape)) {
      const auto own = input.info.float32 && type != at::kDouble ? at::kFloat : type;
      const at::Tensor normal =
          at::randn({2, input.info.head_count(4, 2), tokens, input.info.channels}, at::kDouble);
      options.inputs.push_back(
          testing::fitted_input(input.info, normal).to(own).set_requires_grad(true));
    }
    std::vector<Parameters> values;
    for (const Encoding& e : parsed.encodings) {
      values.push_back(initial_parameters(posenc::parameters(e, shape), rng));
    }
    for (const SpecParameter& p : posenc::parameters(parsed, shape)) {
      auto& entries = values[p.encoding][p.index];
      for (double& x : entries)
        x = p.info.name == "kerple.p" || p.info.name == "kerple.a" ? rng.uniform(0.2, 1.5)
                                                                   : x + 0.3 * rng.normal();
      parameters.push_back(at::tensor(entries, at::kDouble)
                               .reshape(p.info.shape)
                               .to(type == at::kDouble ? at::kDouble : at::kFloat)
                               .set_requires_grad(true));
    }
  }
  // The same numbers in another type.
  [[nodiscard]] Problem as(at::ScalarType type) const {
    Problem other = *this;
    const auto cast = [&](const at::Tensor& x) {
      return x.defined() ? x.detach().to(type).set_requires_grad(true) : x;
    };
    other.q = cast(q);
    other.k = cast(k);
    other.v = cast(v);
    const auto wanted = token_inputs(parse_spec(spec), {.head_dim = 8, .heads = 4});
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      at::Tensor& input = other.options.inputs[i];
      const bool narrow = wanted[i].info.float32 && type != at::kDouble;
      input = input.detach().to(narrow ? at::kFloat : type).set_requires_grad(true);
    }
    other.grad_out = grad_out.to(type);
    for (at::Tensor& p : other.parameters) p = cast(p);
    return other;
  }
  [[nodiscard]] at::Tensor run() const {
    return ops::attention(q, k, v, spec, parameters, options);
  }
  [[nodiscard]] Tensors leaves() const {
    Tensors all = {q, k, v};
    all.insert(all.end(), options.inputs.begin(), options.inputs.end());
    all.insert(all.end(), parameters.begin(), parameters.end());
    return all;
  }

  std::string spec;
  at::Tensor q, k, v, grad_out;
  Tensors parameters;
  ops::AttentionOptions options;
};

const std::vector<std::string>& specs() {
  static const std::vector<std::string> all = cases::with_every_encoding(
      {"none", "rope", "rope(layout=interleaved, rotary_dim=4)", "rope(schedule=learnable)", "xpos",
       "alibi(trainable=true)", "t5(num_buckets=6, max_distance=5)", "kerple",
       "kerple(kernel=power)", "fire(width=3, init_threshold=2.7)", "relative(max_distance=3)",
       "cope(npos_max=3)", "cope(npos_max=3, gate_source=separate)",
       "cope(npos_max=3, gate_source=value, logit_scale=sqrt_dim)",
       "cope(npos_max=3, variant=alibi)",
       "rope(schedule=learnable) + alibi(trainable=true) + cope(npos_max=3, gates_see_bias=true)"});
  return all;
}

// Every gradient of SUM grad_out * out against differences of the operator itself.
void check_gradients(const Tensors& leaves, const std::function<at::Tensor()>& run,
                     const at::Tensor& grad_out) {
  const Tensors gradients = torch::autograd::grad({run()}, leaves, {grad_out}, false, false, true);
  testing::GradientReport report;
  for (std::size_t n = 0; n < leaves.size(); ++n) {
    const at::NoGradGuard moving;
    at::Tensor leaf = leaves[n].detach();
    std::vector<double> values(leaf.data_ptr<double>(), leaf.data_ptr<double>() + leaf.numel());
    ASSERT_TRUE(gradients[n].defined()) << n;
    const at::Tensor gradient = gradients[n].contiguous();
    testing::compare_gradient(
        "leaf " + std::to_string(n), values,
        {gradient.data_ptr<double>(), gradient.data_ptr<double>() + gradient.numel()},
        [&] {
          std::copy(values.begin(), values.end(), leaf.data_ptr<double>());
          return (run() * grad_out).sum().item<double>();
        },
        report);
    std::copy(values.begin(), values.end(), leaf.data_ptr<double>());
  }
  EXPECT_TRUE(testing::gradients_agree(report));
}

TEST(TorchOps, AttentionGradientsMatchDifferencesForEveryEncoding) {
  torch::manual_seed(1);
  for (const std::string& spec : specs()) {
    SCOPED_TRACE(spec);
    const Problem p(spec, at::kDouble, 5);
    check_gradients(
        p.leaves(), [&] { return p.run(); }, p.grad_out);
  }
}

TEST(TorchOps, LinearAttentionAndRopeGradientsMatchDifferences) {
  torch::manual_seed(2);
  for (const char* form : {"elu", "relu", "cosine"}) {
    SCOPED_TRACE(form);
    const Problem p("rope(schedule=learnable)", at::kDouble, 5);
    check_gradients(
        p.leaves(),
        [&] {
          return ops::linear_attention(p.q, p.k, p.v, p.spec, p.parameters, p.options, form, 0.1);
        },
        p.grad_out);
  }
  for (const char* spec : {"rope", "xpos", "rope(schedule=learnable, layout=interleaved)"}) {
    SCOPED_TRACE(spec);
    const Problem p(spec, at::kDouble, 5);
    Tensors leaves = {p.q, p.k};
    leaves.insert(leaves.end(), p.parameters.begin(), p.parameters.end());
    check_gradients(
        leaves,
        [&] {
          const auto [q, k] = ops::rope(p.q, p.k, p.spec, p.parameters);
          return at::cat({q, k}, 1);
        },
        at::cat({p.grad_out, p.grad_out.slice(1, 0, 2)}, 1));
  }
}

double relative_error(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor exact = want.to(at::kDouble);
  const double size = std::max(exact.abs().max().item<double>(), 0.1);
  return (got.to(at::kDouble) - exact).abs().max().item<double>() / size;
}

TEST(TorchOps, Float32EqualsFloat64) {
  torch::manual_seed(3);
  for (const std::string& spec : specs()) {
    SCOPED_TRACE(spec);
    const Problem single(spec, at::kFloat, 70);
    const Problem exact = single.as(at::kDouble);
    EXPECT_LT(relative_error(single.run(), exact.run()), 1e-5);
    if (spec.find("cope") != std::string::npos) continue;  // kinks: the case table avoids them
    const auto got = torch::autograd::grad({single.run()}, single.leaves(), {single.grad_out});
    const auto want = torch::autograd::grad({exact.run()}, exact.leaves(), {exact.grad_out});
    for (std::size_t n = 0; n < got.size(); ++n) {
      EXPECT_EQ(got[n].scalar_type(), at::kFloat);
      EXPECT_LT(relative_error(got[n], want[n]), 1e-4) << "leaf " << n;
    }
  }
}

// What users of libtorch would write themselves.
TEST(TorchOps, EqualsEagerCompositions) {
  torch::manual_seed(4);
  for (const char* text :
       {"none", "rope", "rope(layout=interleaved)", "alibi", "t5", "kerple",
        "fire(init_threshold=20)", "relative", "cope", "rope + alibi", "rope + cope"}) {
    SCOPED_TRACE(text);
    const Spec spec = parse_spec(text);
    const Problem p(text, at::kFloat, 60);
    at::Tensor q = p.q;
    const at::Tensor keys = p.k.repeat_interleave(2, 1);
    at::Tensor k = keys;
    bench::TorchParameters parameters(spec.encodings.size());
    std::size_t next = 0;
    for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
      const auto infos = posenc::parameters(spec.encodings[e], {.head_dim = 8, .heads = 4});
      for (std::size_t n = 0; n < infos.size(); ++n) parameters[e].push_back(p.parameters[next++]);
      if (const auto* rope = std::get_if<Rope>(&spec.encodings[e])) {
        const auto tables = bench::rope_tables(*rope, {.head_dim = 8, .heads = 4}, 60, at::kFloat);
        q = bench::apply_rope(q, tables);
        k = bench::apply_rope(k, tables);
      }
    }
    const bench::Distances distances(60, spec);
    at::Tensor scores = at::matmul(q / std::sqrt(8.0), k.transpose(-2, -1));
    scores = bench::add_encodings(spec, parameters, distances, p.q, scores);
    const at::Tensor weights = at::softmax(scores.masked_fill(distances.hidden, -INFINITY), -1);
    const at::Tensor want = at::matmul(weights, p.v.repeat_interleave(2, 1));
    EXPECT_LT(relative_error(p.run(), want), 1e-5);
    const auto got = torch::autograd::grad({p.run()}, p.leaves(), {p.grad_out}, false, false, true);
    const auto eager = torch::autograd::grad({want}, p.leaves(), {p.grad_out}, false, false, true);
    for (std::size_t n = 0; n < got.size(); ++n) {
      ASSERT_EQ(got[n].defined(), true);
      EXPECT_LT(relative_error(got[n], eager[n]), 1e-4) << "leaf " << n;
    }
  }
}

TEST(TorchOps, ViewsOfAProjectionNeedNoCopyAndGiveTheSame) {
  torch::manual_seed(5);
  const Problem p("rope + alibi", at::kFloat, 20);
  const auto transposed = [](const at::Tensor& x) {
    return x.detach().transpose(1, 2).contiguous().transpose(1, 2);
  };
  const at::Tensor out = ops::attention(transposed(p.q), transposed(p.k), transposed(p.v), p.spec,
                                        p.parameters, p.options);
  EXPECT_TRUE(at::equal(out, p.run()));
  EXPECT_EQ(out.stride(1), 8) << "laid out as q is";
}

TEST(TorchOps, DecodingEqualsTheLastRow) {
  torch::manual_seed(6);
  const Problem p("rope + t5 + cope", at::kFloat, 90);
  const at::Tensor last = ops::attention_decode(p.q.slice(2, 89), p.k, p.v, p.spec, p.parameters);
  EXPECT_LT(relative_error(last, p.run().slice(2, 89)), 1e-5);
}

// Two sequences with the same tokens, in pages of 8 from the last one of the pool to the first.
TEST(TorchOps, DecodingReadsAPagedCache) {
  torch::manual_seed(6);
  const at::Tensor q = at::randn({2, 4, 1, 8});
  const at::Tensor k = at::randn({2, 2, 24, 8});
  const at::Tensor v = at::randn({2, 2, 24, 8});
  const auto pool = [](const at::Tensor& x) {
    return x.transpose(1, 2).reshape({6, 8, 2, 8}).flip({0}).contiguous();
  };
  ops::AttentionOptions paged;
  paged.block_table = at::arange(5, -1, -1, at::kInt).reshape({2, 3});
  paged.cache_lengths = at::tensor({24, 20}, at::kLong);
  const at::Tensor out = ops::attention_decode(q, pool(k), pool(v), "rope + alibi", {}, paged);
  for (const std::int64_t b : {0, 1}) {
    const std::int64_t tokens = b == 0 ? 24 : 20;
    const auto part = [&](const at::Tensor& x) { return x.slice(0, b, b + 1).slice(2, 0, tokens); };
    EXPECT_TRUE(at::equal(
        part(out), ops::attention_decode(q.slice(0, b, b + 1), part(k), part(v), "rope + alibi")));
  }
}

TEST(TorchOps, RerotatedKeysEqualKeysTurnedAfresh) {
  const at::Tensor k = at::randn({2, 3, 5, 8});
  const at::Tensor old_places = at::arange(5, at::kLong);
  const at::Tensor new_places = old_places + 37;
  const auto turned = [&](const at::Tensor& places, const char* spec) {
    return std::get<1>(ops::rope(k, k, spec, {}, places));
  };
  EXPECT_LT(
      relative_error(ops::rerotate(turned(old_places, "rope"), "rope", old_places, new_places),
                     turned(new_places, "rope")),
      1e-5);
  EXPECT_LT(relative_error(ops::rerotate(turned(old_places, "rope"), "rope", old_places, old_places,
                                         "rope(theta=500)"),
                           turned(old_places, "rope(theta=500)")),
            1e-5);
}

TEST(TorchOps, AutocastBringsTypesTogether) {
  const at::Tensor q = at::randn({1, 2, 6, 8}).to(at::kBFloat16);
  const at::Tensor k = at::randn({1, 2, 6, 8});
  EXPECT_THROW((void)ops::attention(q, k, k, "rope"), c10::Error);
  at::autocast::set_cpu_enabled(true);
  const at::Tensor out = ops::attention(q, k, k, "rope");
  const auto [turned, keys] = ops::rope(q, k);
  at::autocast::set_cpu_enabled(false);
  EXPECT_EQ(out.scalar_type(), at::kFloat);
  EXPECT_EQ(turned.scalar_type(), at::kFloat);
}

TEST(TorchOps, MetaTensorsHaveTheShapesOfTheResults) {
  const auto options = at::TensorOptions(at::kMeta).dtype(at::kBFloat16);
  const at::Tensor q = at::empty({2, 4, 10, 8}, options);
  const at::Tensor k = at::empty({2, 2, 30, 8}, options);
  const at::Tensor out = ops::attention(q, k, k, "rope + alibi", {at::empty({4}, at::kMeta)});
  EXPECT_EQ(out.sizes(), q.sizes());
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(out.is_meta());
  EXPECT_EQ(std::get<1>(ops::rope(q, k.slice(2, 0, 10))).sizes(), k.slice(2, 0, 10).sizes());
}

TEST(TorchOps, ConstantsMayBeLeftOut) {
  const Problem p("rope + alibi + cope(npos_max=4)", at::kFloat, 9);
  const at::Tensor slopes = at::tensor(alibi_slopes(Alibi{}, 4), at::kDouble).to(at::kFloat);
  const at::Tensor said =
      ops::attention(p.q, p.k, p.v, p.spec, {slopes, p.parameters[1]}, p.options);
  const at::Tensor unsaid = ops::attention(p.q, p.k, p.v, p.spec, {p.parameters[1]}, p.options);
  EXPECT_LT(relative_error(unsaid, said), 1e-6);
}

TEST(TorchOps, RefusesSecondDerivativesAndMistakesInWords) {
  const Problem p("cope(npos_max=3)", at::kDouble, 4);
  const auto first = torch::autograd::grad({p.run().sum()}, {p.q}, {}, true, true);
  EXPECT_NE(message_of([&] { first[0].sum().backward(); }).find("no second derivative"),
            std::string::npos);
  const auto [turned, keys] = ops::rope(p.q, p.k);
  const auto linear = torch::autograd::grad({turned.square().sum()}, {p.q}, {}, true, true);
  const auto second = torch::autograd::grad({linear[0].sum()}, {p.q});
  EXPECT_LT(relative_error(second[0], at::full_like(p.q, 2.0)), 1e-12) << "rope is linear";

  const auto says = [&](const char* words, const std::function<void()>& body) {
    EXPECT_NE(message_of(body).find(words), std::string::npos) << message_of(body);
  };
  says("parameters must have 24 entries", [&] { (void)ops::attention(p.q, p.k, p.v, p.spec); });
  says("did you mean", [&] { (void)ops::attention(p.q, p.k, p.v, "ropee"); });
  says("k must be [batch, heads, tokens, channels]",
       [&] { (void)ops::attention(p.q, p.k[0], p.v, "rope"); });
  says("must be one rope or xpos", [&] { (void)ops::rope(p.q, p.k, "alibi"); });
  says("form must be elu, relu or cosine",
       [&] { (void)ops::linear_attention(p.q, p.k, p.v, "rope", {}, {}, "softmax"); });
  says("positions must have",
       [&] { (void)ops::rope(p.q, p.k, "rope", {}, at::arange(3, at::kLong)); });
}

}  // namespace
}  // namespace posenc
