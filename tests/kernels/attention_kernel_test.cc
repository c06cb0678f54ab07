// What the case table cannot say of attention: keys that were turned before, and which path runs.
#include <gtest/gtest.h>

#include <cmath>

#include "cases/attention_data.h"
#include "cases/compare.h"
#include "posenc/core/error.h"
#include "support/catalog_specs.h"

namespace posenc {
namespace {

using cases::AttentionProblem;
using cases::Case;
using cases::Tensor;

// A cache of keys that were rotated when they were written, in every type, equals rotating them again.
TEST(AttentionKernel, DecodingReadsACacheOfTurnedKeys) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    for (const char* spec : {"rope", "rope(layout=interleaved) + alibi", "xpos(center=300)",
                             "rope + cope(npos_max=8)"}) {
      const Case c{
          .spec = spec, .heads = 4, .kv_heads = 2, .queries = 2, .keys = 600, .dtype = dtype};
      AttentionProblem f(c);
      ASSERT_TRUE(attention(f.call()).ok());
      const std::vector<double> anew = f.data.out.values();
      const TensorView keys = f.data.k.view();
      ASSERT_TRUE(rotate_keys(f.data.plan, keys, keys).ok());
      AttentionCall call = f.call();
      call.keys_are_turned = true;
      ASSERT_TRUE(attention(call).ok());
      const auto found =
          cases::compare(dtype, {{"out", cases::ResultKind::kGradient, f.data.out.values()}},
                         {{"out", cases::ResultKind::kGradient, anew}});
      EXPECT_TRUE(found.fine()) << spec << ": " << found.mismatch;
    }
  }
}

// Nothing in rotated keys shows the length that they were rotated for.
TEST(AttentionKernel, TurnedKeysAreRefusedWhereTheRotationFollowsTheLength) {
  for (const std::string& spec : testing::catalog_specs(Site::kQueryKey, 16)) {
    AttentionProblem f(Case{.spec = spec + " + alibi", .keys = 80});
    AttentionCall call = f.call();
    EXPECT_TRUE(attention(call).ok()) << spec;
    call.keys_are_turned = true;
    const bool follows = follows_length(f.data.spec);
    const Status status = attention(call);
    EXPECT_EQ(status.code(), follows ? StatusCode::kUnsupported : StatusCode::kOk)
        << spec << ": " << status.message();
  }
}

// The reference would turn such keys a second time; that is refused, not computed.
TEST(AttentionKernel, TurnedKeysAreNotTurnedAgainByTheReference) {
  AttentionProblem f(Case{.spec = "rope + cope(npos_max=8) + cope(npos_max=4)"});
  AttentionCall call = f.call();
  call.keys_are_turned = true;
  const Status status = attention(call);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(std::string(status.message()).find("more than one cope"), std::string::npos);
  for (const double x : f.data.out.values()) ASSERT_TRUE(std::isnan(x)) << "nothing is written";
}

TEST(AttentionKernel, ExplainSaysWhichPathRuns) {
  const auto path = [](const char* spec) {
    AttentionProblem f(Case{.spec = spec});
    const std::string whole = explain(f.call());
    return whole.substr(0, whole.find("; memory "));
  };
  EXPECT_EQ(path("none"), "fused; backward: fused");
  EXPECT_EQ(path("rope + alibi + t5 + cope"),
            "fused, rope while reading rows, toeplitz table (alibi + t5), cope; backward: fused");
  EXPECT_EQ(path("rope + fire"), "fused, rope while reading rows, fire; backward: fused");
  EXPECT_EQ(path("cope + cope"),
            "reference (float64): more than one cope; backward: reference (float64)");
  EXPECT_EQ(explain(AttentionCall{}), "nothing: plan must not be null");
}

TEST(AttentionKernel, ExplainNeedsNoTensors) {
  const AttentionShapes prompt{.heads = 4, .kv_heads = 2, .queries = 100, .keys = 100};
  EXPECT_EQ(
      explain(parse_spec("rope + alibi"), prompt),
      "fused, rope while reading rows, toeplitz table (alibi); backward: fused; memory 57.4 KiB, "
      "backward 271.5 KiB");
  const AttentionShapes step{.heads = 4, .kv_heads = 2, .queries = 1, .keys = 100};
  EXPECT_EQ(explain(parse_spec("alibi"), step),
            "decode, toeplitz table (alibi); backward: fused; memory 10.7 KiB, backward 110.4 KiB");
  EXPECT_THROW((void)explain(parse_spec("rope(rotary_dim=128)"), prompt), Error);
  EXPECT_THROW((void)explain(parse_spec("sinusoidal"), prompt), Error);
}

// The plan keeps the table of biases: it must notice new parameters and longer sequences.
TEST(AttentionKernel, KeptBiasTablesFollowParametersAndLengths) {
  const AttentionPlan plan(parse_spec("alibi(trainable=true) + t5"), {.head_dim = 16, .heads = 2},
                           2);
  for (const std::int64_t keys : {40, 41, 40, 300}) {
    for (const bool causal : {true, false}) {
      AttentionProblem f(Case{.spec = "alibi(trainable=true) + t5",
                              .queries = 3,
                              .keys = keys,
                              .causal = causal,
                              .seed = static_cast<std::uint64_t>(keys % 3)});
      AttentionCall call = f.call();
      call.plan = &plan;
      ASSERT_TRUE(attention(call).ok());
      const auto found = cases::compare(DType::kFloat32, f.results(false), f.expected(false));
      EXPECT_TRUE(found.fine()) << keys << ": " << found.mismatch;
    }
  }
}

}  // namespace
}  // namespace posenc
