// Stick-breaking on the GPU against the float64 reference: alone in the tuned kernels, with other terms, dropout or
// padding in the general ones.
#include "kernels/cuda/attention_checks.h"

namespace posenc::cuda {
namespace {

using cases::AttentionProblem;
using cases::Case;
using testing::check_case;
using testing::DeviceAttention;
using testing::small;

class CudaSticks : public testing::Test {};

// Alone nothing is left after some hundred keys; biases that fall with the distance reach farther.
constexpr const char* kSpecs[] = {"stick_breaking", "alibi(trainable=true) + stick_breaking"};

TEST_F(CudaSticks, SmallShapesAgreeWithTheReference) {
  for (const char* spec : kSpecs) testing::check_small_shapes(spec);
}

TEST_F(CudaSticks, EveryTypeAndWidthAgreesWithTheReference) {
  for (const char* spec :
       {"stick_breaking", "alibi(trainable=true) + stick_breaking", "t5 + fox + stick_breaking",
        "fire(init_threshold=20) + key_bias + stick_breaking"}) {
    testing::check_types(spec, {64, 128, 40, 192});
  }
}

TEST_F(CudaSticks, MasksAgreeWithTheReference) {
  for (const char* spec : kSpecs) testing::check_masks(spec);
}

TEST_F(CudaSticks, OddShapesAgreeWithTheReference) {
  for (const char* spec : kSpecs) testing::check_odd_shapes(spec);
}

// Scores far below zero: nothing is spent, and the tuned kernels walk over everything.
TEST_F(CudaSticks, ClosedSharesAgreeWithTheReference) {
  for (const std::int64_t dim : {64, 128}) {
    Case c = small("stick_breaking", 900, dim);
    c.batch = 1;
    AttentionProblem problem(c);
    std::vector<double> q = problem.data.q.values();
    std::vector<double> k = problem.data.k.values();
    const auto width = static_cast<std::size_t>(dim);
    for (std::size_t i = 0; i < q.size(); i += width) q[i] = std::sqrt(static_cast<double>(dim));
    for (std::size_t i = 0; i < k.size(); i += width) k[i] = -6.0;
    problem.data.q.assign(q);
    problem.data.k.assign(k);
    const std::vector<testing::Result> want = problem.expected(true);
    DeviceAttention device(problem);
    testing::run_both(device, std::int64_t{512} << 20, 3);
    const std::vector<testing::Result> got = problem.results(true);
    const testing::Judge judge{c, 3};
    for (std::size_t n = 0; n < want.size(); ++n) {
      EXPECT_LE(testing::relative_error(got[n], want[n], judge.least(want[n])),
                judge.allowed(want[n]))
          << want[n].name << ", D " << dim;
    }
  }
}

// Most tiles are skipped in the first, none in the second.
TEST_F(CudaSticks, LongRowsAgreeWithTheReference) {
  for (const char* spec : kSpecs) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat32}) {
      Case c = small(spec, 900);
      c.batch = 1;
      c.dtype = dtype;
      check_case(c);
      c.window_left = 500;
      check_case(c);
    }
  }
}

TEST_F(CudaSticks, ChunksOfQueriesGiveTheSameGradients) {
  for (const char* spec : kSpecs) {
    Case c = small(spec, 900);
    check_case(c, 1);
    c.cumulative = {0, 500, 900};
    check_case(c, 1);
  }
}

// A NaN that no stick reaches changes nothing.
TEST_F(CudaSticks, SpentRowsStop) {
  const Case c = small("stick_breaking", 900);
  AttentionProblem clean(c);
  DeviceAttention device(clean);
  testing::run_both(device, std::int64_t{512} << 20, 3);
  AttentionProblem poisoned(c);
  std::vector<double> k = poisoned.data.k.values();
  k[0] = NAN;
  poisoned.data.k.assign(k);
  DeviceAttention other(poisoned);
  testing::run_both(other, std::int64_t{512} << 20, 3);
  const auto last = static_cast<std::size_t>(64 * c.head_dim);  // the last rows of the first head
  const auto end = static_cast<std::size_t>(c.queries * c.head_dim);
  const std::vector<double> want = clean.data.out.values();
  const std::vector<double> got = poisoned.data.out.values();
  EXPECT_TRUE(std::isnan(got[static_cast<std::size_t>(c.head_dim)]));  // the second row sees it
  EXPECT_TRUE(std::equal(got.begin() + static_cast<std::ptrdiff_t>(end - last),
                         got.begin() + static_cast<std::ptrdiff_t>(end),
                         want.begin() + static_cast<std::ptrdiff_t>(end - last)));
}

TEST_F(CudaSticks, MistakesAreRefused) {
  AttentionProblem problem(small("stick_breaking", 10));
  DeviceAttention device(problem);
  AttentionParams p = device.params.forward;
  const float sinks[] = {0.0f};
  p.sinks = sinks;
  EXPECT_EQ(launch_attention_forward(p, nullptr).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace posenc::cuda
