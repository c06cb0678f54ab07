// The handlers of rope against the float64 reference.
#include <gtest/gtest.h>

#include "cases/compare.h"
#include "cases/rope_problem.h"
#include "jax/ffi_host.h"

namespace posenc::testing {
namespace {

using cases::Case;
using cases::RopeProblem;

Case small(std::string spec) {
  Case c;
  c.op = cases::Operation::kRope;
  c.spec = std::move(spec);
  c.batch = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.queries = 13;
  return c;
}

class RopeFrames {
 public:
  explicit RopeFrames(const Case& c)
      : problem(c), alpha_(problem.alpha.begin(), problem.alpha.end()), dalpha_(alpha_.size()) {}

  FfiResult forward() {
    FfiFrame frame;
    operands(frame, problem.q, problem.k, false);
    frame.result(problem.q_out);
    frame.result(problem.k_out);
    return frame.run(posenc_jax_rope_cpu);
  }
  FfiResult backward() {
    FfiFrame frame;
    operands(frame, problem.grad_q, problem.grad_k, true);
    frame.result(problem.dq);
    frame.result(problem.dk);
    return frame.run(posenc_jax_rope_cpu);
  }
  FfiResult frequencies() {
    FfiFrame frame;
    frame.operand(problem.grad_q);
    frame.operand(problem.grad_k);
    operands(frame, problem.q, problem.k, false);
    frame.result(XLA_FFI_DataType_F32, dalpha_.data(), sizes());
    return frame.run(posenc_jax_rope_frequencies_cpu);
  }
  [[nodiscard]] const std::vector<float>& dalpha() const { return dalpha_; }

  RopeProblem problem;

 private:
  void operands(FfiFrame& frame, cases::Tensor& q, cases::Tensor& k, bool transposed) {
    frame.operand(q);
    frame.operand(k);
    if (!alpha_.empty()) frame.operand(XLA_FFI_DataType_F32, alpha_.data(), sizes());
    const Case& c = problem.c;
    const bool given = c.positions == cases::PositionForm::kIds32;
    const std::int64_t axes = problem.tables.rotary().axes.axes;
    if (given) {
      frame.operand(XLA_FFI_DataType_S32, problem.narrow.data(), {c.batch, c.queries, axes});
    }
    frame.attributes = {{"spec", c.spec},
                        {"parameters", static_cast<std::int64_t>(alpha_.empty() ? 0 : 1)},
                        {"has_positions", static_cast<std::int64_t>(given)},
                        {"transposed", static_cast<std::int64_t>(transposed)}};
  }
  [[nodiscard]] std::vector<std::int64_t> sizes() const {
    return {static_cast<std::int64_t>(alpha_.size())};
  }

  std::vector<float> alpha_, dalpha_;
};

TEST(JaxRope, ValuesAndGradientsAreThoseOfTheReference) {
  Case moved = small("rope");
  moved.positions = cases::PositionForm::kIds32;
  Case axes = small("rope(axes=axial(axes=2))");
  axes.positions = cases::PositionForm::kIds32;
  Case bfloat16 = small("rope(theta=500000)");
  bfloat16.dtype = DType::kBfloat16;
  for (const Case& c : {small("rope"), moved, axes, bfloat16, small("xpos(center=5)")}) {
    RopeFrames frames(c);
    ASSERT_EQ(frames.forward().message, "") << cases::name_of(c);
    ASSERT_EQ(frames.backward().message, "") << cases::name_of(c);
    const auto compared =
        cases::compare(c.dtype, frames.problem.results(true), frames.problem.expected(true));
    EXPECT_EQ(compared.mismatch, "") << cases::name_of(c);
  }
}

TEST(JaxRope, TrainedFrequenciesGetTheirGradient) {
  RopeFrames frames(small("rope(schedule=learnable)"));
  ASSERT_EQ(frames.forward().message, "");
  ASSERT_EQ(frames.frequencies().message, "");
  frames.problem.backward();  // writes dinv_freq with the kernels
  const auto want = ref::alpha_gradient(frames.problem.tables.rotary(), frames.problem.dinv_freq);
  ASSERT_EQ(frames.dalpha().size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(frames.dalpha()[i], want[i], 1e-4 * (1.0 + std::abs(want[i])));
  }
}

}  // namespace
}  // namespace posenc::testing
