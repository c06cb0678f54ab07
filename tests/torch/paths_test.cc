// The path of a call on a GPU, without one.
#include "torch/composed/paths.h"

#include <gtest/gtest.h>

namespace posenc {
namespace {

constexpr std::int64_t kHeads = 4;

TEST(CudaPaths, AreWhatExplainSays) {
  const auto path = [](const std::string& spec, CudaNumbers numbers = CudaNumbers::kHalf,
                       std::int64_t head_dim = 64, std::int64_t queries = 40,
                       std::int64_t value_dim = 0) {
    const auto prepared = ops::prepare(spec, {.head_dim = head_dim, .heads = kHeads}, 2, 40);
    const std::string whole =
        to_string(cuda_capability(prepared->plan.terms(), {.numbers = numbers,
                                                           .head_dim = head_dim,
                                                           .value_dim = value_dim,
                                                           .queries = queries,
                                                           .keys = 40}));
    const std::string text = whole.substr(0, whole.find("; memory "));
    // One path for both, unless the text says why not.
    const bool fused = text.find("composed") == std::string::npos;
    const std::string same = fused ? "; backward: fused" : "; backward: composed";
    return text.ends_with(same) ? text.substr(0, text.size() - same.size()) : text;
  };
  const auto split = CudaNumbers::kSplitFloat32;
  const auto exact = CudaNumbers::kExactFloat32;
  EXPECT_EQ(path("rope + alibi + cope"),
            "fused on cuda, rope in a pass of its own, toeplitz table (alibi), cope");
  EXPECT_EQ(path("t5 + fire"), "fused on cuda, toeplitz table (t5), fire");
  EXPECT_EQ(path("cope", CudaNumbers::kHalf, 192, 40, 128),
            "fused on cuda, values padded to the channels of queries, cope");
  EXPECT_EQ(path("cope", CudaNumbers::kHalf, 64, 40, 64), "fused on cuda, cope");
  EXPECT_EQ(path("cope", CudaNumbers::kHalf, 64, 40, 128),
            "composed on cuda, scores as tensors: values with more channels than queries");
  EXPECT_EQ(path("cope(gate_source=value)"), "fused on cuda, cope");
  EXPECT_EQ(path("cope(gate_source=separate, npos_max=1024)"), "fused on cuda, cope");
  EXPECT_EQ(path("rope", split),
            "fused on cuda, float32 as sums of two bfloat16, rope in a pass of its own");
  EXPECT_EQ(path("cope", split), "fused on cuda, float32 as sums of three bfloat16, cope");
  EXPECT_EQ(path("cope", split, 256), "fused on cuda, float32 as sums of two bfloat16, cope");
  EXPECT_EQ(path("alibi", exact),
            "fused on cuda, float32 as sums of three bfloat16, toeplitz table (alibi)");
  EXPECT_EQ(path("none", exact, 256),
            "composed on cuda, scores as tensors: exact float32 has kernels up to head_dim 128; "
            "torch.set_float32_matmul_precision(\"high\") allows sums of two bfloat16 numbers");
  EXPECT_EQ(path("none", CudaNumbers::kFloat64), "composed on cuda, scores as tensors: float64");
  EXPECT_EQ(path("none", CudaNumbers::kHalf, 20),
            "composed on cuda, scores as tensors: head_dim is not a multiple of 8 up to 256");
  EXPECT_EQ(path("fire + cope(gates_see_bias=true)"), "fused on cuda, fire, cope");
  EXPECT_EQ(path("path + fox"), "composed on cuda, scores as tensors: no kernel for path");
  EXPECT_EQ(path("wall"), "composed on cuda, scores as tensors: no kernel for wall");
  EXPECT_EQ(path("fire + fire"), "composed on cuda, scores as tensors: more than one fire");
  // The forward fits into shared memory, the backward does not.
  for (const char* spec : {"cope(gate_source=value)", "cope(gate_source=separate)"}) {
    EXPECT_EQ(path(spec, split, 256),
              "fused on cuda, float32 as sums of two bfloat16, cope; backward: composed, scores as "
              "tensors: float32 with gates of other keys has kernels up to head_dim 128");
    EXPECT_EQ(path(spec, CudaNumbers::kHalf, 256), "fused on cuda, cope");
  }
  // Decoding has kernels of its own for what the tuned ones serve.
  EXPECT_EQ(path("cope", CudaNumbers::kHalf, 64, 1), "decode on cuda, cope");
  EXPECT_EQ(path("cope(npos_max=300)", CudaNumbers::kHalf, 64, 1), "fused on cuda, cope");
  EXPECT_EQ(path("fire", CudaNumbers::kHalf, 64, 1), "fused on cuda, fire");
}

TEST(CudaPaths, Float32IsExactUnlessPyTorchAllowsLess) {
  EXPECT_EQ(ops::cuda_numbers(at::kFloat), CudaNumbers::kExactFloat32);
  for (const char* precision : {"high", "medium"}) {
    at::globalContext().setFloat32MatmulPrecision(precision);
    EXPECT_EQ(ops::cuda_numbers(at::kFloat), CudaNumbers::kSplitFloat32) << precision;
    EXPECT_EQ(ops::cuda_numbers(at::kDouble), CudaNumbers::kFloat64);
  }
  at::globalContext().setFloat32MatmulPrecision("highest");
  EXPECT_EQ(ops::cuda_numbers(at::kFloat), CudaNumbers::kExactFloat32);
}

}  // namespace
}  // namespace posenc
