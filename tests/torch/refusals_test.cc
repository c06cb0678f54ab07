// Arguments that an earlier version read as something else, without a word: the operators refuse them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "bench/torch/compositions.h"
#include "posenc/core/error.h"
#include "posenc/encodings/common.h"
#include "posenc/torch/ops.h"
#include "support/message_of.h"
#include "torch/composed/composed.h"
#include "torch/torch_version.h"

namespace posenc {
namespace {

using ops::AttentionOptions;
using testing::message_of;

// Attention, decoding, linear attention and the composition, in a type.
std::vector<std::pair<std::string, std::string>> messages(const std::string& spec,
                                                          const AttentionOptions& options,
                                                          at::ScalarType type = at::kFloat) {
  const at::Tensor q = at::randn({2, 4, 6, 8}, at::kDouble).to(type);
  const at::Tensor k = at::randn({2, 2, 6, 8}, at::kDouble).to(type);
  AttentionOptions linear = options;
  linear.window_left = -1;
  const auto optional = [](const at::Tensor& x) {
    return x.defined() ? ops::OptionalTensor(x) : ops::OptionalTensor();
  };
  const ops::TokenOptions tokens{options.causal,
                                 options.window_left,
                                 options.window_right,
                                 optional(options.key_mask),
                                 {},
                                 {},
                                 optional(options.q_positions),
                                 optional(options.k_positions)};
  return {{"attention", message_of([&] { (void)ops::attention(q, k, k, spec, {}, options); })},
          {"decode", message_of([&] { (void)ops::attention_decode(q, k, k, spec, {}, options); })},
          {"linear", message_of([&] { (void)ops::linear_attention(q, k, k, spec, {}, linear); })},
          {"composed", message_of([&] {
             const ops::Tokens on_device("attention", q, k, tokens);
             ops::ComposedCall call;
             call.prepared = ops::prepare(spec, {.head_dim = 8, .heads = 4}, 2, 6);
             call.q = q;
             call.k = call.v = k;
             call.parameters = at::empty({0}, at::kFloat);
             call.tokens = &on_device;
             (void)ops::composed_attention(call);
           })}};
}

void expect_refused(const std::string& words, const AttentionOptions& options,
                    const std::string& spec = "rope") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const auto& [path, message] : messages(spec, options, type)) {
      EXPECT_NE(message.find(words), std::string::npos) << path << " " << type << ": " << message;
    }
  }
}

AttentionOptions with_mask(const at::Tensor& mask) {
  AttentionOptions options;
  options.key_mask = mask;
  return options;
}

TEST(TorchRefusals, MasksThatAreAddedToScores) {
  const at::Tensor seen = at::tensor({1, 1, 1, 0, 0, 1}, at::kLong).expand({2, 6});
  const at::Tensor added = at::zeros({2, 6}).masked_fill(seen == 0, -INFINITY);
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    expect_refused(
        "key_mask must be bool, or integers 0 and 1, but got " + std::string(at::toString(type)),
        with_mask(added.to(type)));
    expect_refused("key_mask must be bool", with_mask(seen.to(type)));
  }
  expect_refused("key_mask must be bool, or integers 0 and 1, but got -10000",
                 with_mask((1 - seen) * -10000));
  expect_refused("but got 255", with_mask((seen * 255).to(at::kByte)));
}

TEST(TorchRefusals, BoolAndIntegerMasksAgree) {
  torch::manual_seed(1);
  const at::Tensor q = at::randn({2, 2, 6, 8});
  const at::Tensor seen = at::tensor({1, 1, 1, 0, 0, 1}, at::kLong).expand({2, 6});
  const auto run = [&](const at::Tensor& mask) {
    return ops::attention(q, q, q, "rope", {}, with_mask(mask));
  };
  const at::Tensor want = run(seen.to(at::kBool));
  EXPECT_FALSE(at::equal(want, run({})));
  for (const at::ScalarType type : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong}) {
    EXPECT_TRUE(at::equal(run(seen.to(type)), want)) << type;
  }
}

TEST(TorchRefusals, EncodingsOfTheInput) {
  expect_refused("nn.PositionalEmbedding", {}, "sinusoidal");
  expect_refused("nn.PositionalEmbedding", {}, "learned(max_positions=8)");
  expect_refused("nn.PositionalEmbedding", {}, "sinusoidal + rope");
}

TEST(TorchRefusals, Windows) {
  AttentionOptions options;
  options.window_left = -5;
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const auto& [path, message] : messages("rope", options, type)) {
      if (path == "linear" || path == "composed")
        continue;  // no window; checked before it is called
      EXPECT_NE(message.find("window_left must be"), std::string::npos) << path << message;
      EXPECT_NE(message.find("but got -5"), std::string::npos) << path << message;
    }
  }
}

TEST(TorchRefusals, PositionsThatFloat64DoesNotHold) {
  for (const std::int64_t far :
       {kLargestPosition + 1, std::int64_t{1} << 62, -kLargestPosition - 1}) {
    AttentionOptions options;
    options.q_positions = at::arange(6, at::kLong);
    options.k_positions = at::tensor({0, 1, 2, 3, 4, 5}, at::kLong);
    options.k_positions[3] = far;
    const std::string words = "must be in [-2^53, 2^53] but got " + std::to_string(far);
    expect_refused("k_positions " + words, options);
    const at::Tensor x = at::randn({1, 2, 6, 8});
    const at::Tensor near = at::arange(6, at::kLong);
    EXPECT_NE(
        message_of([&] { (void)ops::rope(x, x, "rope", {}, options.k_positions); }).find(words),
        std::string::npos);
    EXPECT_NE(
        message_of([&] { (void)ops::rerotate(x, "rope", near, options.k_positions); }).find(words),
        std::string::npos);
    EXPECT_NE(
        message_of([&] { (void)ops::sinusoidal_vectors(options.k_positions, 8); }).find(words),
        std::string::npos);
  }
  const at::Tensor x = at::randn({1, 2, 1, 8});
  EXPECT_NO_THROW((void)ops::rope(x, x, "rope", {}, at::full({1}, kLargestPosition, at::kLong)));
}

// Two coordinates for three axes were read past the end of the positions.
TEST(TorchRefusals, CoordinatesThatAreNotTheAxes) {
  AttentionOptions options;
  options.q_positions = options.k_positions = at::zeros({2, 6, 2}, at::kLong);
  const std::string spec = "rope(axes=mrope(sections=[2, 1, 1]))";
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const auto& [path, message] : messages(spec, options, type)) {
      if (path == "composed") continue;  // its caller checks
      EXPECT_NE(
          message.find("must have 1 or 3 coordinates per token, as the spec reads, but got 2"),
          std::string::npos)
          << path << message;
    }
  }
}

TEST(TorchRefusals, OneCoordinateServesAllAxesOfMovedKeys) {
  const std::string spec = "rope(axes=mrope(sections=[2, 1, 1]))";
  const at::Tensor k = at::randn({1, 2, 6, 8});
  const at::Tensor from = at::arange(6, at::kLong);
  const auto three = [](const at::Tensor& n) {
    return n.reshape({1, 6, 1}).expand({1, 6, 3}).contiguous();
  };
  EXPECT_TRUE(at::equal(ops::rerotate(k, spec, from, from + 3),
                        ops::rerotate(k, spec, three(from), three(from + 3))));
}

TEST(TorchRefusals, OptionsThatNothingReads) {
  const at::Tensor q = at::randn({1, 2, 6, 8});
  const auto says = [&](const std::string& name,
                        const std::function<void(AttentionOptions&)>& change, const auto& op) {
    AttentionOptions options;
    change(options);
    const std::string message = message_of([&] { (void)op(q, q, q, "rope", {}, options); });
    EXPECT_NE(message.find(name), std::string::npos) << message;
  };
  const auto decode = [](const auto& q_, const auto& k_, const auto& v_, const char* spec,
                         at::TensorList none, const AttentionOptions& o) {
    return ops::attention_decode(q_, k_, v_, spec, none, o);
  };
  const auto softmax = [](const auto& q_, const auto& k_, const auto& v_, const char* spec,
                          at::TensorList none, const AttentionOptions& o) {
    return ops::attention(q_, k_, v_, spec, none, o);
  };
  const auto linear = [](const auto& q_, const auto& k_, const auto& v_, const char* spec,
                         at::TensorList none, const AttentionOptions& o) {
    return ops::linear_attention(q_, k_, v_, spec, none, o);
  };
  const auto inputs = [&](AttentionOptions& o) { o.inputs = {q}; };
  says("inputs must be none but got 1 tensors", inputs, softmax);
  says("inputs must be none but got 1 tensors", inputs, decode);
  says("inputs is not read here", inputs, linear);
  const auto table = [](AttentionOptions& o) { o.block_table = at::zeros({1, 1}, at::kInt); };
  says("block_table is not read here", table, softmax);
  says("block_table is not read here", table, linear);
  const auto lengths = [](AttentionOptions& o) { o.cu_keys = at::tensor({0, 6}, at::kLong); };
  says("cu_keys is not read here", lengths, decode);
  says(
      "window_right is not read here", [](AttentionOptions& o) { o.window_right = 3; }, decode);
  says(
      "dropout is not read here", [](AttentionOptions& o) { o.dropout = 0.5; }, decode);
  says(
      "window_left is not read here", [](AttentionOptions& o) { o.window_left = 3; }, linear);
  says(
      "scale is not read here", [](AttentionOptions& o) { o.scale = 2.0; }, linear);
  says(
      "dropout is not read here", [](AttentionOptions& o) { o.dropout = 0.5; }, linear);
}

TEST(TorchRefusals, MinorVersionsCountWithinAMajorOne) {
  static_assert(POSENC_VERSION_AT_LEAST(2, 4, 2, 4));
  static_assert(POSENC_VERSION_AT_LEAST(2, 5, 2, 4));
  static_assert(POSENC_VERSION_AT_LEAST(3, 0, 2, 4));
  static_assert(!POSENC_VERSION_AT_LEAST(2, 3, 2, 4));
  static_assert(!POSENC_VERSION_AT_LEAST(1, 13, 2, 4));
  EXPECT_TRUE(POSENC_TORCH_AT_LEAST(1, 13));
}

// What the benchmark compares with: every encoding is composed as it is meant, or refused.
TEST(BenchCompositions, AreTheOperatorOrAnError) {
  torch::manual_seed(2);
  for (const char* text :
       {"none", "rope", "rope(layout=interleaved)", "alibi(trainable=true)", "kerple",
        "kerple(kernel=power)", "t5(num_buckets=6, max_distance=4)", "relative(max_distance=3)",
        "t5(num_buckets=6, max_distance=4) + relative(max_distance=3)", "fire(width=3)",
        "cope(npos_max=4)", "rope(schedule=yarn(factor=4, original_max_position_embeddings=8))"}) {
    SCOPED_TRACE(text);
    const Spec spec = parse_spec(text);
    const ModelShape shape{.head_dim = 8, .heads = 2};
    Rng rng(5);
    std::vector<Parameters> values;
    for (const Encoding& e : spec.encodings) {
      values.push_back(initial_parameters(parameters(e, shape), rng));
      for (auto& one : values.back()) {
        for (double& x : one) x = std::abs(x) + 0.3 * rng.uniform();
      }
    }
    const auto p = bench::torch_parameters(spec, shape, values, false);
    const at::Tensor q = at::randn({1, 2, 9, 8});
    const at::Tensor k = at::randn({1, 2, 9, 8});
    at::Tensor turned_q = q;
    at::Tensor turned_k = k;
    for (const auto& tables : bench::rope_tables(spec, shape, 9, at::kFloat)) {
      turned_q = bench::apply_rope(turned_q, tables);
      turned_k = bench::apply_rope(turned_k, tables);
    }
    const bench::Distances distances(9, spec);
    const at::Tensor raw = at::matmul(turned_q, turned_k.transpose(-1, -2)) / std::sqrt(8.0);
    const at::Tensor scores =
        bench::add_encodings(spec, p, distances, q, raw).masked_fill(distances.hidden, -INFINITY);
    std::vector<at::Tensor> flat;
    for (const auto& one : p) flat.insert(flat.end(), one.begin(), one.end());
    AttentionOptions options;
    options.causal = true;
    const at::Tensor want = ops::attention(q, k, k, text, flat, options);
    EXPECT_TRUE(at::allclose(at::matmul(scores.softmax(-1), k), want, 1e-4, 1e-5));
  }
  const at::Tensor q = at::randn({1, 2, 3, 8});
  for (const char* text :
       {"xpos", "rope(inverse=true)", "rope(rotary_dim=4)", "rope(schedule=learnable)",
        "relative(bidirectional=true)", "cope(variant=alibi)", "cope(gate_source=value)",
        "cope(logit_scale=sqrt_dim)", "sinusoidal"}) {
    const Spec spec = parse_spec(text);
    EXPECT_THROW((void)bench::rope_tables(spec, {.head_dim = 8, .heads = 2}, 3, at::kFloat), Error)
        << text;
    EXPECT_THROW((void)bench::add_encodings(spec, {{}}, bench::Distances(3, spec), q, q), Error)
        << text;
  }
}

// What libtorch's warnings say while something runs.
std::string warnings_of(const std::function<void()>& run) {
  ::testing::internal::CaptureStderr();
  run();
  return ::testing::internal::GetCapturedStderr();
}

TEST(QuadraticCalls, AreWarnedOfOncePerKindOfCall) {
  const at::Tensor q = at::randn({1, 2, 9, 24});
  const at::Tensor exact = q.to(at::kDouble);
  const at::Tensor places = at::arange(9);
  const AttentionOptions placed{.q_positions = places, .k_positions = places};
  const auto attend = [&](const at::Tensor& x, const AttentionOptions& options) {
    return warnings_of([&] { (void)ops::attention(x, x, x, "alibi", {}, options); });
  };
  EXPECT_EQ(attend(q, {}), "");
  EXPECT_EQ(attend(exact, placed), "");  // asks for the reference
  const std::string words = attend(q, placed);
  EXPECT_NE(words.find("'alibi' is not fused: reference (float64): biases with explicit positions"),
            std::string::npos)
      << words;
  EXPECT_EQ(attend(q, placed), "");
  const std::string decoded = warnings_of([&] {
    (void)ops::attention_decode(q.slice(2, 7, 9), q, q, "alibi", {},
                                {.q_positions = places.slice(0, 7, 9), .k_positions = places});
  });
  EXPECT_NE(decoded.find("is not fused"), std::string::npos) << decoded;
}

}  // namespace
}  // namespace posenc
