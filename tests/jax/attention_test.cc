// The handlers of attention against the float64 reference.
#include <gtest/gtest.h>

#include "cases/compare.h"
#include "cases/table.h"
#include "jax/attention_frame.h"

namespace posenc::testing {
namespace {

using cases::Case;

Case small(std::string spec) {
  Case c;
  c.spec = std::move(spec);
  c.batch = 2;
  c.heads = 4;
  c.queries = c.keys = 19;
  c.head_dim = 8;
  return c;
}

TEST(JaxAttention, ValuesAndGradientsOfEveryEncodingAreThoseOfTheReference) {
  const std::vector<std::string> specs = cases::with_every_encoding(
      {"none", "rope", "rope + alibi(trainable=true)", "rope(schedule=learnable)", "xpos",
       "cope(npos_max=8)", "cope(npos_max=8, gate_source=separate)", "rope + fire", "fox",
       "rope + t5 + sink", "relative_query + softcap"});
  for (const std::string& spec : specs) EXPECT_EQ(mismatch_of(small(spec)), "") << spec;
}

TEST(JaxAttention, GroupedHeadsMasksPositionsAndTypesAreThoseOfTheReference) {
  Case grouped = small("rope + alibi");
  grouped.kv_heads = 1;
  Case windows = small("rope");
  windows.causal = false;
  windows.window_left = 5;
  windows.window_right = 2;
  Case padded = small("rope + fox");
  padded.padding = true;
  Case packed = small("rope + alibi");
  packed.batch = 1;
  packed.cumulative = {0, 7, 19};
  Case crossed = packed;
  crossed.keys = 23;
  crossed.cumulative_keys = {0, 9, 23};
  Case ids = small("rope");
  ids.positions = cases::PositionForm::kIds32;
  Case wide_ids = small("rope");
  wide_ids.positions = cases::PositionForm::kIds64;
  Case bfloat16 = small("rope + alibi");
  bfloat16.dtype = DType::kBfloat16;
  Case float16 = small("rope");
  float16.dtype = DType::kFloat16;
  Case dropped = small("rope");
  dropped.dropout = 0.25;
  Case few_queries = small("rope + alibi");
  few_queries.queries = 3;
  for (const Case& c : {grouped, windows, padded, packed, crossed, ids, wide_ids, bfloat16, float16,
                        dropped, few_queries}) {
    EXPECT_EQ(mismatch_of(c), "") << cases::name_of(c);
  }
}

TEST(JaxAttention, ConstantsMayBeLeftOut) {
  AttentionFrames frames(small("alibi + t5"), false);
  const std::vector<cases::Result> want = frames.problem.expected(false);
  ASSERT_EQ(frames.forward().run(posenc_jax_attention_cpu).message, "");
  EXPECT_EQ(cases::compare(DType::kFloat32, frames.problem.results(false), want).mismatch, "");
}

// What jax.vmap with vmap_method="broadcast_all" passes.
TEST(JaxAttention, LeadingDimensionsAreBatches) {
  AttentionFrames frames(small("rope"));
  ASSERT_EQ(frames.forward().run(posenc_jax_attention_cpu).message, "");
  const std::vector<double> want = frames.problem.data.out.values();
  cases::AttentionData& data = frames.problem.data;
  FfiFrame batched;
  for (cases::Tensor* x : {&data.q, &data.k, &data.v}) {
    batched.operand(XLA_FFI_DataType_F32, x->view().data, {2, 1, x->view().heads(), 19, 8});
  }
  batched.attributes = frames.forward().attributes;
  data.out.fill(NAN);
  batched.result(XLA_FFI_DataType_F32, data.out.view().data, {2, 1, 4, 19, 8});
  batched.result(XLA_FFI_DataType_F32, data.row_sums.data(), {2, 1, 4, 19});
  ASSERT_EQ(batched.run(posenc_jax_attention_cpu).message, "");
  EXPECT_EQ(data.out.values(), want);
}

}  // namespace
}  // namespace posenc::testing
