// Softcap on the GPU against the float64 reference, in the tuned kernels and in the general ones.
#include "kernels/cuda/attention_checks.h"

namespace posenc::cuda {
namespace {

using cases::Case;
using testing::small;

class CudaSoftcap : public testing::Test {};

constexpr const char* kTuned[] = {"softcap(cap=1.5)", "softcap(cap=50)",
                                  "alibi(trainable=true) + softcap(cap=2)"};

TEST_F(CudaSoftcap, SmallShapesAgreeWithTheReference) {
  testing::check_small_shapes("t5 + softcap(cap=2)");
}

TEST_F(CudaSoftcap, EveryTypeAndWidthAgreesWithTheReference) {
  for (const char* spec : kTuned) testing::check_types(spec, {64, 128, 40, 96, 256});
}

TEST_F(CudaSoftcap, MasksAgreeWithTheReference) {
  for (const char* spec : {"softcap(cap=1.5)", "t5 + softcap(cap=2)", "fox + softcap(cap=2)"}) {
    testing::check_masks(spec);
  }
}

TEST_F(CudaSoftcap, UnequalLengthsAgreeWithTheReference) {
  for (const char* spec : kTuned) testing::check_odd_shapes(spec);
}

TEST_F(CudaSoftcap, LongSequencesAgreeWithTheReference) {
  testing::check_long_rows("softcap(cap=1.5)");
}

TEST_F(CudaSoftcap, WithOtherTermsAgreesWithTheReference) {
  for (const char* spec : {"fox + softcap(cap=2)", "fire(init_threshold=20) + softcap(cap=2)",
                           "cope(npos_max=16) + softcap(cap=2)",
                           "kerple + cope(npos_max=8, gate_source=separate) + softcap(cap=1.5)"}) {
    testing::check_both_sizes(small(spec, 201));
  }
}

}  // namespace
}  // namespace posenc::cuda
