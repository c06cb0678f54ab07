// Arguments that an earlier version read as something else, without a word: every path refuses them.
#include <gtest/gtest.h>

#include <functional>

#include "cases/attention_data.h"
#include "kernels/terms.h"
#include "posenc/core/error.h"
#include "posenc/kernels/reference.h"
#include "posenc/kernels/rope.h"
#include "support/attention_case.h"
#include "support/message_of.h"

namespace posenc {
namespace {

using cases::AttentionProblem;
using cases::Case;
using cases::LinearAttentionProblem;
using cases::Operation;
using testing::AttentionCase;
using testing::message_of;
using testing::random_case;

constexpr std::int64_t kTooFar = kLargestPosition + 1;

void expect_words(const std::string& message, const std::string& words) {
  EXPECT_NE(message.find(words), std::string::npos) << message;
}

// Attention and linear attention on the CPU, forward and backward, say the same of a change of the call.
void expect_refused(const std::string& words, const std::function<void(AttentionMask&)>& mask,
                    const std::function<void(PositionsView&)>& positions) {
  AttentionProblem f(Case{.spec = "rope", .queries = 12, .keys = 12});
  ASSERT_TRUE(attention(f.call()).ok());
  AttentionBackwardCall backward = f.backward_call();
  mask(backward.forward.mask);
  positions(backward.forward.q_positions);
  expect_words(attention(backward.forward).message(), words);
  expect_words(attention_backward(backward).message(), words);
  LinearAttentionProblem g(
      Case{.op = Operation::kLinearAttention, .spec = "rope", .queries = 12, .keys = 12});
  LinearAttentionCall linear = g.call();
  mask(linear.mask);
  positions(linear.q_positions);
  expect_words(linear_attention(linear).message(), words);
}
void keep(const AttentionMask& /*mask*/) {}
void keep_positions(const PositionsView& /*positions*/) {}

// As the reference says it.
void expect_reference_refuses(const std::string& words,
                              const std::function<void(ref::AttentionOptions&)>& change) {
  AttentionCase problem = random_case(
      "rope", {.batch = 1, .heads = 2, .kv_heads = 2, .queries = 4, .keys = 4, .head_dim = 4}, {},
      1);
  change(problem.options);
  expect_words(message_of([&] { static_cast<void>(problem.forward()); }), words);
  expect_words(message_of([&] { static_cast<void>(problem.backward()); }), words);
  ref::LinearAttentionOptions options;
  options.masking = problem.options.masking;
  options.positions = problem.options.positions;
  expect_words(message_of([&] {
                 static_cast<void>(ref::linear_attention(problem.spec, problem.parameters,
                                                         problem.shape, problem.inputs(), options));
               }),
               words);
}

TEST(Refusals, KeyMasksOfOtherValues) {
  std::vector<std::uint8_t> mask(12, 1);
  mask[5] = 255;
  const std::string words = "key_mask must be 1, or 0 for padding, but got 255";
  expect_refused(
      words, [&](AttentionMask& m) { m.key_mask = mask.data(); }, keep_positions);
  expect_reference_refuses(words, [](ref::AttentionOptions& o) {
    o.masking.key_mask = {1, 0, 255, 1};
  });
}

TEST(Refusals, WindowsBelowMinusOne) {
  expect_refused(
      "window_left must be -1 (no bound) or >= 0 but got -5",
      [](AttentionMask& m) { m.window_left = -5; }, keep_positions);
  expect_refused(
      "window_right must be -1 (no bound) or >= 0 but got -2",
      [](AttentionMask& m) { m.window_right = -2; }, keep_positions);
  expect_reference_refuses("window_left must be >= -1 but got -5",
                           [](ref::AttentionOptions& o) { o.masking.window_left = -5; });
}

TEST(Refusals, EncodingsOfTheInput) {
  for (const char* spec : {"sinusoidal", "learned", "sinusoidal + rope"}) {
    expect_words(message_of([&] { AttentionPlan(parse_spec(spec), {}, 1); }),
                 "nn.PositionalEmbedding");
    expect_words(message_of([&] { static_cast<void>(explain(parse_spec(spec), {})); }),
                 "nn.PositionalEmbedding");
    const AttentionCase problem =
        random_case(spec, {.queries = 2, .keys = 2, .head_dim = 4}, {}, 1);
    expect_words(message_of([&] { static_cast<void>(problem.forward()); }),
                 "nn.PositionalEmbedding");
    expect_words(message_of([&] {
                   static_cast<void>(ref::linear_attention(problem.spec, problem.parameters,
                                                           problem.shape, problem.inputs(), {}));
                 }),
                 "nn.PositionalEmbedding");
  }
  const Spec whole = parse_spec("sinusoidal + rope + learned + alibi");
  EXPECT_EQ(to_text(attention_part(whole)), "rope + alibi");
  EXPECT_EQ(to_text(input_part(whole)), "sinusoidal + learned");
}

TEST(Refusals, InputsThatNothingReads) {
  AttentionProblem f(Case{.spec = "cope(npos_max=4)"});
  AttentionCall call = f.call();
  call.inputs = {&call.k, 1};
  expect_words(attention(call).message(), "inputs must be none but got 1 tensors");
  AttentionCase problem = random_case("cope", {.queries = 2, .keys = 2, .head_dim = 4}, {}, 1);
  problem.of_encodings = {problem.k};
  expect_words(message_of([&] { static_cast<void>(problem.forward()); }),
               "inputs must be none but got 1 tensors");
}

TEST(Refusals, InputsThatAreMissingOrOfAnotherShape) {
  AttentionProblem f(Case{.spec = "rope + cope(npos_max=4, gate_source=separate)"});
  AttentionCall call = f.call();
  const std::vector<ConstTensorView> given(call.inputs.begin(), call.inputs.end());
  call.inputs = {};
  expect_words(attention(call).message(), "inputs must be cope.gate_k but got 0 tensors");
  std::vector<ConstTensorView> wrong = given;
  wrong[0].shape[3] -= 1;
  call.inputs = wrong;
  expect_words(attention(call).message(), "cope.gate_k must have");
  AttentionBackwardCall backward = f.backward_call();
  backward.dinputs = {};
  expect_words(attention_backward(backward).message(), "dinputs must be those of cope.gate_k");
}

// 2^53 itself is exact and runs; one more is refused on every path, with the value.
TEST(Refusals, PositionsThatFloat64DoesNotHold) {
  const std::string words = "positions must be in [-2^53, 2^53] but got ";
  for (const std::int64_t far : {kTooFar, -kTooFar, std::int64_t{1} << 62}) {
    std::vector<std::int64_t> ids(12, 3);
    ids[7] = far;
    const auto by_id = [&](PositionsView& p) { p.ids = ids.data(); };
    expect_refused(words + std::to_string(far), keep, by_id);
    const std::vector<std::int64_t> offsets = {far};
    const auto by_offset = [&](PositionsView& p) { p.offsets = offsets; };
    expect_refused(words + std::to_string(far), keep, by_offset);
    expect_reference_refuses(
        "positions.query must be in [-2^53, 2^53] but got " + std::to_string(far),
        [&](ref::AttentionOptions& o) {
          o.positions.query = {0, 1, far, 3};
        });
  }
  const std::vector<std::int64_t> last = {kLargestPosition - 5};  // 12 tokens from here end past it
  expect_refused(words + std::to_string(kLargestPosition + 6), keep,
                 [&](PositionsView& p) { p.offsets = last; });
}

TEST(Refusals, PositionsOfRotationsAndTables) {
  const Rotary rotary = make_rotary(Rope{}, {.head_dim = 4, .heads = 1}, {});
  const std::vector<double> x(4, 1.0);
  const std::vector<std::int64_t> edge = {kLargestPosition};
  const std::vector<std::int64_t> far = {kTooFar};
  EXPECT_NO_THROW(ref::rope(rotary, Role::kQuery, {1, 1, 1, 4}, x, edge));
  EXPECT_THROW(ref::rope(rotary, Role::kQuery, {1, 1, 1, 4}, x, far), Error);
  std::vector<double> key(4, 1.0);
  EXPECT_THROW(rerotate(rotary, edge, rotary, far, 0, key), Error);
  EXPECT_THROW(rerotate(rotary, kTooFar, 0, key), Error);
  for (const auto mode : {CachePolicy::Mode::kOnDemand, CachePolicy::Mode::kHybrid}) {
    const RotaryCache cache(rotary, {.mode = mode, .length = 8, .block = 8});
    std::vector<float> scratch(cache.row_floats());
    EXPECT_NO_THROW((void)cache.row(Role::kQuery, kLargestPosition, scratch));
    EXPECT_THROW((void)cache.row(Role::kQuery, kTooFar, scratch), Error);
    EXPECT_THROW((void)cache.row(Role::kQuery, INT64_MAX, scratch), Error);
    EXPECT_THROW((void)cache.row(Role::kQuery, INT64_MIN, scratch), Error);
  }
  const ref::EmbeddingShape shape{.batch = 1, .tokens = 1, .model_dim = 4};
  EXPECT_THROW(ref::add_embeddings(parse_spec("sinusoidal"), {{}}, shape, x, far), Error);
}

// An axis that only a trained rotation has counts too, where the reference runs in place of the kernel.
TEST(Refusals, PlansKnowTheAxesOfTrainedRotations) {
  const AttentionPlan plan(parse_spec("rope(schedule=learnable, axes=axial(axes=2))"),
                           {.head_dim = 8, .heads = 1}, 1);
  EXPECT_EQ(plan.terms().axes, 2);
}

}  // namespace
}  // namespace posenc
