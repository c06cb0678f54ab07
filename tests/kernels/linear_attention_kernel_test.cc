// Linear attention through running sums against the float64 reference, which goes pair by pair.
#include <gtest/gtest.h>

#include "posenc/core/threads.h"
#include "support/allocations.h"
#include "support/linear_attention_case.h"
#include "support/simd_targets.h"

namespace posenc {
namespace {

using testing::bytes_allocated_by;
using testing::expect_close;
using testing::linear_forms;
using testing::LinearCase;
using testing::LinearFixture;
using testing::Order;
using testing::storage_tolerance;
using testing::Tensor;

void run_forward(const LinearCase& c) {
  SCOPED_TRACE(name_of(c));
  LinearFixture f(c);
  const Status status = linear_attention(f.call());
  ASSERT_TRUE(status.ok()) << status.message();
  const auto want =
      ref::linear_attention(f.spec, f.parameters, f.ref_shape(), f.ref_inputs(), f.ref_options());
  expect_close(f.out.values(), want.out, storage_tolerance(c.dtype), "out");
  const std::vector<double> sums(f.denominator.begin(), f.denominator.end());
  expect_close(sums, want.denominator, 1e-5, "denominator");
}

void run_backward(const LinearCase& c) {
  SCOPED_TRACE(name_of(c));
  LinearFixture f(c);
  ASSERT_TRUE(linear_attention(f.call()).ok());
  const Status status = linear_attention_backward(f.backward_call());
  ASSERT_TRUE(status.ok()) << status.message();
  const auto want = ref::linear_attention_backward(
      f.spec, f.parameters, f.ref_shape(), f.ref_inputs(), f.exact_grad_out, f.ref_options());
  const double relative = c.dtype == DType::kFloat32 ? 2e-5 : 3.0 * storage_tolerance(c.dtype);
  // One token alone has no gradient at q and k: terms of size one cancel, and rounding is left.
  expect_close(f.dq.values(), want.q, relative, "dq", 0.1);
  expect_close(f.dk.values(), want.k, relative, "dk", 0.1);
  expect_close(f.dv.values(), want.v, relative, "dv");
  ASSERT_EQ(f.dparameters.size(), want.parameters.size());
  for (std::size_t e = 0; e < f.dparameters.size(); ++e) {
    for (std::size_t p = 0; p < f.dparameters[e].size(); ++p) {
      const double factor = c.dtype == DType::kFloat32 ? 5.0 : 40.0;
      expect_close(f.dparameters[e][p], want.parameters[e][p], factor * relative,
                   "parameter " + std::to_string(p) + " of " + std::to_string(e), 1.0);
    }
  }
}

// Masks, packing and groups, for each kind of spec.
void add_masks(const LinearCase& base, std::vector<LinearCase>& all) {
  const auto add = [&](auto change) {
    LinearCase c = base;
    change(c);
    all.push_back(c);
  };
  for (const bool causal : {true, false}) {
    add([&](LinearCase& c) { c.causal = causal; });
    add([&](LinearCase& c) {
      c.causal = causal;
      c.batch = 2;
      c.padding = true;
    });
    add([&](LinearCase& c) {
      c.causal = causal;
      c.queries = c.keys = 130;
      c.cumulative = {0, 1, 40, 40, 130};
    });
    add([&](LinearCase& c) {
      c.causal = causal;
      c.batch = 2;
      c.heads = 4;
      c.queries = 33;
      c.keys = 150;
    });
    add([&](LinearCase& c) {
      c.causal = causal;
      c.queries = 90;
      c.keys = 75;
      c.cumulative = {0, 80, 90};
      c.cumulative_keys = {0, 5, 75};
      c.padding = true;
    });
  }
}

std::vector<LinearCase> cases() {
  std::vector<LinearCase> all;
  for (const LinearAttentionOptions& options : linear_forms()) {
    for (const char* spec :
         {"none", "rope", "rope(layout=interleaved, rotary_dim=8, dim_offset=2)",
          "rope(schedule=learnable)", "xpos(scale_base=64)",
          "rope(schedule=yarn(factor=4, original_max_position_embeddings=8))",
          "learned(max_positions=4) + xpos(scale_base=64) + rope(schedule=learnable)"}) {
      add_masks({.spec = spec, .options = options}, all);
    }
    all.push_back({.spec = "rope(schedule=learnable, theta=[10, 1000, 100, 50])",
                   .options = options,
                   .heads = 4,
                   .kv_heads = 2});
    for (const bool causal : {true, false}) {
      for (const std::int64_t t : {1, 2, 17, 63, 64, 65, 129}) {
        all.push_back({.options = options, .queries = t, .keys = t, .causal = causal});
      }
      for (const std::int64_t d : {2, 18, 40, 64, 100, 128}) {
        all.push_back({.options = options, .head_dim = d, .causal = causal});
      }
      all.push_back({.options = options, .queries = 5, .keys = 150, .causal = causal});
      all.push_back({.options = options, .queries = 140, .keys = 10, .causal = causal});
      all.push_back({.options = options, .causal = causal, .offset = 1000});
      for (const Order order : {Order::kTokensFirst, Order::kPadded}) {
        all.push_back({.options = options, .head_dim = 18, .causal = causal, .order = order});
      }
      for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
        all.push_back({.options = options, .causal = causal, .dtype = dtype});
      }
    }
  }
  return all;
}

TEST(LinearAttentionKernel, ForwardMatchesTheReference) {
  for (const LinearCase& c : cases()) run_forward(c);
}

TEST(LinearAttentionKernel, BackwardMatchesTheReference) {
  for (const LinearCase& c : cases()) run_backward(c);
}

TEST(LinearAttentionKernel, EveryTargetMatchesTheReference) {
  testing::for_each_simd_target([] {
    for (const LinearAttentionOptions& options : linear_forms()) {
      for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
        for (const bool causal : {true, false}) {
          const LinearCase c{.options = options, .head_dim = 18, .causal = causal, .dtype = dtype};
          run_forward(c);
          run_backward(c);
        }
      }
    }
  });
}

std::vector<double> all_results(const LinearCase& c) {
  LinearFixture f(c);
  EXPECT_TRUE(linear_attention(f.call()).ok());
  EXPECT_TRUE(linear_attention_backward(f.backward_call()).ok());
  std::vector<double> all(f.denominator.begin(), f.denominator.end());
  for (const Tensor* t : {&f.out, &f.dq, &f.dk, &f.dv}) {
    const auto values = t->values();
    all.insert(all.end(), values.begin(), values.end());
  }
  for (const Parameters& p : f.dparameters) {
    for (const auto& values : p) all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(LinearAttentionKernel, SameBitsForAnyThreadCount) {
  for (const LinearAttentionOptions& options : linear_forms()) {
    const LinearCase c{.spec = "rope(schedule=learnable)",
                       .options = options,
                       .batch = 2,
                       .heads = 4,
                       .queries = 200,
                       .keys = 200};
    std::vector<std::vector<double>> results;
    for (const int threads : {1, 2, 5}) {
      set_num_threads(threads);
      results.push_back(all_results(c));
    }
    set_num_threads(0);
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

// Padding may hold anything: it is never read.
TEST(LinearAttentionKernel, PaddingIsNotRead) {
  for (const LinearAttentionOptions& options : linear_forms()) {
    LinearFixture f({.options = options, .heads = 1, .kv_heads = 1});
    f.c.padding = true;
    f.key_mask[3] = 0;
    ASSERT_TRUE(linear_attention(f.call()).ok());
    const auto expected = f.out.values();
    for (Tensor* t : {&f.k, &f.v}) {
      auto* row = static_cast<float*>(t->view().data) + 3 * f.c.head_dim;
      std::fill_n(row, f.c.head_dim, NAN);
    }
    ASSERT_TRUE(linear_attention(f.call()).ok());
    EXPECT_EQ(f.out.values(), expected);
    ASSERT_TRUE(linear_attention_backward(f.backward_call()).ok());
    for (const double x : f.dv.values()) EXPECT_TRUE(std::isfinite(x));
    for (const double x : f.dk.values()) EXPECT_TRUE(std::isfinite(x));
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
        LinearFixture f({.options = options, .queries = t, .keys = t, .causal = causal});
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
