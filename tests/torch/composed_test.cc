// Attention composed from libtorch's operations, which devices without a fused kernel fall back to: in
// float64 on the CPU, against the reference.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/torch.h>

#include "cases/table.h"
#include "posenc/core/error.h"
#include "posenc/torch/ops.h"
#include "torch/composed/biases.h"
#include "torch/composed/linear.h"
#include "torch/composed/rotations.h"
#include "torch/fitted_input.h"

namespace posenc {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kDim = 8;

struct Setting {
  std::string spec;
  ops::TokenOptions tokens;
  std::int64_t queries = 9;
  std::int64_t keys = 9;
  double dropout = 0.0;
  std::int64_t value_dim = kDim;
};

// Parameters away from special points, joined, in float64.
at::Tensor joined_parameters(const ops::Prepared& prepared) {
  Tensors parts = {at::empty({0}, at::kDouble)};
  for (const SpecParameter& p : prepared.parameters) {
    const at::Tensor start = at::tensor(prepared.start[p.encoding][p.index], at::kDouble);
    const at::Tensor noise = 0.3 * at::randn(start.sizes(), at::kDouble);
    parts.push_back(p.info.name.rfind("kerple", 0) == 0 ? start + noise.abs() : start + noise);
  }
  return at::cat(parts);
}

struct Problem {
  explicit Problem(const Setting& s)
      : q(at::randn({2, kHeads, s.queries, kDim}, at::kDouble)),
        k(at::randn({2, 2, s.keys, kDim}, at::kDouble)),
        v(at::randn({2, 2, s.keys, s.value_dim}, at::kDouble)),
        grad_out(at::randn({2, kHeads, s.queries, s.value_dim}, at::kDouble)),
        tokens("attention", q, k, s.tokens) {
    call.prepared = ops::prepare(s.spec, {.head_dim = kDim, .heads = kHeads}, 2, s.keys);
    call.q = q;
    call.k = k;
    call.v = v;
    for (const SpecInput& input : call.prepared->plan.terms().inputs) {
      const at::Tensor normal = at::randn(
          {2, input.info.head_count(kHeads, 2), s.keys, input.info.channels}, at::kDouble);
      call.inputs.push_back(testing::fitted_input(input.info, normal));
    }
    call.parameters = joined_parameters(*call.prepared);
    call.tokens = &tokens;
    call.dropout = {s.dropout, 5};
  }
  at::Tensor q, k, v, grad_out;
  ops::Tokens tokens;
  ops::ComposedCall call;
};

void expect_close(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  EXPECT_TRUE(at::allclose(got, want, 1e-7, 1e-9, true)) << what << " " << (got - want).abs().max();
}

// Out, lse, then dq, dk, dv, dparameters and those of the inputs.
Tensors listed(const at::Tensor& out, const at::Tensor& lse,
               const ops::AttentionBackward& gradients) {
  const auto& [dq, dk, dv, dinputs, dparameters] = gradients;
  Tensors all = {out, lse, dq, dk, dv, dparameters};
  all.insert(all.end(), dinputs.begin(), dinputs.end());
  return all;
}

Tensors reference_of(const Problem& p, const Setting& s) {
  const ops::TokenOptions& t = s.tokens;
  const auto [out, lse] =
      ops::call_attention(p.q, p.k, p.v, p.call.parameters, p.call.inputs, s.spec, t.causal,
                          t.window_left, t.window_right, t.key_mask, t.cu_queries, t.cu_keys,
                          t.q_positions, t.k_positions, {}, s.dropout, 5, false);
  const auto gradients = ops::call_attention_backward(
      p.grad_out, out, lse, p.q, p.k, p.v, p.call.parameters, p.call.inputs, s.spec, t.causal,
      t.window_left, t.window_right, t.key_mask, t.cu_queries, t.cu_keys, t.q_positions,
      t.k_positions, {}, s.dropout, 5, false, true);
  return listed(out, lse, gradients);
}

Tensors composition_of(const Problem& p) {
  const ops::ComposedResult result = ops::composed_attention(p.call);
  return listed(result.out, result.lse, ops::composed_attention_backward(p.call, p.grad_out));
}

constexpr std::array kResults = {"out",         "lse",     "dq",        "dk",       "dv",
                                 "dparameters", "dinputs", "dinputs 2", "dinputs 3"};
constexpr std::size_t kParameterResult = 5;

// A chain of steps needs causal attention.
Setting causal_where_needed(Setting s) {
  s.tokens.causal = s.tokens.causal || chain_of(parse_spec(s.spec));
  return s;
}

void expect_reference(const Setting& setting) {
  const Setting s = causal_where_needed(setting);
  torch::manual_seed(3);
  const Problem p(s);
  const Tensors want = reference_of(p, s);
  const Tensors got = composition_of(p);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    expect_close(got[i], want[i], s.spec + " " + kResults.at(i));
  }
}

// What a test puts into input `input` of q, k, v, grad_out and those of encodings. A gate that is NaN is an error of the
// reference; in a sum, one of 0 shows in the same rows.
double poison_of(const Problem& p, std::size_t input) {
  const Terms& terms = p.call.prepared->plan.terms();
  const bool sums = input >= 4 && is_gate(terms.inputs[input - 4].info) &&
                    !is_chain(terms.spec.encodings[terms.inputs[input - 4].encoding]);
  return sums ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
}

// Whether the NaN of a token is an error: a gate of Wall that is not hidden.
bool refuses_nan(const Problem& p, const Setting& s, std::size_t input, std::int64_t token) {
  const Terms& terms = p.call.prepared->plan.terms();
  const bool hidden = s.tokens.key_mask.has_value() && s.tokens.key_mask->defined() &&
                      !(*s.tokens.key_mask)[1][token].item<bool>();
  return input >= 4 && !hidden && is_gate(terms.inputs[input - 4].info) &&
         is_chain(terms.spec.encodings[terms.inputs[input - 4].encoding]);
}

// One token of one input is NaN in a head: the same rows are NaN, the others as in the reference.
void expect_reference_with_nan(const Setting& setting, std::size_t input, std::int64_t token) {
  const Setting s = causal_where_needed(setting);
  torch::manual_seed(3);
  const Problem p(s);
  Tensors inputs = {p.q, p.k, p.v, p.grad_out};
  inputs.insert(inputs.end(), p.call.inputs.begin(), p.call.inputs.end());
  if (input >= inputs.size()) return;
  inputs[input][1][1][token].fill_(poison_of(p, input));
  const std::string what =
      s.spec + ", input " + std::to_string(input) + ", token " + std::to_string(token) + ": ";
  if (refuses_nan(p, s, input, token)) {
    EXPECT_THROW(ops::composed_attention(p.call), Error) << what;
    EXPECT_THROW(reference_of(p, s), Error) << what;
    return;
  }
  const Tensors want = reference_of(p, s);
  const Tensors got = composition_of(p);
  // Not further: saturated gates and entries of tables that no row reads.
  for (std::size_t i = 0; i < kParameterResult; ++i) {
    const at::Tensor nan = i == 1 ? want[i].isnan() : want[i].isnan().any(-1, true);
    EXPECT_TRUE(at::equal(got[i].isnan(), nan.expand_as(got[i]))) << what << kResults[i];
    expect_close(got[i].masked_fill(nan, 0.0), want[i].masked_fill(nan, 0.0), what + kResults[i]);
  }
  EXPECT_EQ(got[kParameterResult].isnan().any().item<bool>(),
            want[kParameterResult].isnan().any().item<bool>())
      << what;
}

const std::vector<std::string>& specs() {
  static const std::vector<std::string> kSpecs = cases::with_every_encoding(
      {"none",
       "rope",
       "rope(layout=interleaved, rotary_dim=4, dim_offset=2)",
       "rope(schedule=learnable, theta=[100, 1000])",
       "rope(schedule=yarn(factor=4, original_max_position_embeddings=4))",
       "rope(axes=axial(axes=2))",
       "xpos",
       "rope + xpos + alibi",
       "alibi(trainable=true)",
       "alibi(bidirectional=true, trainable=true)",
       "t5(num_buckets=6, max_distance=5)",
       "t5(num_buckets=8, max_distance=5, bidirectional=true)",
       "kerple",
       "kerple(kernel=power)",
       "relative(max_distance=3)",
       "relative(max_distance=3, bidirectional=true)",
       "fire(width=3, init_threshold=2.7)",
       "cope(npos_max=3)",
       "cope(npos_max=3, gate_source=separate)",
       "cope(npos_max=3, gate_source=value, logit_scale=sqrt_dim)",
       "cope(npos_max=4, variant=alibi)",
       "alibi(trainable=true) + fire(width=2) + cope(npos_max=4, gates_see_bias=true)",
       "cope(npos_max=4) + cope(npos_max=3)",
       "rope(angles=input)",
       "rope + rope(angles=input_position, running=true, layout=interleaved, theta=[10, 100])",
       "rope(values=true, inverse=true) + rope(angles=input, values=true, rotary_dim=4)",
       "rope(schedule=learnable) + temperature(kind=ssmax) + temperature(floor=2)",
       "relative_query(extent=3, bidirectional=true, per_head=true)",
       "rope + relative_query(extent=3, side=key, beyond=clip, bidirectional=true, per_head=true)",
       "relative_query(extent=4, bidirectional=true, buckets=log, max_distance=6, vectors=true)",
       "relative_2d(height=2, width=3) + relative_2d(height=3, width=2, separable=true)",
       "rope + grape_ap(rank=3) + grape_ap(rank=2, separate=true, scale=0.5)",
       "fox(bidirectional=true, scaled=true) + fox",
       "relative_query(extent=4, beyond=clip, source=input, rank=3) + relative_query(extent=2)",
       "alibi(trainable=true) + fox + softcap(cap=1) + stick_breaking",
       "path",
       "path + fox(scaled=true) + alibi(trainable=true) + cope(npos_max=3) + sink",
       "wall",
       "wall + temperature(kind=ssmax) + softcap(cap=1) + stick_breaking"});
  return kSpecs;
}

TEST(ComposedAttention, HasValuesOfAnyWidth) {
  for (const std::string& spec : specs()) {
    if (cases::ties_widths(spec)) continue;
    for (const std::int64_t value_dim : {5, 12}) {
      expect_reference({.spec = spec, .tokens = {.causal = true}, .value_dim = value_dim});
    }
  }
}

TEST(ComposedAttention, IsTheReferenceForEverySpec) {
  for (const std::string& spec : specs()) {
    expect_reference({.spec = spec, .tokens = {.causal = true}});
    expect_reference({.spec = spec, .tokens = {}, .queries = 5, .keys = 8});
  }
}

TEST(ComposedAttention, KnowsMasksPositionsAndDropout) {
  const at::Tensor mask = at::ones({2, 9}, at::kBool);
  mask[1].narrow(0, 0, 4).fill_(false);
  const at::Tensor cu = at::tensor({0, 1, 5, 5, 9}, at::kLong);
  const at::Tensor fewer = at::tensor({0, 1, 3, 3, 7}, at::kLong);
  const at::Tensor ids = at::randint(0, 20, {2, 9, 2}, at::kLong);
  for (const std::string spec : {"rope(axes=axial(axes=2)) + alibi(trainable=true)",
                                 "rope + fire(width=3) + t5(num_buckets=6, max_distance=5)",
                                 "relative(max_distance=3) + cope(npos_max=3)",
                                 "rope(angles=input, running=true, values=true) + stick_breaking",
                                 "temperature(kind=log, floor=2) + "
                                 "relative_query(extent=3, source=input, rank=2, beyond=clip)",
                                 "path + fox", "wall + sink"}) {
    expect_reference({.spec = spec, .tokens = {.causal = true, .key_mask = mask}});
    expect_reference({.spec = spec, .tokens = {.causal = true, .cu_queries = cu}});
    expect_reference({.spec = spec,
                      .tokens = {.causal = true, .cu_queries = fewer, .cu_keys = cu},
                      .queries = 7});
    expect_reference({.spec = spec, .tokens = {.window_left = 3, .window_right = 1}});
    expect_reference(
        {.spec = spec, .tokens = {.causal = true, .q_positions = ids, .k_positions = ids}});
    expect_reference({.spec = spec, .tokens = {.causal = true}, .dropout = 0.4});
    expect_reference({.spec = spec, .tokens = {.causal = true}, .queries = 12, .keys = 9});
  }
}

// More than one tile of steps, the last of them cut.
TEST(ComposedAttention, ChainsOfManyTilesAreTheReference) {
  const at::Tensor cu = at::tensor({0, 70, 71, 150}, at::kLong);
  const at::Tensor fewer = at::tensor({0, 3, 4, 80}, at::kLong);
  for (const std::string spec : {"path", "wall"}) {
    expect_reference({.spec = spec, .queries = 150, .keys = 150});
    expect_reference({.spec = spec, .tokens = {.window_left = 40}, .queries = 33, .keys = 150});
    expect_reference({.spec = spec, .tokens = {.cu_queries = cu}, .queries = 150, .keys = 150});
    expect_reference(
        {.spec = spec, .tokens = {.cu_queries = fewer, .cu_keys = cu}, .queries = 80, .keys = 150});
  }
}

// Gates of 0, and sums of logarithms far below the smallest float.
TEST(ComposedAttention, GatesOfWallMayBeNearlyNothing) {
  torch::manual_seed(8);
  const Setting s{.spec = "wall", .tokens = {.causal = true}, .queries = 70, .keys = 70};
  Problem p(s);
  p.call.inputs[0].select(2, 20).fill_(-std::numeric_limits<double>::infinity());
  p.call.inputs[0].select(2, 40).fill_(-1e5);
  p.call.inputs[0].narrow(3, 0, 4).mul_(1e-3);
  const Tensors want = reference_of(p, s);
  const Tensors got = composition_of(p);
  for (std::size_t i = 0; i < want.size(); ++i) {
    expect_close(got[i], want[i], std::string("wall ") + kResults.at(i));
  }
  p.call.inputs[0][1][0][3][2] = 0.5;
  EXPECT_THROW(ops::composed_attention(p.call), Error);
}

TEST(ComposedAttention, TokensThatAreNaNShowInTheRowsThatSeeThem) {
  const at::Tensor mask = at::ones({2, 9}, at::kBool);
  mask[1].narrow(0, 2, 3).fill_(false);
  for (const std::string& spec : specs()) {
    for (std::size_t input = 0; input < 5; ++input) {
      for (const std::int64_t token : {3, 7}) {
        expect_reference_with_nan({.spec = spec, .tokens = {.causal = true}}, input, token);
        expect_reference_with_nan({.spec = spec, .tokens = {.key_mask = mask}}, input, token);
      }
    }
  }
}

// Far distances share an entry; where a table of all entries would be long, one of the distances is made.
TEST(ComposedAttention, DistancesBeyondATableReadItsLastEntry) {
  const at::Tensor distance = at::tensor({-900000, -3, 0, 3, 70000, 800000, 900000}, at::kLong);
  for (const T5 config : {T5{.max_distance = 128, .bidirectional = true},
                          T5{.max_distance = 500000, .bidirectional = true}}) {
    const at::Tensor table = at::randn({config.num_buckets, kHeads}, at::kDouble);
    for (const at::Tensor& all : {distance, distance.narrow(0, 5, 2), distance.narrow(0, 0, 1)}) {
      const at::Tensor got = ops::toeplitz_bias(config, {table}, all);
      for (std::int64_t n = 0; n < all.numel(); ++n) {
        const std::int64_t bucket = t5_bucket(config, -all[n].item<std::int64_t>());
        EXPECT_TRUE(got.select(1, n).equal(table[bucket])) << all[n];
      }
    }
  }
}

// What the fused kernels read and what they give back, against autograd through the same formula.
TEST(ComposedAttention, TableGradientsAreThoseOfTheTable) {
  torch::manual_seed(4);
  for (const std::string spec :
       {"alibi(trainable=true)", "alibi(trainable=true, bidirectional=true)", "t5", "kerple",
        "t5(bidirectional=true)", "kerple(kernel=power)", "relative(max_distance=3) + kerple",
        "relative(max_distance=50, bidirectional=true)"}) {
    const auto prepared = ops::prepare(spec, {.head_dim = kDim, .heads = kHeads}, 2, 40);
    const at::Tensor flat = joined_parameters(*prepared).set_requires_grad(true);
    const ops::BiasTable range{17, 60};
    const auto parameters = ops::parameter_tensors(*prepared, flat);
    const at::Tensor table = ops::bias_table(*prepared, parameters, range, at::kCPU);
    ASSERT_EQ(table.sizes(), (std::vector<std::int64_t>{kHeads, 60}));
    const at::Tensor dtable = at::randn_like(table);
    const at::Tensor want = torch::autograd::grad({table}, {flat}, {dtable})[0];
    const auto gradients = ops::bias_table_gradient(*prepared, parameters, range, dtable);
    expect_close(ops::join_gradients(*prepared, gradients, flat.detach()), want, spec);
  }
}

// Parameters without gradients cost nothing, and the other gradients are the same.
TEST(ComposedAttention, ParametersThatAreNotWantedHaveNoGradient) {
  torch::manual_seed(7);
  const Problem p({.spec = "alibi(trainable=true) + cope(npos_max=3, gate_source=separate)",
                   .tokens = {.causal = true}});
  const auto all = ops::composed_attention_backward(p.call, p.grad_out);
  const auto rows = ops::composed_attention_backward(p.call, p.grad_out, false);
  expect_close(std::get<0>(rows), std::get<0>(all), "dq");
  expect_close(std::get<3>(rows).at(0), std::get<3>(all).at(0), "dinputs");
  EXPECT_GT(std::get<4>(all).abs().max().item<double>(), 0.0);
  EXPECT_TRUE(at::equal(std::get<4>(rows), at::zeros_like(p.call.parameters)));
}

// Linear attention's rows and walks, with the walk as products, against the reference. `poisoned` is
// an input, q, k, v or grad_out, one token of which is NaN.
void expect_linear_reference(const std::string& form, const ops::TokenOptions& t,
                             std::int64_t queries, std::int64_t keys,
                             c10::optional<std::size_t> poisoned = {}) {
  torch::manual_seed(6);
  const Problem p({.spec = "xpos", .tokens = t, .queries = queries, .keys = keys});
  const Tensors inputs = {p.q, p.k, p.v, p.grad_out};
  if (poisoned) inputs[*poisoned][1][1][4].fill_(std::numeric_limits<double>::quiet_NaN());
  const at::Tensor none = at::empty({0}, at::kDouble);
  ops::LinearRows rows{p.q, p.k, p.v, &p.tokens, {}, t.causal};
  rows.options.epsilon = 0.1;
  using Options = LinearAttentionOptions;
  if (form == "relu") rows.options.feature_map = Options::FeatureMap::kRelu;
  if (form == "cosine") rows.options.form = Options::Form::kCosine;
  ops::LinearDevice device;
  device.walk = ops::walk_by_products;
  const auto& terms = p.call.prepared->plan.terms();
  device.turn = [&](Role role, const at::Tensor& x, bool transposed) {
    const at::Tensor ids = role == Role::kQuery ? p.tokens.q_positions() : p.tokens.k_positions();
    const at::Tensor leaf = x.detach().clone().set_requires_grad(true);
    const at::Tensor y = ops::composed_rotation(terms.spec.encodings[0], terms.shape, terms.lengths,
                                                role, leaf, ids, {});
    return transposed ? torch::autograd::grad({y}, {leaf}, {x})[0] : y.detach();
  };
  device.add_frequencies = [](Role, const at::Tensor&, const at::Tensor&) {};
  std::array<at::Tensor, 3> leaves = {p.q, p.k, p.v};
  for (at::Tensor& x : leaves) x = x.detach().clone().set_requires_grad(true);
  ops::AttentionOptions options;
  options.causal = t.causal;
  options.key_mask = t.key_mask.value_or(at::Tensor());
  options.cu_queries = t.cu_queries.value_or(at::Tensor());
  const at::Tensor want =
      ops::linear_attention(leaves[0], leaves[1], leaves[2], "xpos", {}, options, form, 0.1);
  const ops::LinearResult got = ops::linear_forward(rows, device);
  expect_close(got.out, want.detach(), form + " out");
  const auto gradients =
      torch::autograd::grad({want}, {leaves[0], leaves[1], leaves[2]}, {p.grad_out});
  const ops::LinearGradients g = ops::linear_backward(rows, got, p.grad_out, device);
  expect_close(g.dq, gradients[0], form + " dq");
  expect_close(g.dk, gradients[1], form + " dk");
  expect_close(g.dv, gradients[2], form + " dv");
}

TEST(ComposedLinearAttention, IsTheReferenceForEveryFormAndMask) {
  const at::Tensor mask = at::ones({2, 9}, at::kBool);
  mask[1].narrow(0, 0, 4).fill_(false);
  const at::Tensor cu = at::tensor({0, 1, 5, 5, 9}, at::kLong);
  for (const std::string form : {"elu", "relu", "cosine"}) {
    expect_linear_reference(form, {.causal = true}, 9, 9);
    expect_linear_reference(form, {}, 9, 9);
    expect_linear_reference(form, {.causal = true}, 5, 9);
    expect_linear_reference(form, {.causal = true}, 12, 9);
    expect_linear_reference(form, {.causal = true, .key_mask = mask}, 9, 9);
    expect_linear_reference(form, {.causal = true, .cu_queries = cu}, 9, 9);
  }
}

TEST(ComposedLinearAttention, TokensThatAreNaNShowInTheRowsThatSeeThem) {
  const at::Tensor mask = at::ones({2, 9}, at::kBool);
  mask[1].narrow(0, 3, 4).fill_(false);
  for (const std::string form : {"elu", "relu", "cosine"}) {
    for (std::size_t input = 0; input < 4; ++input) {
      expect_linear_reference(form, {.causal = true}, 9, 9, input);
      expect_linear_reference(form, {}, 9, 9, input);
      expect_linear_reference(form, {.causal = true, .key_mask = mask}, 9, 9, input);
    }
  }
}

}  // namespace
}  // namespace posenc
