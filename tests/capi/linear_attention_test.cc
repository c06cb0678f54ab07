// Linear attention through the C ABI: the same bits as in C++.
#include "posenc/kernels/linear_attention.h"

#include "capi/c_handles.h"
#include "cases/attention_data.h"
#include "cases/table.h"

namespace posenc {
namespace {

using cases::linear_forms;
using cases::LinearAttentionProblem;
using cases::Tensor;
using testing::c_tensor;
using testing::fails;
using testing::make_parameters;
using testing::make_plan;
using testing::make_spec;
using testing::ok;
using testing::ParametersHandle;
using testing::PlanHandle;
using testing::sized;
using testing::SpecHandle;
using testing::StateHandle;

posenc_linear_options c_options(const LinearAttentionOptions& options) {
  return {
      options.form == LinearAttentionOptions::Form::kCosine ? POSENC_COSINE
                                                            : POSENC_ROTATED_NUMERATOR,
      options.feature_map == LinearAttentionOptions::FeatureMap::kRelu ? POSENC_RELU : POSENC_ELU,
      options.epsilon};
}

// The fixture's problem once more, in C.
class InC {
 public:
  explicit InC(LinearAttentionProblem& f)
      : spec(make_spec(f.data.c.spec)),
        plan(make_plan(spec.get(), f.data.shape, f.data.c.kv_heads, f.data.c.keys)),
        parameters(make_parameters(spec.get(), f.data.shape, 1)),
        dparameters(make_parameters(spec.get(), f.data.shape, 1)),
        out(f.data.q),
        dq(f.data.q),
        dk(f.data.k),
        dv(f.data.v),
        denominator(f.data.row_sums.size()) {
    for (const SpecParameter& p : posenc::parameters(f.data.spec, f.data.shape)) {
      const auto& values = f.data.parameters[p.encoding][p.index];
      EXPECT_TRUE(ok(posenc_parameters_set_f64(parameters.get(), p.info.name.c_str(), values.data(),
                                               values.size())));
    }
    call = sized<posenc_linear_attention_call>();
    call.plan = plan.get();
    call.parameters = parameters.get();
    call.q = c_tensor(f.data.q);
    call.k = c_tensor(f.data.k);
    call.v = c_tensor(f.data.v);
    call.out = c_tensor(out);
    call.denominator = denominator.data();
    call.denominator_count = denominator.size();
    call.mask.flags = f.data.c.causal ? POSENC_CAUSAL : 0;
    call.options = c_options(f.data.c.linear);
  }

  SpecHandle spec;
  PlanHandle plan;
  ParametersHandle parameters;
  ParametersHandle dparameters;
  Tensor out, dq, dk, dv;
  std::vector<float> denominator;
  posenc_linear_attention_call call;
};

TEST(CLinearAttention, ForwardAndBackwardGiveTheBitsOfCpp) {
  for (const LinearAttentionOptions& options : linear_forms()) {
    for (const char* spec : {"none", "xpos", "rope(schedule=learnable)"}) {
      LinearAttentionProblem f({.spec = spec, .heads = 4, .linear = options});
      SCOPED_TRACE(name_of(f.data.c));
      InC c(f);
      ASSERT_TRUE(linear_attention(f.call()).ok());
      ASSERT_TRUE(ok(posenc_linear_attention(&c.call)));
      EXPECT_EQ(c.out.values(), f.data.out.values());
      EXPECT_EQ(c.denominator, f.data.row_sums);
      ASSERT_TRUE(linear_attention_backward(f.backward_call()).ok());
      auto back = sized<posenc_linear_attention_backward_call>();
      back.forward = &c.call;
      back.grad_out = c_tensor(f.data.grad_out);
      back.dq = c_tensor(c.dq);
      back.dk = c_tensor(c.dk);
      back.dv = c_tensor(c.dv);
      back.dparameters = c.dparameters.get();
      ASSERT_TRUE(ok(posenc_linear_attention_backward(&back)));
      EXPECT_EQ(c.dq.values(), f.data.dq.values());
      EXPECT_EQ(c.dk.values(), f.data.dk.values());
      EXPECT_EQ(c.dv.values(), f.data.dv.values());
      EXPECT_EQ(testing::values_of(c.dparameters.get(), f.data.spec, f.data.shape),
                f.data.dparameters);
    }
  }
}

// Tokens first .. first + count - 1 of a dense tensor.
posenc_tensor tokens_of(posenc_tensor t, std::int64_t first, std::int64_t count) {
  t.data = static_cast<float*>(t.data) + first * t.stride[2];
  t.shape[2] = count;
  return t;
}

posenc_linear_step step_of(const posenc_linear_attention_call& call, std::int64_t first,
                           std::int64_t count) {
  auto step = sized<posenc_linear_step>();
  step.q = tokens_of(call.q, first, count);
  step.k = tokens_of(call.k, first, count);
  step.v = tokens_of(call.v, first, count);
  step.out = tokens_of(call.out, first, count);
  return step;
}

LinearAttentionState::Step cpp_step_of(LinearAttentionProblem& f, std::int64_t first,
                                       std::int64_t count) {
  const auto cut = [&](TensorView view) {
    view.data = static_cast<std::byte*>(view.data) + view.row_offset(0, 0, first);
    view.shape[2] = count;
    return view;
  };
  return {
      cut(f.data.q.view()), cut(f.data.k.view()), cut(f.data.v.view()), cut(f.data.out.view()), {}};
}

TEST(CLinearAttention, StepsGiveTheBitsOfCppWhenTheOtherHandlesAreGone) {
  for (const char* spec : {"rope", "rope(schedule=learnable)"}) {
    LinearAttentionProblem f({.spec = spec, .queries = 30, .keys = 30});
    InC c(f);
    posenc_linear_state* raw = nullptr;
    ASSERT_TRUE(ok(posenc_linear_state_create(c.plan.get(), c.parameters.get(), 1, nullptr, &raw)));
    const StateHandle state(raw);
    c.plan.reset();
    c.parameters.reset();
    LinearAttentionState expected(f.data.plan, &f.data.parameters, 1);
    EXPECT_EQ(posenc_linear_state_bytes(state.get()), static_cast<int64_t>(expected.bytes()));
    const auto take = [&](posenc_linear_state* into, std::int64_t first, std::int64_t count) {
      const auto step = step_of(c.call, first, count);
      ASSERT_TRUE(ok(posenc_linear_state_step(into, &step)));
    };
    take(state.get(), 0, 20);
    posenc_linear_state* branch_raw = nullptr;
    ASSERT_TRUE(ok(posenc_linear_state_copy(state.get(), &branch_raw)));
    const StateHandle branch(branch_raw);
    take(state.get(), 20, 10);  // the copy is its own
    c.out.fill(0.0);
    for (std::int64_t t = 20; t < 30; ++t) take(branch.get(), t, 1);
    EXPECT_EQ(posenc_linear_state_tokens(branch.get()), 30);
    ASSERT_TRUE(ok(posenc_linear_state_reset(state.get())));
    EXPECT_EQ(posenc_linear_state_tokens(state.get()), 0);
    take(state.get(), 0, 20);
    ASSERT_TRUE(expected.step(cpp_step_of(f, 0, 20)).ok());
    for (std::int64_t t = 20; t < 30; ++t) ASSERT_TRUE(expected.step(cpp_step_of(f, t, 1)).ok());
    EXPECT_EQ(c.out.values(), f.data.out.values());
  }
}

TEST(CLinearAttention, MistakesAreNamed) {
  LinearAttentionProblem f({.spec = "rope"});
  InC c(f);
  const SpecHandle alibi = make_spec("alibi");
  const PlanHandle needs_rows = make_plan(alibi.get(), f.data.shape);
  const ParametersHandle slopes = make_parameters(alibi.get(), f.data.shape, 1);
  posenc_linear_state* state = nullptr;
  EXPECT_TRUE(fails(posenc_linear_state_create(needs_rows.get(), slopes.get(), 1, nullptr, &state),
                    POSENC_UNSUPPORTED, "alibi"));
  EXPECT_TRUE(fails(posenc_linear_state_create(c.plan.get(), nullptr, -1, nullptr, &state),
                    POSENC_OUT_OF_RANGE, "batch must be in [0, 2^30] but got -1"));
  posenc_linear_options options{2, 0, 0};
  EXPECT_TRUE(fails(posenc_linear_state_create(c.plan.get(), nullptr, 1, &options, &state),
                    POSENC_INVALID_ARGUMENT, "options.form"));
  options = {POSENC_ROTATED_NUMERATOR, POSENC_RELU, -1.0};
  EXPECT_LT(posenc_linear_state_create(c.plan.get(), nullptr, 1, &options, &state), 0);
  EXPECT_NE(std::string(posenc_last_error()).find("epsilon"), std::string::npos);
  const SpecHandle none = make_spec("none");
  const PlanHandle huge = make_plan(none.get(), {.head_dim = 1 << 24, .heads = 1 << 24});
  EXPECT_TRUE(fails(posenc_linear_state_create(huge.get(), nullptr, 1, nullptr, &state),
                    POSENC_RESOURCE_EXHAUSTED, "batch is too large"));
  EXPECT_EQ(state, nullptr);
  auto call = c.call;
  call.options.feature_map = -1;
  EXPECT_TRUE(fails(posenc_linear_attention(&call), POSENC_INVALID_ARGUMENT, "feature_map"));
  call = c.call;
  call.denominator_count = 1;
  EXPECT_TRUE(fails(posenc_linear_attention(&call), POSENC_INVALID_ARGUMENT, "denominator"));
}

}  // namespace
}  // namespace posenc
