// The general kernels against the float64 reference: float32, FIRE, gates of other keys, long tables.
#include "kernels/cuda/attention_checks.h"

namespace posenc::cuda {
namespace {

using cases::AttentionProblem;
using cases::Case;
using testing::check_case;
using testing::DeviceAttention;
using testing::small;

class CudaGeneral : public testing::Test {};

constexpr DType kTypes[] = {DType::kFloat32, DType::kBfloat16, DType::kFloat16};

// Float32 in two parts and, where they are served, in three.
void check_float(Case c, std::int64_t chunk_bytes = std::int64_t{512} << 20) {
  c.dtype = DType::kFloat32;
  check_case(c, chunk_bytes, 2);
  if (c.head_dim <= 128) check_case(c, chunk_bytes, 3);
}

// Few enough tiles for compute-sanitizer's race checker, which is told to run these.
TEST_F(CudaGeneral, SmallShapesAgreeWithTheReference) {
  for (const char* spec : {"cope(npos_max=8, gate_source=separate)",
                           "t5 + fire(init_threshold=20) + cope(npos_max=8)"}) {
    for (const std::int64_t dim : {64, 128}) {
      Case c = small(spec, 130, dim);
      c.batch = 1;
      c.heads = 2;
      c.kv_heads = 1;
      check_float(c);
    }
  }
}

TEST_F(CudaGeneral, Float32AgreesWithTheReference) {
  for (const std::string& spec : cases::with_every_distance_bias(
           {"none", "alibi(trainable=true)", "cope(npos_max=8)", "cope(npos_max=64)",
            "cope(npos_max=33, logit_scale=sqrt_dim)", "cope(npos_max=8, variant=alibi)",
            "alibi(trainable=true) + cope(npos_max=16, gates_see_bias=true)"})) {
    for (const std::int64_t dim : {64, 128, 256}) check_float(small(spec, 201, dim));
  }
  for (const std::int64_t dim : {8, 32, 40, 96, 192}) {
    check_float(small("kerple + cope(npos_max=16)", 130, dim));
  }
}

TEST_F(CudaGeneral, FireAgreesWithTheReference) {
  for (const char* spec :
       {"fire", "fire(init_threshold=20)", "fire(width=3, init_threshold=40)",
        "alibi(trainable=true) + fire(init_threshold=20)",
        "t5 + fire(width=16, init_threshold=20) + cope(npos_max=16, gates_see_bias=true)"}) {
    for (const DType dtype : kTypes) {
      for (const std::int64_t dim : {64, 128}) {
        Case c = small(spec, 201, dim);
        c.dtype = dtype;
        check_case(c);
      }
    }
  }
}

TEST_F(CudaGeneral, GatesOfOtherKeysAgreeWithTheReference) {
  for (const char* spec :
       {"cope(npos_max=8, gate_source=separate)", "cope(npos_max=16, gate_source=value)",
        "kerple + cope(npos_max=16, gate_source=separate, gates_see_bias=true)",
        "cope(npos_max=16, gate_source=separate, variant=alibi)"}) {
    for (const DType dtype : kTypes) {
      for (const std::int64_t dim : {64, 128}) {
        Case c = small(spec, 201, dim);
        c.dtype = dtype;
        check_case(c);
      }
    }
  }
  Case c = small("cope(npos_max=16, gate_source=separate)", 130, 256);
  check_case(c);
}

TEST_F(CudaGeneral, LongTablesAgreeWithTheReference) {
  for (const char* spec : {"cope(npos_max=300)", "cope(npos_max=1000)"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      Case c = small(spec, 700);
      c.dtype = dtype;
      check_case(c);
    }
  }
  check_case(small("cope(npos_max=256)", 500, 256));  // no room for the tuned kernels' tiles
}

TEST_F(CudaGeneral, MasksAgreeWithTheReference) {
  for (const char* spec :
       {"none", "fire(init_threshold=30)", "t5 + cope(npos_max=16, gate_source=separate)"}) {
    const auto check = [&](auto change) {
      Case c = small(spec, 150);
      change(c);
      check_float(c);
    };
    check([](Case& c) { c.causal = false; });
    check([](Case& c) {
      c.causal = false;
      c.window_left = 40;
      c.window_right = 10;
    });
    check([](Case& c) { c.window_left = 70; });
    check([](Case& c) { c.padding = true; });
    check([](Case& c) { c.cumulative = {0, 60, 63, 150}; });
    check([](Case& c) { c.dropout = 0.25; });
    check([](Case& c) {
      c.dropout = 0.25;
      c.cumulative = {0, 61, 150};
    });
  }
}

TEST_F(CudaGeneral, OddShapesAgreeWithTheReference) {
  for (const char* spec :
       {"none", "fire(init_threshold=30)", "cope(npos_max=16, gate_source=value)"}) {
    for (const auto& [queries, keys] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {65, 65}, {5, 300}, {300, 5}, {129, 70}}) {
      Case c = small(spec, queries);
      c.keys = keys;
      check_float(c);
    }
    Case c = small(spec, 201);
    c.heads = 6;
    check_float(c);
    c.order = cases::Order::kTokensFirst;
    check_float(c);
  }
}

TEST_F(CudaGeneral, ChunksOfQueriesGiveTheSameGradients) {
  Case c = small("t5 + fire(init_threshold=30) + cope(npos_max=32, gate_source=separate)", 900);
  check_float(c, 1);
  c.cumulative = {0, 500, 900};
  check_float(c, 1);
}

TEST_F(CudaGeneral, GradientsThatAreNotWantedAreLeftOut) {
  Case c = small("t5 + fire(init_threshold=30) + cope(npos_max=16)", 201);
  AttentionProblem problem(c);
  DeviceAttention device(problem);
  device.forward();
  device.backward();
  device.bring_back();
  const auto dq = problem.data.dq.bytes();
  const auto dk = problem.data.dk.bytes();
  device.params.dtoeplitz = device.params.dpos_emb = nullptr;
  device.params.dfire_rows = device.params.dfire_segments = nullptr;
  device.params.forward.fire.dpsi = nullptr;
  device.backward();
  device.bring_back();
  EXPECT_EQ(dq, problem.data.dq.bytes());
  EXPECT_EQ(dk, problem.data.dk.bytes());
}

TEST_F(CudaGeneral, MistakesNameTheArgument) {
  AttentionProblem problem(small("fire + cope(npos_max=8, gate_source=separate)", 10));
  DeviceAttention device(problem);
  using Params = AttentionBackwardParams;
  const auto says = [&](const char* what, auto change) {
    Params params = device.params;
    change(params);
    const Status status = launch_attention_backward(params, nullptr);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(std::string(status.message()).find(what), std::string::npos) << status.message();
  };
  says("row_scale", [](Params& p) { p.forward.fire.row_scale = nullptr; });
  says("dpsi", [](Params& p) { p.forward.fire.dpsi = nullptr; });
  says("dfire_segments", [](Params& p) { p.dfire_segments = nullptr; });
  says("gate_k", [](Params& p) { p.forward.cope.gate_k.token_stride = 65; });
  says("dgate_k", [](Params& p) { p.dgate_k.data = nullptr; });
  says("float_parts", [](Params& p) {
    p.forward.element = Element::kFloat32;
    p.forward.float_parts = 4;
  });
  says("workspace", [](Params& p) { p.forward.workspace_bytes = 16; });
}

}  // namespace
}  // namespace posenc::cuda
