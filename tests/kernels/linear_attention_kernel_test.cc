// What the case table cannot say of linear attention: what it never reads, and what it allocates.
#include <gtest/gtest.h>

#include <cmath>

#include "cases/attention_data.h"
#include "cases/table.h"
#include "support/allocations.h"

namespace posenc {
namespace {

using cases::linear_forms;
using cases::LinearAttentionProblem;
using cases::Operation;
using cases::Tensor;
using testing::bytes_allocated_by;

// Padding may hold anything: it is never read.
TEST(LinearAttentionKernel, PaddingIsNotRead) {
  for (const LinearAttentionOptions& options : linear_forms()) {
    LinearAttentionProblem f(
        {.op = Operation::kLinearAttention, .heads = 1, .kv_heads = 1, .linear = options});
    f.data.c.padding = true;
    f.data.key_mask[3] = 0;
    ASSERT_TRUE(linear_attention(f.call()).ok());
    const auto expected = f.data.out.values();
    for (Tensor* t : {&f.data.k, &f.data.v}) {
      auto* row = static_cast<float*>(t->view().data) + 3 * f.data.c.head_dim;
      std::fill_n(row, f.data.c.head_dim, NAN);
    }
    ASSERT_TRUE(linear_attention(f.call()).ok());
    EXPECT_EQ(f.data.out.values(), expected);
    ASSERT_TRUE(linear_attention_backward(f.backward_call()).ok());
    for (const double x : f.data.dv.values()) EXPECT_TRUE(std::isfinite(x));
    for (const double x : f.data.dk.values()) EXPECT_TRUE(std::isfinite(x));
  }
}

// Everything that a call allocates, freed or not: the same for 128 tokens and for 1024. A first
// call may start threads.
TEST(LinearAttentionKernel, ScratchDoesNotGrowWithTheLength) {
  for (const LinearAttentionOptions& options : linear_forms()) {
    for (const bool causal : {true, false}) {
      std::vector<std::size_t> forward;
      std::vector<std::size_t> backward;
      for (const std::int64_t t : {128, 256, 1024}) {
        LinearAttentionProblem f({.op = Operation::kLinearAttention,
                                  .spec = "rope",
                                  .queries = t,
                                  .keys = t,
                                  .causal = causal,
                                  .linear = options});
        const auto call = f.backward_call();
        (void)linear_attention(call.forward);
        (void)linear_attention_backward(call);
        forward.push_back(
            bytes_allocated_by([&] { EXPECT_TRUE(linear_attention(call.forward).ok()); }));
        backward.push_back(
            bytes_allocated_by([&] { EXPECT_TRUE(linear_attention_backward(call).ok()); }));
      }
      EXPECT_GT(forward[0], 0u);
      for (const auto& bytes : {forward, backward}) {
        EXPECT_EQ(bytes[0], bytes[1]);
        EXPECT_EQ(bytes[0], bytes[2]);
      }
    }
  }
}

}  // namespace
}  // namespace posenc
