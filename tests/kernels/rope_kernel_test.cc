// What the case table cannot say of RoPE: forms of positions against each other, and mistakes.
#include <gtest/gtest.h>

#include "cases/tensor.h"
#include "posenc/kernels/rope.h"

namespace posenc {
namespace {

using cases::Tensor;

// One tensor, run with a form of positions; returns the bytes.
Tensor::Bytes run_with(const PositionsView& positions, std::int64_t batch = 2) {
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

TEST(RopeKernel, MistakesNameTheArgumentAndWriteNothing) {
  const RotaryCache tables(make_rotary(Rope{}, {.head_dim = 16, .heads = 4}, {}),
                           {.mode = CachePolicy::Mode::kPrecomputed, .length = 8});
  Rng rng(1);
  Tensor q({1, 4, 6, 16}, DType::kFloat32);
  q.fill_random(rng);
  const Tensor::Bytes before = q.bytes();
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
  const std::vector<std::int64_t> late = {1, 4, 6};
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
  expect(message([&](RopeCall& c) { c.positions.cumulative = late; }),
         "rise from 0 to the number of tokens (6) but got 1 .. 6");
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
