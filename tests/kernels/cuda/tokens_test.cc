// Terms per token (FoX, a bias per key) on the GPU against the float64 reference, in the tuned kernels and in the
// general ones.
#include "kernels/cuda/attention_checks.h"

namespace posenc::cuda {
namespace {

using cases::AttentionProblem;
using cases::Case;
using testing::DeviceAttention;
using testing::small;

class CudaTokens : public testing::Test {};

constexpr const char* kSpecs[] = {"fox", "fox(scaled=true)", "key_bias"};

TEST_F(CudaTokens, SmallShapesAgreeWithTheReference) { testing::check_small_shapes("fox"); }

TEST_F(CudaTokens, EveryTypeAndWidthAgreesWithTheReference) {
  for (const char* spec : kSpecs) testing::check_types(spec, {64, 128, 40, 96, 192});
}

TEST_F(CudaTokens, MasksAgreeWithTheReference) {
  for (const char* spec : kSpecs) testing::check_masks(spec);
}

TEST_F(CudaTokens, UnequalLengthsAgreeWithTheReference) {
  for (const char* spec : kSpecs) testing::check_odd_shapes(spec);
}

TEST_F(CudaTokens, LongSequencesAgreeWithTheReference) { testing::check_long_rows("fox"); }

TEST_F(CudaTokens, BesideBiasesAgreeWithTheReference) {
  for (const char* spec :
       {"alibi(trainable=true) + fox", "t5 + key_bias", "fire(init_threshold=20) + fox"}) {
    testing::check_both_sizes(small(spec, 201));
  }
}

// Gates that fade a key in some forty tokens.
void strengthen_gates(AttentionProblem& problem) {
  std::vector<double> log_f = problem.data.inputs[0].values();
  for (double& x : log_f) x = std::min(x, 0.0) - 0.5;
  problem.data.inputs[0].assign(log_f);
}

void check_pruned(const Case& c, double limit) {
  AttentionProblem problem(c);
  strengthen_gates(problem);
  const auto want = problem.expected(true);
  DeviceAttention device(problem);
  EXPECT_GT(device.tokens().left_out(), 0) << cases::name_of(c);
  testing::run_both(device, std::int64_t{512} << 20, 3);
  const auto got = problem.results(true);
  const testing::Judge judge{c, 3};
  for (std::size_t n = 0; n < want.size(); ++n) {
    // The gates' gradient sums score gradients over all rows below, which nearly cancel: it is judged by their size.
    // Where rows see later keys all read the last few, the gradient is 0 at every other token, and the rounding of the
    // outputs to bfloat16 alone makes 0.09 to 0.17 of it.
    const double of_gates = c.causal ? judge.allowed(want[n]) : 0.3;
    const double allowed = testing::Judge::is_token(want[n]) ? of_gates : limit;
    EXPECT_LE(testing::relative_error(got[n], want[n], judge.least(want[n])), allowed)
        << cases::name_of(c) << ": " << want[n].name;
  }
  const auto first = problem.data.dk.bytes();
  device.backward();
  device.bring_back();
  EXPECT_EQ(first, problem.data.dk.bytes()) << cases::name_of(c) << ": two runs differ";
}

TEST_F(CudaTokens, PrunedKeysHardlyMatter) {
  for (const std::int64_t dim : {64, 128}) {
    for (const std::int64_t kv_heads : {1, 2}) {
      Case c = small("fox(prune=true)", 900, dim);
      c.heads = 2;
      c.kv_heads = kv_heads;
      check_pruned(c, 2e-2);
      c.queries = 500;
      check_pruned(c, 2e-2);
      c.queries = 1000;
      check_pruned(c, 2e-2);
      c.queries = 900;
      c.causal = false;
      check_pruned(c, 2e-2);
      c.causal = true;
      c.cumulative = {0, 60, 450, 900};
      check_pruned(c, 2e-2);
      c.cumulative.clear();
      c.dtype = DType::kFloat32;
      check_pruned(c, 2e-4);
    }
  }
}

// A NaN in a value that is left out does not show; that it does without pruning says that tiles are left out.
TEST_F(CudaTokens, PrunedValuesAreNotRead) {
  const auto last_row_is_nan = [](const char* spec, double gate) {
    AttentionProblem problem(small(spec, 900));
    std::vector<double> log_f = problem.data.inputs[0].values();
    log_f.assign(log_f.size(), gate);
    problem.data.inputs[0].assign(log_f);
    std::vector<double> v = problem.data.v.values();
    std::fill_n(v.begin(), 64, NAN);  // key 0 of head 0
    problem.data.v.assign(v);
    DeviceAttention device(problem);
    testing::run_both(device, std::int64_t{512} << 20, 3);
    return std::isnan(problem.data.out.values()[899 * 64]);
  };
  EXPECT_TRUE(last_row_is_nan("fox", -0.5));
  EXPECT_FALSE(last_row_is_nan("fox(prune=true)", -0.5));
  EXPECT_TRUE(last_row_is_nan("fox(prune=true)", -0.001));  // too little to leave anything out
  EXPECT_TRUE(last_row_is_nan("fox(prune=true)", 0.5));     // sums that rise
}

TEST_F(CudaTokens, CopeBesideThemIsRefused) {
  AttentionProblem problem(small("cope(npos_max=8) + fox", 64));
  DeviceAttention device(problem);
  EXPECT_EQ(launch_attention_forward(device.params.forward, nullptr).code(),
            StatusCode::kUnsupported);
}

}  // namespace
}  // namespace posenc::cuda
