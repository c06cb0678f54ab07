// The fast RoPE against the float64 reference: types, strides, windows, positions, targets, threads.
#include <gtest/gtest.h>

#include <cmath>

#include "posenc/core/threads.h"
#include "posenc/kernels/reference.h"
#include "posenc/kernels/rope.h"
#include "support/simd_targets.h"
#include "support/tensor.h"

namespace posenc {
namespace {

using testing::Order;
using testing::Tensor;

struct Case {
  const char* name;
  Encoding encoding;  // rope or xpos
  std::int64_t batch = 2;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t tokens = 17;
  std::int64_t head_dim = 16;
  Order order = Order::kDense;
  bool in_place = false;
  bool transposed = false;
  CachePolicy policy = {.length = 32, .block = 16};
};

Rope half(std::int64_t rotary_dim = 0, std::int64_t offset = 0) {
  return Rope{.rotary_dim = rotary_dim, .dim_offset = offset};
}
Rope interleaved(std::int64_t rotary_dim = 0, std::int64_t offset = 0) {
  return Rope{.layout = PairLayout::kInterleaved, .rotary_dim = rotary_dim, .dim_offset = offset};
}

std::vector<Case> cases() {
  std::vector<Case> all = {
      {.name = "half", .encoding = half()},
      {.name = "interleaved", .encoding = interleaved()},
      {.name = "half in place", .encoding = half(), .in_place = true},
      {.name = "interleaved in place", .encoding = interleaved(), .in_place = true},
      {.name = "transposed", .encoding = half(), .transposed = true},
      {.name = "transposed interleaved", .encoding = interleaved(), .transposed = true},
      {.name = "inverse", .encoding = Rope{.inverse = true}},
      {.name = "window", .encoding = half(6, 4)},
      {.name = "window in place", .encoding = interleaved(10, 3), .in_place = true},
      {.name = "tokens first", .encoding = half(), .order = Order::kTokensFirst},
      {.name = "padded rows", .encoding = interleaved(), .order = Order::kPadded},
      {.name = "one query", .encoding = half(), .batch = 3, .tokens = 1},
      {.name = "odd pairs", .encoding = half(), .head_dim = 22},
      {.name = "odd pairs interleaved", .encoding = interleaved(), .head_dim = 22},
      {.name = "wide", .encoding = half(), .heads = 1, .kv_heads = 1, .tokens = 3, .head_dim = 256},
      {.name = "on demand", .encoding = half(), .policy = {.mode = CachePolicy::Mode::kOnDemand}},
      {.name = "theta per head", .encoding = Rope{.theta = {1e4, 1e5}}},
      {.name = "yarn",
       .encoding = Rope{.schedule = YarnSchedule{.factor = 4.0}},
       .transposed = true},
      {.name = "axial", .encoding = Rope{.axes = AxialAxes{}}},
      {.name = "mrope", .encoding = Rope{.axes = MropeInterleavedAxes{{4, 2, 2}}}},
      {.name = "xpos", .encoding = Xpos{}},
      {.name = "xpos in place",
       .encoding = Xpos{.layout = PairLayout::kInterleaved},
       .in_place = true},
  };
  for (const std::int64_t tokens : {2, 15, 16, 33, 63, 64, 65, 127, 128, 129}) {
    all.push_back(
        {.name = "tokens", .encoding = half(), .batch = 1, .tokens = tokens, .head_dim = 64});
  }
  return all;
}

Rotary rotary_of(const Case& c) {
  const ModelShape shape{.head_dim = c.head_dim, .heads = c.heads};
  if (const auto* rope = std::get_if<Rope>(&c.encoding))
    return make_rotary(*rope, shape, {c.tokens});
  return make_rotary(std::get<Xpos>(c.encoding), shape, {c.tokens});
}

// Ids that jump about, one coordinate per axis.
std::vector<std::int64_t> random_ids(const Case& c, std::int64_t axes, Rng& rng) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(c.batch * c.tokens * axes));
  for (std::int64_t& id : ids) id = rng.integer(0, 99);
  return ids;
}

std::vector<double> expected(const Case& c, const Rotary& rotary, Role role, std::int64_t heads,
                             const std::vector<double>& x, const std::vector<std::int64_t>& ids) {
  const ref::RopeShape shape{c.batch, heads, c.tokens, c.head_dim};
  if (!c.transposed) return ref::rope(rotary, role, shape, x, ids);
  return ref::rope_backward(rotary, role, shape, x, ids, x).x;
}

void expect_close(DType dtype, const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], testing::rounding(dtype, want[i]) + 2e-6) << "at " << i;
  }
}

void run_case(const Case& c, DType dtype) {
  SCOPED_TRACE(std::string(c.name) + " " + dtype_name(dtype));
  Rng rng(7);
  const RotaryCache tables(rotary_of(c), c.policy);
  const std::int64_t axes = tables.rotary().axes.axes;
  const std::vector<std::int64_t> ids = random_ids(c, axes, rng);
  Tensor q({c.batch, c.heads, c.tokens, c.head_dim}, dtype, c.order);
  Tensor k({c.batch, c.kv_heads, c.tokens, c.head_dim}, dtype, c.order);
  const std::vector<double> q_values = q.fill_random(rng);
  const std::vector<double> k_values = k.fill_random(rng);
  Tensor q_out = q;
  Tensor k_out = k;
  q_out.fill(NAN);
  k_out.fill(NAN);
  RopeCall call;
  call.q = q.view();
  call.k = k.view();
  call.q_out = c.in_place ? q.view() : q_out.view();
  call.k_out = c.in_place ? k.view() : k_out.view();
  call.tables = &tables;
  call.transposed = c.transposed;
  call.positions.ids = ids.data();
  call.positions.batch_stride = c.tokens * axes;
  call.positions.token_stride = axes;
  call.positions.axis_stride = axes > 1 ? 1 : 0;
  const Status status = rope(call);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_close(dtype, (c.in_place ? q : q_out).values(),
               expected(c, tables.rotary(), Role::kQuery, c.heads, q_values, ids));
  expect_close(dtype, (c.in_place ? k : k_out).values(),
               expected(c, tables.rotary(), Role::kKey, c.kv_heads, k_values, ids));
}

TEST(RopeKernel, MatchesTheReferenceOnEveryTarget) {
  testing::for_each_simd_target([] {
    for (const Case& c : cases()) {
      for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16})
        run_case(c, dtype);
    }
  });
}

// One tensor, run with a form of positions; returns the bytes.
std::vector<std::byte> run_with(const PositionsView& positions, std::int64_t batch = 2) {
  Rng rng(3);
  const RotaryCache tables(make_rotary(Rope{}, {.head_dim = 16, .heads = 4}, {}), {.length = 64});
  Tensor q({batch, 4, 12, 16}, DType::kFloat32);
  q.fill_random(rng);
  RopeCall call;
  call.q = q.view();
  call.q_out = q.view();
  call.tables = &tables;
  call.positions = positions;
  const Status status = rope(call);
  EXPECT_TRUE(status.ok()) << status.message();
  return q.bytes();
}

TEST(RopeKernel, AllFormsOfPositionsAgree) {
  std::vector<std::int64_t> wide;
  std::vector<std::int32_t> narrow;
  const std::vector<std::int64_t> offsets = {5, 40};
  for (const std::int64_t start : offsets) {
    for (std::int64_t t = 0; t < 12; ++t) {
      wide.push_back(start + t);
      narrow.push_back(static_cast<std::int32_t>(start + t));
    }
  }
  PositionsView by_wide;
  by_wide.ids = wide.data();
  by_wide.batch_stride = 12;
  PositionsView by_narrow = by_wide;
  by_narrow.ids = narrow.data();
  by_narrow.ids_are_64_bit = false;
  PositionsView by_offset;
  by_offset.offsets = offsets;
  EXPECT_EQ(run_with(by_wide), run_with(by_narrow));
  EXPECT_EQ(run_with(by_wide), run_with(by_offset));
  const std::vector<std::int64_t> restarts = {0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 3, 4};
  const std::vector<std::int64_t> cumulative = {0, 5, 5, 7, 12};
  PositionsView by_restart;
  by_restart.ids = restarts.data();
  PositionsView packed;
  packed.cumulative = cumulative;
  EXPECT_EQ(run_with(by_restart, 1), run_with(packed, 1));
}

TEST(RopeKernel, SameBitsForAnyThreadCount) {
  std::vector<std::vector<std::byte>> results;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    results.push_back(run_with({}));
  }
  set_num_threads(0);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(RopeKernel, FrequencyGradientMatchesTheReference) {
  for (const bool inverse : {false, true}) {
    for (const PairLayout layout : {PairLayout::kHalf, PairLayout::kInterleaved}) {
      Rng rng(9);
      const Rope rope{.theta = {1e2, 1e3},
                      .layout = layout,
                      .rotary_dim = 12,
                      .dim_offset = 2,
                      .inverse = inverse,
                      .schedule = LearnableSchedule{}};
      const RotaryCache tables(make_rotary(rope, {.head_dim = 16, .heads = 4}, {}), {});
      Tensor q({2, 4, 21, 16}, DType::kFloat32);
      Tensor k({2, 2, 21, 16}, DType::kFloat32);
      Tensor dq = q;
      Tensor dk = k;
      const auto q_values = q.fill_random(rng);
      const auto dq_values = dq.fill_random(rng);
      const auto k_values = k.fill_random(rng);
      const auto dk_values = dk.fill_random(rng);
      std::vector<std::int64_t> ids(42);
      for (std::size_t i = 0; i < 42; ++i) ids[i] = static_cast<std::int64_t>(i % 21);
      std::vector<double> gradient(12, NAN);
      RopeFrequencyGradientCall call;
      call.q = q.view();
      call.dq_out = dq.view();
      call.k = k.view();
      call.dk_out = dk.view();
      call.tables = &tables;
      call.dinv_freq = gradient;
      const Status status = rope_frequency_gradient(call);
      ASSERT_TRUE(status.ok()) << status.message();
      const auto of_q = ref::rope_backward(tables.rotary(), Role::kQuery, {2, 4, 21, 16}, q_values,
                                           ids, dq_values)
                            .inv_freq;
      const auto of_k =
          ref::rope_backward(tables.rotary(), Role::kKey, {2, 2, 21, 16}, k_values, ids, dk_values)
              .inv_freq;
      for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(gradient[i], of_q[i] + of_k[i], 2e-3);
    }
  }
}

TEST(RopeKernel, MistakesNameTheArgumentAndWriteNothing) {
  const RotaryCache tables(make_rotary(Rope{}, {.head_dim = 16, .heads = 4}, {}),
                           {.mode = CachePolicy::Mode::kPrecomputed, .length = 8});
  Rng rng(1);
  Tensor q({1, 4, 6, 16}, DType::kFloat32);
  q.fill_random(rng);
  const std::vector<std::byte> before = q.bytes();
  const auto message = [&](auto change) {
    RopeCall call;
    call.q = q.view();
    call.q_out = q.view();
    call.tables = &tables;
    change(call);
    const Status status = rope(call);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(q.bytes(), before);
    return std::string(status.message());
  };
  const std::vector<std::int64_t> far = {0, 1, 2, 3, 4, 8};
  const std::vector<std::int64_t> offsets = {1, 2};
  const std::vector<std::int64_t> falling = {0, 4, 3, 6};
  Tensor narrow({1, 4, 6, 8}, DType::kFloat32);
  const auto expect = [&](const std::string& got, const char* says) {
    EXPECT_NE(got.find(says), std::string::npos) << got;
  };
  expect(message([](RopeCall& c) { c.tables = nullptr; }), "tables must not be null");
  expect(message([](RopeCall& c) { c.q.data = nullptr; }), "q must not be null");
  expect(message([](RopeCall& c) { c.q_out.data = nullptr; }), "q_out must not be null");
  expect(message([](RopeCall& c) { c.q.stride[3] = 2; }), "q must have contiguous channels");
  expect(message([](RopeCall& c) { c.q.shape[2] = -1; }), "negative size");
  expect(message([&](RopeCall& c) { c.q = c.q_out = narrow.view(); }),
         "head_dim 16 channels but got 8");
  expect(message([](RopeCall& c) { c.q_out.dtype = DType::kBfloat16; }), "q_out must be float32");
  expect(message([](RopeCall& c) { c.q_out.shape[1] = 2; }), "shape of q [1, 4, 6, 16]");
  expect(message([](RopeCall& c) { c.q_out.data = static_cast<float*>(c.q_out.data) + 8; }),
         "overlap");
  expect(message([](RopeCall& c) { c.q_out.stride[1] = 0; }), "write one element twice");
  expect(message([](RopeCall& c) {
           c.k = c.q;
           c.k_out = c.q_out;
           c.k.shape[2] = c.k_out.shape[2] = 5;
         }),
         "k must have the batch, tokens and type of q");
  expect(message([&](RopeCall& c) { c.positions.ids = far.data(); }),
         "position must be in [0, 7] but got 8");
  expect(message([&](RopeCall& c) { c.positions.offsets = offsets; }),
         "one entry per sequence (1) but got 2");
  expect(message([&](RopeCall& c) { c.positions.cumulative = falling; }), "cumulative must rise");
  expect(message([&](RopeCall& c) {
           c.positions.ids = far.data();
           c.positions.offsets = offsets;
         }),
         "one form but got 2");
}

TEST(RopeKernel, EmptyTensorsAreFine) {
  const RotaryCache tables(make_rotary(Rope{}, {.head_dim = 16, .heads = 4}, {}), {});
  for (const std::array<std::int64_t, 4>& shape :
       {std::array<std::int64_t, 4>{0, 4, 6, 16}, std::array<std::int64_t, 4>{2, 4, 0, 16}}) {
    RopeCall call;
    call.q.shape = shape;
    call.q_out.shape = shape;
    call.tables = &tables;
    EXPECT_TRUE(rope(call).ok());
  }
}

}  // namespace
}  // namespace posenc
