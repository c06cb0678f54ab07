// Queries times distances on the GPU against the float64 reference.
#include "kernels/cuda/attention_checks.h"

namespace posenc::cuda {
namespace {

using cases::AttentionProblem;
using cases::Case;
using testing::check_case;
using testing::DeviceAttention;
using testing::small;

class CudaRelative : public testing::Test {};

constexpr const char* kQuery = "relative_query(extent=70, beyond=clip, init_std=0.3)";
constexpr const char* kInput = "relative_query(extent=100, source=input, rank=16, init_std=0.3)";

TEST_F(CudaRelative, SmallShapesAgreeWithTheReference) {
  for (const char* spec : {kQuery, kInput}) testing::check_small_shapes(spec);
}

TEST_F(CudaRelative, EveryTypeAndWidthAgreesWithTheReference) {
  for (const char* spec :
       {kQuery, kInput, "relative_query(extent=30, per_head=true, init_std=0.3)",
        "relative_query(extent=40, bidirectional=true, scaling=none)",
        "relative_query(extent=9, source=input, rank=5, beyond=clip, init_std=1)",
        "relative_query(extent=200, source=input, rank=40, per_head=true)"}) {
    testing::check_types(spec, {64, 128, 40, 96});
  }
  check_case(small(kQuery, 201, 256));
  check_case(small(kInput, 201, 192));
}

TEST_F(CudaRelative, OtherTermsAgreeWithTheReference) {
  for (const std::string& spec :
       {std::string("alibi(trainable=true) + ") + kQuery, std::string("t5 + fox + ") + kQuery,
        std::string("fire(init_threshold=20) + ") + kQuery,
        std::string("relative_query(extent=60, init_std=0.3) + stick_breaking")}) {
    testing::check_both_sizes(small(spec, 201));
  }
}

TEST_F(CudaRelative, MasksAgreeWithTheReference) {
  testing::check_masks(kQuery);
  testing::check_masks(kInput);
  testing::check_masks("relative_query(extent=50, bidirectional=true, beyond=clip, init_std=0.3)");
}

TEST_F(CudaRelative, OddShapesAgreeWithTheReference) {
  for (const char* spec :
       {kQuery, kInput, "relative_query(extent=2, beyond=clip)", "relative_query(extent=1)"}) {
    testing::check_odd_shapes(spec);
  }
}

// Tables longer than rows, and rows longer than tables; several blocks of rows per block of threads.
TEST_F(CudaRelative, LongRowsAgreeWithTheReference) {
  for (const char* spec :
       {"relative_query(extent=1024, source=input, rank=16, init_std=0.3)", kQuery}) {
    Case c = small(spec, 900);
    c.batch = 1;
    testing::check_both_sizes(c);
  }
}

TEST_F(CudaRelative, GradientsThatAreNotWantedAreLeftOut) {
  AttentionProblem problem(small(kInput, 201));
  DeviceAttention device(problem);
  device.forward();
  device.backward();
  device.bring_back();
  const auto dq = problem.data.dq.bytes();
  const auto du = problem.data.dinputs[0].bytes();
  device.params.drelative_table = nullptr;
  device.backward();
  device.bring_back();
  EXPECT_EQ(dq, problem.data.dq.bytes());
  EXPECT_EQ(du, problem.data.dinputs[0].bytes());
}

TEST_F(CudaRelative, MistakesNameTheArgument) {
  AttentionProblem problem(small(kInput, 10));
  DeviceAttention device(problem);
  using Params = AttentionBackwardParams;
  const auto says = [&](const char* what, auto change) {
    Params params = device.params;
    change(params);
    const Status status = launch_attention_backward(params, nullptr);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(std::string(status.message()).find(what), std::string::npos) << status.message();
  };
  says("rank 300", [](Params& p) { p.forward.relative.rank = 300; });
  says("relative.u", [](Params& p) { p.forward.relative.u.token_stride = 15; });
  says("relative.u", [](Params& p) { p.forward.relative.u.data = nullptr; });
  says("drelative_u", [](Params& p) { p.drelative_u.data = nullptr; });
  says("table", [](Params& p) { p.forward.relative.table = nullptr; });
}

}  // namespace
}  // namespace posenc::cuda
