// Softcap on the GPU against the float64 reference, in the tuned kernels and in the general ones.
#include "kernels/cuda/attention_checks.h"

namespace posenc::cuda {
namespace {

using cases::Case;
using testing::check_case;
using testing::small;

class CudaSoftcap : public testing::Test {};

constexpr const char* kTuned[] = {"softcap(cap=1.5)", "softcap(cap=50)",
                                  "alibi(trainable=true) + softcap(cap=2)"};

// Few enough tiles for compute-sanitizer's race checker, which is told to run these.
TEST_F(CudaSoftcap, SmallShapesAgreeWithTheReference) {
  for (const std::int64_t dim : {64, 128}) {
    Case c = small("t5 + softcap(cap=2)", 130, dim);
    c.batch = 1;
    c.heads = 2;
    c.kv_heads = 1;
    check_case(c);
    c.dtype = DType::kFloat32;
    check_case(c);
  }
}

TEST_F(CudaSoftcap, EveryTypeAndWidthAgreesWithTheReference) {
  for (const char* spec : kTuned) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat16, DType::kFloat32}) {
      for (const std::int64_t dim : {64, 128, 40, 96, 256}) {
        Case c = small(spec, 201, dim);
        c.dtype = dtype;
        check_case(c, std::int64_t{512} << 20, dim > 128 ? 2 : 3);
      }
    }
  }
}

TEST_F(CudaSoftcap, MasksAgreeWithTheReference) {
  for (const char* spec : {"softcap(cap=1.5)", "t5 + softcap(cap=2)", "fox + softcap(cap=2)"}) {
    testing::check_masks(spec);
  }
}

TEST_F(CudaSoftcap, UnequalLengthsAgreeWithTheReference) {
  for (const char* spec : kTuned) {
    for (const std::int64_t queries : {1, 70, 300}) {
      Case c = small(spec, 200);
      c.queries = queries;
      check_case(c);
    }
  }
}

TEST_F(CudaSoftcap, LongSequencesAgreeWithTheReference) {
  for (const std::int64_t dim : {64, 128}) {
    Case c = small("softcap(cap=1.5)", 1500, dim);
    c.batch = 1;
    c.heads = 2;
    c.kv_heads = 1;
    check_case(c);
  }
}

TEST_F(CudaSoftcap, WithOtherTermsAgreesWithTheReference) {
  for (const char* spec : {"fox + softcap(cap=2)", "fire(init_threshold=20) + softcap(cap=2)",
                           "cope(npos_max=16) + softcap(cap=2)",
                           "kerple + cope(npos_max=8, gate_source=separate) + softcap(cap=1.5)"}) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat32}) {
      Case c = small(spec, 201);
      c.dtype = dtype;
      check_case(c);
    }
  }
}

}  // namespace
}  // namespace posenc::cuda
