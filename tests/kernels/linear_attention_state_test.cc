// Decoding with linear attention, and what a wrong call says.
#include <gtest/gtest.h>

#include <cstring>

#include "cases/attention_data.h"
#include "cases/compare.h"
#include "cases/table.h"
#include "posenc/core/error.h"

namespace posenc {
namespace {

using cases::Case;
using cases::linear_forms;
using cases::LinearAttentionProblem;
using cases::Tensor;

void expect_same(DType dtype, const std::vector<double>& got, const std::vector<double>& want) {
  const auto found = cases::compare(dtype, {{"out", cases::ResultKind::kValue, got}},
                                    {{"out", cases::ResultKind::kValue, want}});
  EXPECT_TRUE(found.fine()) << found.mismatch;
}

template <class View>
View tokens_of(View view, std::int64_t first, std::int64_t count) {
  using Byte = std::conditional_t<std::is_same_v<View, TensorView>, std::byte, const std::byte>;
  view.data = static_cast<Byte*>(view.data) + view.row_offset(0, 0, first);
  view.shape[2] = count;
  return view;
}

LinearAttentionState::Step step_of(LinearAttentionProblem& f, std::int64_t first,
                                   std::int64_t count) {
  const LinearAttentionCall call = f.call();
  return {tokens_of(call.q, first, count),
          tokens_of(call.k, first, count),
          tokens_of(call.v, first, count),
          tokens_of(call.out, first, count),
          {}};
}

// One pass, then the same sequence in steps of these sizes, the last repeated.
void compare_steps(const Case& c, const std::vector<std::int64_t>& sizes) {
  SCOPED_TRACE(name_of(c));
  LinearAttentionProblem f(c);
  ASSERT_TRUE(linear_attention(f.call()).ok());
  const auto expected = f.data.out.values();
  f.data.out.fill(NAN);
  LinearAttentionState state(f.data.plan, &f.data.parameters, c.batch, c.linear);
  for (std::size_t n = 0; state.tokens() < c.queries; ++n) {
    const std::int64_t size =
        std::min(sizes[std::min(n, sizes.size() - 1)], c.queries - state.tokens());
    const Status status = state.step(step_of(f, state.tokens(), size));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  expect_same(c.dtype, f.data.out.values(), expected);
}

TEST(LinearAttentionState, StepsGiveTheCausalForward) {
  for (const LinearAttentionOptions& options : linear_forms()) {
    for (const char* spec : {"none", "rope", "xpos(scale_base=64)", "rope(schedule=learnable)"}) {
      const Case c{.spec = spec, .batch = 2, .heads = 4, .head_dim = 18, .linear = options};
      for (const auto& sizes : {std::vector<std::int64_t>{1}, {40, 1}, {65, 2}, {7}}) {
        compare_steps(c, sizes);
      }
    }
    compare_steps({.spec = "rope(theta=[10, 1000, 100, 50])", .heads = 4, .linear = options}, {1});
    for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
      compare_steps({.spec = "rope", .dtype = dtype, .linear = options}, {1});
    }
  }
}

TEST(LinearAttentionState, IsAValueThatBranches) {
  LinearAttentionProblem f({.spec = "rope"});
  f.data.out.fill(0.0);
  LinearAttentionState state(f.data.plan, &f.data.parameters, 1);
  ASSERT_TRUE(state.step(step_of(f, 0, 10)).ok());
  LinearAttentionState branch = state;
  ASSERT_TRUE(branch.step(step_of(f, 10, 1)).ok());
  const auto first = f.data.out.values();
  f.data.out.fill(0.0);
  state.reset();
  ASSERT_TRUE(state.step(step_of(f, 0, 10)).ok());
  ASSERT_TRUE(state.step(step_of(f, 10, 1)).ok());
  EXPECT_EQ(f.data.out.values(), first);
  EXPECT_EQ(state.tokens(), 11);
  EXPECT_EQ(state.bytes(), 2 * (16 * 16 + 16) * sizeof(float));
  state.reset();
  EXPECT_EQ(state.tokens(), 0);
}

TEST(LinearAttentionState, TakesPositionsOfItsOwn) {
  LinearAttentionProblem f(
      {.spec = "rope", .positions = cases::PositionForm::kOffsets, .offset = 500});
  ASSERT_TRUE(linear_attention(f.call()).ok());
  const auto expected = f.data.out.values();
  LinearAttentionState state(f.data.plan, &f.data.parameters, 1);
  for (std::int64_t t = 0; t < f.data.c.queries; ++t) {
    const std::vector<std::int64_t> at = {500 + t};
    LinearAttentionState::Step step = step_of(f, t, 1);
    step.positions.offsets = at;
    ASSERT_TRUE(state.step(step).ok());
  }
  expect_same(DType::kFloat32, f.data.out.values(), expected);
}

void expect_refused(const LinearAttentionProblem& f, const Status& status, const char* named) {
  EXPECT_FALSE(status.ok()) << named;
  EXPECT_NE(std::strstr(status.message(), named), nullptr) << status.message();
  EXPECT_NE(std::strstr(status.message(), "[linear_attention"), nullptr) << status.message();
  for (const Tensor* t : {&f.data.out, &f.data.dq, &f.data.dk, &f.data.dv}) {
    for (const double x : t->values()) ASSERT_TRUE(std::isnan(x)) << named;
  }
  for (const float x : f.data.row_sums) ASSERT_TRUE(std::isnan(x)) << named;
}

TEST(LinearAttentionErrors, NameTheArgumentAndWriteNothing) {
  const auto refuse = [](const char* named, const auto& change) {
    LinearAttentionProblem f({.spec = "rope"});
    LinearAttentionCall call = f.call();
    change(f, call);
    expect_refused(f, linear_attention(call), named);
  };
  using Call = LinearAttentionCall;
  refuse("plan", [](auto&, Call& c) { c.plan = nullptr; });
  refuse("parameters", [](auto&, Call& c) { c.parameters = nullptr; });
  refuse("q ", [](auto&, Call& c) { c.q.data = nullptr; });
  refuse("q ", [](auto&, Call& c) { c.q.shape[3] = 8; });
  refuse("k ", [](auto&, Call& c) { c.k.shape[1] = 1; });
  refuse("k ", [](auto&, Call& c) { c.k.dtype = DType::kFloat16; });
  refuse("v ", [](auto&, Call& c) { c.v.shape[2] = 3; });
  refuse("v ", [](auto&, Call& c) { c.v.stride[3] = 2; });
  refuse("out ", [](auto&, Call& c) { c.out.shape[0] = 2; });
  refuse("out ", [](auto& f, Call& c) { c.out.data = f.data.v.view().data; });
  refuse("denominator", [](auto&, Call& c) { c.denominator = c.denominator.first(3); });
  refuse("window_left", [](auto&, Call& c) { c.mask.window_left = 2; });
  refuse("window_right", [](auto&, Call& c) { c.mask.window_right = 0; });
  refuse("epsilon", [](auto&, Call& c) { c.options.epsilon = 0.0; });
  refuse("epsilon", [](auto&, Call& c) { c.options.epsilon = NAN; });
  static const std::vector<std::int64_t> kShort = {0, 5};
  refuse("cu_queries", [](auto&, Call& c) { c.mask.cu_queries = kShort; });
  refuse("q_positions", [](auto&, Call& c) { c.q_positions.offsets = kShort; });
  refuse("k_positions", [](auto&, Call& c) { c.k_positions.offsets = kShort; });
}

TEST(LinearAttentionErrors, BackwardNamesTheArgumentAndWritesNothing) {
  const auto refuse = [](const char* named, const auto& change) {
    LinearAttentionProblem f({.spec = "rope"});
    LinearAttentionBackwardCall call = f.backward_call();
    change(f, call);
    expect_refused(f, linear_attention_backward(call), named);
    EXPECT_TRUE(f.data.dparameters.empty());
  };
  using Call = LinearAttentionBackwardCall;
  refuse("denominator", [](auto&, Call& c) { c.forward.denominator = {}; });
  refuse("grad_out", [](auto&, Call& c) { c.grad_out.data = nullptr; });
  refuse("dq ", [](auto&, Call& c) { c.dq.shape[2] = 1; });
  refuse("dk ", [](auto&, Call& c) { c.dk.data = nullptr; });
  refuse("dv ", [](auto&, Call& c) { c.dv.dtype = DType::kBfloat16; });
  refuse("dq ", [](auto& f, Call& c) { c.dq.data = f.data.q.view().data; });
  refuse("dk ", [](auto&, Call& c) { c.dk.data = c.dv.data; });
  refuse("dv ", [](auto& f, Call& c) {
    c.dv.data = static_cast<std::byte*>(f.data.grad_out.view().data) + 4;
  });
}

TEST(LinearAttentionErrors, RefusesWhatNeedsARowOfScores) {
  for (const char* spec : {"alibi", "rope + cope", "t5", "fire"}) {
    LinearAttentionProblem f({.spec = spec});
    const Status status = linear_attention(f.call());
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << spec;
    EXPECT_NE(std::strstr(status.message(), "row of scores"), nullptr) << status.message();
    EXPECT_THROW(LinearAttentionState(f.data.plan, &f.data.parameters, 1), Error);
  }
}

TEST(LinearAttentionErrors, AStateStaysAsItWas) {
  LinearAttentionProblem f({.spec = "rope"});
  LinearAttentionState state(f.data.plan, &f.data.parameters, 2);
  const Status status = state.step(step_of(f, 0, 1));
  EXPECT_NE(std::strstr(status.message(), "batch of q"), nullptr) << status.message();
  LinearAttentionState one(f.data.plan, &f.data.parameters, 1);
  LinearAttentionState::Step step = step_of(f, 0, 2);
  step.k.shape[2] = 1;
  EXPECT_FALSE(one.step(step).ok());
  EXPECT_EQ(one.tokens(), 0);
}

TEST(LinearAttentionErrors, EmptyCallsAreFine) {
  for (const auto& [queries, keys] : {std::pair{0, 0}, {0, 5}, {5, 0}}) {
    LinearAttentionProblem f({.spec = "rope", .queries = queries, .keys = keys});
    EXPECT_TRUE(linear_attention(f.call()).ok());
    const Status status = linear_attention_backward(f.backward_call());
    EXPECT_TRUE(status.ok()) << status.message();
    for (const Tensor* t : {&f.data.out, &f.data.dq, &f.data.dk, &f.data.dv}) {
      for (const double x : t->values()) EXPECT_EQ(x, 0.0);
    }
  }
}

}  // namespace
}  // namespace posenc
