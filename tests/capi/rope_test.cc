// Rotations through the C ABI: the same bits as in C++.
#include "posenc/kernels/rope.h"

#include "capi/c_handles.h"

namespace posenc {
namespace {

using cases::Tensor;
using testing::c_positions;
using testing::c_tensor;
using testing::fails;
using testing::make_parameters;
using testing::make_plan;
using testing::make_spec;
using testing::ok;
using testing::ParametersHandle;
using testing::PlanHandle;
using testing::sized;
using testing::SpecHandle;

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kTokens = 5;
const ModelShape kShape{.head_dim = 16, .heads = 4};

struct Inputs {
  explicit Inputs(DType dtype, cases::Order order = cases::Order::kTokensFirst)
      : q({kBatch, 4, kTokens, 16}, dtype, order), k({kBatch, 2, kTokens, 16}, dtype, order) {
    Rng rng(3);
    q.fill_random(rng);
    k.fill_random(rng);
  }
  Tensor q, k;
};

struct Form {
  posenc_positions c;
  PositionsView cpp;
};

// Turns copies of the same tensors on both sides.
void compare(const std::string& spec, DType dtype, const Form& form, bool transposed) {
  SCOPED_TRACE(spec + " " + dtype_name(dtype) + " form " + std::to_string(form.c.form));
  const RotaryCache cache(std::visit(
                              []<class E>(const E& e) -> Rotary {
                                if constexpr (RotaryEncoding<E>)
                                  return make_rotary(e, kShape, Lengths{});
                                return {};
                              },
                              parse_spec(spec).encodings[0]),
                          {});
  Inputs mine(dtype);
  RopeCall expected{};
  expected.q = expected.q_out = mine.q.view();
  expected.k = expected.k_out = mine.k.view();
  expected.tables = &cache;
  expected.positions = form.cpp;
  expected.transposed = transposed;
  ASSERT_TRUE(rope(expected).ok());

  const SpecHandle handle = make_spec(spec);
  const PlanHandle plan = make_plan(handle.get(), kShape, 2);
  Inputs in_place(dtype);
  auto call = sized<posenc_rope_call>();
  call.plan = plan.get();
  call.q = c_tensor(in_place.q);
  call.k = c_tensor(in_place.k);
  call.positions = form.c;
  call.transposed = transposed ? 1 : 0;
  ASSERT_TRUE(ok(posenc_rope(&call)));
  EXPECT_EQ(in_place.q.bytes(), mine.q.bytes());
  EXPECT_EQ(in_place.k.bytes(), mine.k.bytes());

  Inputs source(dtype);
  Inputs target(dtype);
  call.q = c_tensor(source.q);
  call.k = c_tensor(source.k);
  call.q_out = c_tensor(target.q);
  call.k_out = c_tensor(target.k);
  ASSERT_TRUE(ok(posenc_rope(&call)));
  EXPECT_EQ(target.q.bytes(), mine.q.bytes());
  EXPECT_EQ(target.k.bytes(), mine.k.bytes());
  EXPECT_EQ(source.q.bytes(), Inputs(dtype).q.bytes());
}

TEST(CRope, EveryFormOfPositionsGivesTheBitsOfCpp) {
  const std::vector<std::int64_t> offsets = {3000, -7};
  const std::vector<std::int64_t> packed = {0, 2, kTokens};
  const std::vector<std::int32_t> ids32 = {5, 4, 3, 2, 1};
  std::vector<std::int64_t> ids64;
  for (std::int64_t i = 0; i < kBatch * kTokens; ++i) ids64.push_back(100 - 3 * i);
  std::vector<Form> forms(5);
  forms[1] = {c_positions(POSENC_POSITIONS_OFFSETS, offsets), {}};
  forms[1].cpp.offsets = offsets;
  forms[2] = {c_positions(POSENC_POSITIONS_PACKED, packed), {}};
  forms[2].cpp.cumulative = packed;
  forms[3] = {c_positions(POSENC_POSITIONS_INT32, ids32), {}};
  forms[3].c.token_stride = 1;
  forms[3].cpp.ids = ids32.data();
  forms[3].cpp.ids_are_64_bit = false;
  forms[4] = {c_positions(POSENC_POSITIONS_INT64, ids64), {}};
  forms[4].c.batch_stride = forms[4].cpp.batch_stride = kTokens;
  forms[4].c.token_stride = 1;
  forms[4].cpp.ids = ids64.data();
  for (const Form& form : forms) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
      compare("rope(theta=[10, 1000])", dtype, form, false);
    }
    compare("xpos(scale_base=64)", DType::kFloat32, form, true);
  }
}

TEST(CRope, SeveralAxesReadTheirOwnCoordinates) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < kTokens * 2; ++i) ids.push_back(7 * i % 11);
  Form form{c_positions(POSENC_POSITIONS_INT64, ids), {}};
  form.c.token_stride = form.cpp.token_stride = 2;
  form.c.axis_stride = form.cpp.axis_stride = 1;
  form.cpp.ids = ids.data();
  compare("rope(axes=axial)", DType::kFloat32, form, false);
}

TEST(CRope, TablesFrequenciesAndGeometry) {
  const char* text =
      "alibi + rope(theta=[10, 1000], rotary_dim=8, dim_offset=4, layout=interleaved)";
  const Spec spec = parse_spec(text);
  const Rotary rotary = make_rotary(std::get<Rope>(spec.encodings[1]), kShape, Lengths{});
  const SpecHandle handle = make_spec(text);
  const PlanHandle plan = make_plan(handle.get(), kShape);
  ASSERT_EQ(posenc_plan_rotary_count(plan.get()), 1);
  auto info = sized<posenc_rotary_info>();
  ASSERT_TRUE(ok(posenc_rotary_describe(plan.get(), 0, &info)));
  EXPECT_EQ(info.head_dim, 16);
  EXPECT_EQ(info.rotary_dim, 8);
  EXPECT_EQ(info.dim_offset, 4);
  EXPECT_EQ(info.pairs, 4);
  EXPECT_EQ(info.groups, 2);
  EXPECT_EQ(info.axes, 1);
  EXPECT_EQ(info.layout, POSENC_INTERLEAVED);
  EXPECT_EQ(info.inverse, 0);
  EXPECT_EQ(info.attention_factor, 1.0);
  EXPECT_EQ(info.softmax_factor, 1.0);
  std::array<double, 8> inv_freq{};
  ASSERT_TRUE(ok(posenc_rotary_frequencies(plan.get(), nullptr, 0, inv_freq.data(), 8)));
  EXPECT_TRUE(std::equal(inv_freq.begin(), inv_freq.begin() + 4, rotary.inv_freq[0].begin()));
  EXPECT_TRUE(std::equal(inv_freq.begin() + 4, inv_freq.end(), rotary.inv_freq[1].begin()));

  const RotaryCache cache(rotary, {});
  std::array<float, 24> cos{};
  std::array<float, 24> sin{};
  ASSERT_TRUE(ok(posenc_rotary_table(plan.get(), nullptr, 0, POSENC_QUERY, 99, 3, cos.data(),
                                     sin.data(), 24)));
  for (std::size_t row = 0; row < 3; ++row) {
    const auto expected = cache.row(Role::kQuery, 99 + static_cast<std::int64_t>(row), {});
    EXPECT_TRUE(std::equal(expected.cos, expected.cos + 8, cos.begin() + 8 * row));
    EXPECT_TRUE(std::equal(expected.sin, expected.sin + 8, sin.begin() + 8 * row));
  }
  EXPECT_TRUE(fails(
      posenc_rotary_table(plan.get(), nullptr, 0, POSENC_QUERY, 0, 3, cos.data(), sin.data(), 23),
      POSENC_INVALID_ARGUMENT, "must have 24 entries but got 23"));
  EXPECT_TRUE(fails(
      posenc_rotary_table(plan.get(), nullptr, 0, POSENC_QUERY, 0, -1, cos.data(), sin.data(), 0),
      POSENC_OUT_OF_RANGE, "rows"));
  EXPECT_TRUE(
      fails(posenc_rotary_table(plan.get(), nullptr, 0, 2, 0, 3, cos.data(), sin.data(), 24),
            POSENC_INVALID_ARGUMENT, "role must be in [0, 1] but got 2"));
  EXPECT_TRUE(fails(posenc_rotary_frequencies(plan.get(), nullptr, 1, inv_freq.data(), 8),
                    POSENC_OUT_OF_RANGE, "rotary"));
}

TEST(CRope, LearnableFrequenciesFollowTheParameters) {
  const SpecHandle spec = make_spec("rope(schedule=learnable)");
  const PlanHandle plan = make_plan(spec.get(), kShape, 2);
  const ParametersHandle values = make_parameters(spec.get(), kShape, 1);
  std::array<double, 8> alpha{};
  alpha.fill(0.25);
  ASSERT_TRUE(ok(posenc_parameters_set_f64(values.get(), "rope.alpha", alpha.data(), 8)));
  const Rotary rotary = make_rotary(Rope{.schedule = LearnableSchedule{}}, kShape, {}, alpha);
  std::array<double, 8> inv_freq{};
  EXPECT_TRUE(fails(posenc_rotary_frequencies(plan.get(), nullptr, 0, inv_freq.data(), 8),
                    POSENC_INVALID_ARGUMENT, "parameters must not be null"));
  ASSERT_TRUE(ok(posenc_rotary_frequencies(plan.get(), values.get(), 0, inv_freq.data(), 8)));
  EXPECT_TRUE(std::equal(inv_freq.begin(), inv_freq.end(), rotary.inv_freq[0].begin()));

  const RotaryCache cache(rotary, {.mode = CachePolicy::Mode::kOnDemand});
  Inputs mine(DType::kFloat32);
  Inputs gradients(DType::kFloat32);
  std::vector<double> expected(8);
  RopeFrequencyGradientCall cpp;
  cpp.q = mine.q.view();
  cpp.dq_out = gradients.q.view();
  cpp.k = mine.k.view();
  cpp.dk_out = mine.k.view();
  cpp.tables = &cache;
  cpp.dinv_freq = expected;
  ASSERT_TRUE(rope_frequency_gradient(cpp).ok());
  std::vector<double> got(8, -1.0);
  auto call = sized<posenc_rope_frequency_gradient_call>();
  call.plan = plan.get();
  call.parameters = values.get();
  call.q = c_tensor(mine.q);
  call.dq_out = c_tensor(gradients.q);
  call.k = call.dk_out = c_tensor(mine.k);
  call.dinv_freq = got.data();
  call.dinv_freq_count = got.size();
  ASSERT_TRUE(ok(posenc_rope_frequency_gradient(&call)));
  EXPECT_EQ(got, expected);
}

TEST(CRope, WrongPositionsAreRefused) {
  const SpecHandle spec = make_spec("rope");
  const PlanHandle plan = make_plan(spec.get(), kShape, 2, 0, POSENC_CACHE_PRECOMPUTED);
  Inputs mine(DType::kFloat32);
  auto call = sized<posenc_rope_call>();
  call.plan = plan.get();
  call.q = c_tensor(mine.q);
  std::vector<std::int64_t> ids(kTokens, 1);
  const auto expect = [&](posenc_status code, const char* words) {
    EXPECT_TRUE(fails(posenc_rope(&call), code, words));
    EXPECT_EQ(mine.q.bytes(), Inputs(DType::kFloat32).q.bytes());
  };
  call.positions = c_positions(POSENC_POSITIONS_INT64, ids);
  call.positions.token_stride = 1;
  call.positions.batch_stride = 1;
  expect(POSENC_INVALID_ARGUMENT, "positions has 5 ids, but its strides (1, 1, 0)");
  call.positions.batch_stride = INT64_MAX;
  expect(POSENC_INVALID_ARGUMENT, "positions has 5 ids");
  call.positions.batch_stride = -1;
  expect(POSENC_INVALID_ARGUMENT, "positions has 5 ids");
  call.positions.batch_stride = 0;
  ids[4] = INT64_MAX;
  expect(POSENC_OUT_OF_RANGE, "positions must be in [-2^53, 2^53] but got 9223372036854775807");
  ids[4] = 2048;
  expect(POSENC_OUT_OF_RANGE, "position must be in [0, 2047] but got 2048");
  call.positions.data = nullptr;
  expect(POSENC_INVALID_ARGUMENT, "positions must not be null");
  call.positions = c_positions(POSENC_POSITIONS_OFFSETS, ids);
  expect(POSENC_INVALID_ARGUMENT, "positions must have 2 entries but got 5");
  call.positions = c_positions(POSENC_POSITIONS_PACKED, ids);
  expect(POSENC_INVALID_ARGUMENT, "must rise from 0");
  call.positions.count = 0;
  expect(POSENC_INVALID_ARGUMENT, "positions must have entries");
  call.positions.form = 5;
  expect(POSENC_INVALID_ARGUMENT, "positions.form must be in [0, 4] but got 5");
  call.positions = {};
  call.positions.reserved = 1;
  expect(POSENC_INVALID_ARGUMENT, "positions.reserved must be 0");
}

TEST(CRope, WrongTensorsAreRefused) {
  const SpecHandle spec = make_spec("rope");
  const PlanHandle plan = make_plan(spec.get(), kShape, 2);
  Inputs mine(DType::kFloat32);
  const auto expect = [&](const auto& change, posenc_status code, const char* words) {
    auto call = sized<posenc_rope_call>();
    call.plan = plan.get();
    call.q = c_tensor(mine.q);
    change(call);
    EXPECT_TRUE(fails(posenc_rope(&call), code, words));
    EXPECT_EQ(mine.q.bytes(), Inputs(DType::kFloat32).q.bytes());
  };
  const posenc_status invalid = POSENC_INVALID_ARGUMENT;
  expect([](auto& c) { c.q.dtype = 4; }, invalid, "q.dtype must be");
  expect([](auto& c) { c.q.dtype = POSENC_INT8; }, invalid, "or float16 but got int8");
  expect([](auto& c) { c.q.device = 1; }, POSENC_UNSUPPORTED, "q.device must be the host");
  expect([](auto& c) { c.q.shape[0] = -1; }, invalid, "q must not have a negative size");
  expect([](auto& c) { c.q.shape[0] = int64_t{1} << 60; }, invalid, "q has a shape or strides");
  expect([](auto& c) { c.q.stride[1] = INT64_MIN; }, invalid, "q has a shape or strides");
  expect([](auto& c) { c.q.shape[2] = int64_t{1} << 45; }, invalid, "q has a shape or strides");
  expect([](auto& c) { c.q.data = nullptr; }, invalid, "q must not be null");
  expect([](auto& c) { c.q = {}; }, invalid, "q must be given");
  expect([&](auto& c) { c.k_out = c.q; }, invalid, "k must be given where k_out is");
  expect([](auto& c) { c.rotary = 1; }, POSENC_OUT_OF_RANGE, "rotary");
  expect([](auto& c) { c.transposed = 2; }, invalid, "transposed must be in [0, 1] but got 2");
  expect([](auto& c) { c.reserved = 2; }, invalid, "call.reserved must be 0");
}

}  // namespace
}  // namespace posenc
