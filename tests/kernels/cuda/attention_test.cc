// Attention on the GPU against the float64 reference: every chain, mask and order, odd sizes, poisoned
// outputs and workspace.
#include "kernels/cuda/attention.h"

#include "cases/tensor.h"
#include "kernels/cuda/attention_checks.h"

namespace posenc::cuda {
namespace {

using cases::AttentionProblem;
using cases::Case;
using cases::Result;
using cases::ResultKind;
using testing::check_case;
using testing::DeviceAttention;
using testing::relative_error;
using testing::small;

class CudaAttention : public testing::Test {};

// Few enough tiles for compute-sanitizer's race checker, which is told to run these.
TEST_F(CudaAttention, SmallShapesAgreeWithTheReference) {
  for (const char* spec :
       {"none", "alibi(trainable=true)", "cope(npos_max=8)", "t5 + cope(npos_max=8)"}) {
    for (const std::int64_t dim : {64, 128, 256}) {
      Case c = small(spec, 130, dim);
      c.batch = 1;
      c.heads = 2;
      c.kv_heads = 1;
      check_case(c);
    }
  }
  Case c = small("cope(npos_max=256)", 70, 128);
  c.batch = c.heads = c.kv_heads = 1;
  check_case(c);
}

TEST_F(CudaAttention, EveryChainAgreesWithTheReference) {
  for (const std::string& spec : cases::with_every_distance_bias(
           {"none", "alibi(trainable=true)", "alibi(trainable=true) + t5", "cope(npos_max=8)",
            "cope(npos_max=64)", "cope(npos_max=33, logit_scale=sqrt_dim)",
            "cope(npos_max=8, variant=alibi)", "kerple + cope(npos_max=16)",
            "alibi(trainable=true) + cope(npos_max=16, gates_see_bias=true)"})) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
      for (const std::int64_t dim : {64, 128}) {
        Case c = small(spec, 201, dim);
        c.dtype = dtype;
        check_case(c);
      }
    }
  }
}

TEST_F(CudaAttention, EveryHeadDimensionAgreesWithTheReference) {
  for (const char* spec : {"none", "t5", "cope(npos_max=16)", "t5 + cope(npos_max=16)"}) {
    for (const std::int64_t dim : {8, 32, 40, 80, 96, 192, 256}) check_case(small(spec, 130, dim));
  }
}

TEST_F(CudaAttention, MasksAgreeWithTheReference) {
  for (const char* spec : {"none", "alibi(trainable=true)", "cope(npos_max=16)"}) {
    testing::check_masks(spec);
  }
}

// The walks of 128 channels, with grouped heads: what a block of keys begins and ends with.
TEST_F(CudaAttention, MasksOfWideHeadsAgreeWithTheReference) {
  for (const char* spec : {"none", "t5", "cope(npos_max=16)"}) {
    Case c = small(spec, 300, 128);
    c.batch = 1;
    c.kv_heads = 1;
    c.causal = false;
    check_case(c);
    c.window_left = 90;
    c.window_right = 70;
    check_case(c);
    c = small(spec, 300, 128);
    c.cumulative = {0, 60, 63, 300};
    check_case(c);
    c = small(spec, 1, 128);
    c.queries = 70;
    c.keys = 280;
    check_case(c);
    c.queries = 280;
    c.keys = 130;
    check_case(c);
  }
}

TEST_F(CudaAttention, OddShapesAgreeWithTheReference) {
  for (const char* spec : {"none", "t5", "cope(npos_max=16)"}) {
    for (const std::int64_t tokens : {1, 63, 64, 65, 193, 400}) check_case(small(spec, tokens));
    Case c = small(spec, 1);
    for (const auto& [queries, keys] :
         {std::pair<std::int64_t, std::int64_t>{5, 300}, {300, 5}, {129, 70}}) {
      c.queries = queries;
      c.keys = keys;
      check_case(c);
    }
    c = small(spec, 201);
    c.heads = 6;
    check_case(c);
    c.order = cases::Order::kTokensFirst;
    check_case(c);
  }
}

TEST_F(CudaAttention, GatesThatAreAlmostClosedAgreeWithTheReference) {
  Case c = small("cope(npos_max=8)", 500);
  c.query_shift = 0.6;
  c.gate_shift = -0.6;
  check_case(c);
  c.head_dim = 128;
  check_case(c);
}

TEST_F(CudaAttention, ManyPositionsTakeTheCompactKernels) {
  check_case(small("cope(npos_max=256)", 700));
  check_case(small("cope(npos_max=256)", 700, 128));
}

TEST_F(CudaAttention, ChunksOfQueriesGiveTheSameGradients) {
  check_case(small("cope(npos_max=32)", 900), 1);
  Case c = small("t5 + cope(npos_max=32)", 900);
  c.cumulative = {0, 500, 900};
  check_case(c, 1);
}

// So many heads that each of the blocks of threads which share one's rows takes several blocks of rows.
TEST_F(CudaAttention, BlocksOfRowsOneAfterTheOther) {
  for (const char* spec : {"t5", "cope(npos_max=16)"}) {
    for (const auto& [tokens, dim] : {std::pair<std::int64_t, std::int64_t>{200, 8}, {130, 72}}) {
      Case c = small(spec, tokens, dim);
      c.batch = 34;
      c.heads = 32;
      c.kv_heads = 32;
      check_case(c);
    }
  }
}

// The last position's gradient is what the others leave, but only where keys are past the table.
TEST_F(CudaAttention, PositionsThatNoKeyReachesHaveNoGradient) {
  for (const DType dtype : {DType::kBfloat16, DType::kFloat32}) {
    Case c = small("cope(npos_max=64)", 40);
    c.dtype = dtype;
    AttentionProblem problem(c);
    DeviceAttention device(problem);
    device.forward();
    device.backward();
    device.bring_back();
    const std::vector<double> gradient = problem.data.dparameters.at(0).at(0);  // [D, npos_max]
    ASSERT_EQ(gradient.size(), 64u * 64u);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      if (i % 64 > 40) {
        EXPECT_EQ(gradient[i], 0.0) << "channel " << i / 64 << ", position " << i % 64;
      }
    }
    EXPECT_GT(testing::norm(gradient), 0.0);
  }
}

// The same in the element type, rounded after every operation.
std::vector<double> composed(const cases::AttentionData& d) {
  const auto round = [&](double x) -> double {
    const auto f = static_cast<float>(x);
    if (d.c.dtype == DType::kBfloat16) return bfloat16_to_float(float_to_bfloat16(f));
    if (d.c.dtype == DType::kFloat16) return float16_to_float(float_to_float16(f));
    return f;
  };
  const std::vector<double> q = d.q.values();
  const std::vector<double> k = d.k.values();
  const std::vector<double> v = d.v.values();
  const std::int64_t T = d.c.queries;
  const std::int64_t D = d.c.head_dim;
  std::vector<double> out(q.size(), 0.0);
  for (std::int64_t row = 0; row < d.c.batch * d.c.heads * T; ++row) {
    const std::int64_t first = row / T * T;
    std::vector<double> weights;
    double sum = 0.0;
    for (std::int64_t j = 0; j <= row % T; ++j) {
      double dot = 0.0;
      for (std::int64_t i = 0; i < D; ++i) {
        dot += q[static_cast<std::size_t>(row * D + i)] *
               k[static_cast<std::size_t>((first + j) * D + i)];
      }
      weights.push_back(std::exp(round(round(dot) / std::sqrt(static_cast<double>(D)))));
      sum += weights.back();
    }
    for (std::size_t j = 0; j < weights.size(); ++j) {
      const double weight = round(weights[j] / sum);
      for (std::int64_t i = 0; i < D; ++i) {
        out[static_cast<std::size_t>(row * D + i)] +=
            weight * v[static_cast<std::size_t>((first + static_cast<std::int64_t>(j)) * D + i)];
      }
    }
  }
  for (double& x : out) x = round(x);
  return out;
}

TEST_F(CudaAttention, IsNoWorseThanTheRoundedComposition) {
  for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
    Case c = small("none", 300);
    c.dtype = dtype;
    AttentionProblem problem(c);
    const Result want = problem.expected(false)[0];
    DeviceAttention device(problem);
    device.forward();
    device.bring_back();
    const double error =
        relative_error({"out", ResultKind::kValue, problem.data.out.values()}, want);
    EXPECT_LE(error, relative_error({"out", ResultKind::kValue, composed(problem.data)}, want));
  }
}

TEST_F(CudaAttention, MistakesNameTheArgument) {
  AttentionProblem problem(small("cope(npos_max=8)", 10));
  DeviceAttention device(problem);
  const auto message = [&](auto change) {
    AttentionBackwardParams params = device.params;
    change(params);
    const Status status = launch_attention_backward(params, nullptr);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  using Params = AttentionBackwardParams;
  const auto says = [&](const char* what, auto change) {
    EXPECT_NE(message(change).find(what), std::string::npos) << what;
  };
  says("head_dim 12", [](Params& p) { p.forward.head_dim = 12; });
  says("kv_heads (3)", [](Params& p) { p.forward.kv_heads = 3; });
  says("positive scale", [](Params& p) { p.forward.scale = 0.0f; });
  says("heads 65536", [](Params& p) { p.forward.heads = p.forward.kv_heads = 65536; });
  says("65537 positions", [](Params& p) { p.forward.cope.npos_max = 65537; });
  says("pos_emb or slopes", [](Params& p) { p.forward.cope.pos_emb = nullptr; });
  says("grad_out is null", [](Params& p) { p.grad_out.data = nullptr; });
  says("16 bytes", [](Params& p) { p.dk.token_stride = 65; });
  says("lse", [](Params& p) { p.forward.lse = nullptr; });
  says("workspace", [](Params& p) { p.forward.workspace_bytes = 16; });
}

}  // namespace
}  // namespace posenc::cuda
