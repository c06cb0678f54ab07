// Terms per token (FoX, a bias per key) on the GPU against the float64 reference, in the tuned kernels and in the
// general ones.
#include "kernels/cuda/attention_checks.h"

namespace posenc::cuda {
namespace {

using cases::AttentionProblem;
using cases::Case;
using testing::check_case;
using testing::DeviceAttention;
using testing::small;

class CudaTokens : public testing::Test {};

constexpr const char* kSpecs[] = {"fox", "fox(scaled=true)", "key_bias"};

// Few enough tiles for compute-sanitizer's race checker, which is told to run these.
TEST_F(CudaTokens, SmallShapesAgreeWithTheReference) {
  for (const std::int64_t dim : {64, 128}) {
    Case c = small("fox", 130, dim);
    c.batch = 1;
    c.heads = 2;
    c.kv_heads = 1;
    check_case(c);
    c.dtype = DType::kFloat32;
    check_case(c);
  }
}

TEST_F(CudaTokens, EveryTypeAndWidthAgreesWithTheReference) {
  for (const char* spec : kSpecs) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat16, DType::kFloat32}) {
      for (const std::int64_t dim : {64, 128, 40, 96, 192}) {
        Case c = small(spec, 201, dim);
        c.dtype = dtype;
        check_case(c, std::int64_t{512} << 20, dim > 128 ? 2 : 3);
      }
    }
  }
}

TEST_F(CudaTokens, MasksAgreeWithTheReference) {
  for (const char* spec : kSpecs) testing::check_masks(spec);
}

TEST_F(CudaTokens, UnequalLengthsAgreeWithTheReference) {
  for (const char* spec : kSpecs) {
    for (const std::int64_t queries : {1, 70, 300}) {
      Case c = small(spec, 200);
      c.queries = queries;
      check_case(c);
    }
  }
}

TEST_F(CudaTokens, LongSequencesAgreeWithTheReference) {
  for (const std::int64_t dim : {64, 128}) {
    Case c = small("fox", 1500, dim);
    c.batch = 1;
    c.heads = 2;
    c.kv_heads = 1;
    check_case(c);
  }
}

TEST_F(CudaTokens, BesideBiasesAgreeWithTheReference) {
  for (const char* spec :
       {"alibi(trainable=true) + fox", "t5 + key_bias", "fire(init_threshold=20) + fox"}) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat32}) {
      Case c = small(spec, 201);
      c.dtype = dtype;
      check_case(c);
    }
  }
}

TEST_F(CudaTokens, CopeBesideThemIsRefused) {
  AttentionProblem problem(small("cope(npos_max=8) + fox", 64));
  DeviceAttention device(problem);
  EXPECT_EQ(launch_attention_forward(device.params.forward, nullptr).code(),
            StatusCode::kUnsupported);
}

}  // namespace
}  // namespace posenc::cuda
