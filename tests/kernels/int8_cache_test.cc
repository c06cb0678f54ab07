// int8 caches: what quantize_rows writes, what decoding reads, and who refuses them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cases/attention_data.h"
#include "cases/compare.h"
#include "posenc/kernels/quantize.h"
#include "posenc/kernels/rope.h"

namespace posenc {
namespace {

using cases::AttentionProblem;
using cases::Case;
using cases::Tensor;

struct Quantized {
  explicit Quantized(const Tensor& from)
      : x(from),
        rows(x.view().shape, DType::kInt8, cases::Order::kPadded),
        scales({x.view().batch(), x.view().heads(), x.view().tokens(), 1}, DType::kFloat32) {
    quantize_rows(x.view(), rows.view(), scales.view()).throw_if_error();
  }
  Tensor x;
  Tensor rows;
  Tensor scales;
};

TEST(QuantizeRows, RoundsToTheNearestAndKeepsTheLargest) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    Tensor x({2, 3, 5, 40}, dtype, cases::Order::kTokensFirst);
    Rng rng(3);
    x.fill_random(rng, 2.0);
    const Quantized q(x);
    const std::vector<double> wide = x.values();
    const std::vector<double> narrow = q.rows.values();
    const std::vector<double> scales = q.scales.values();
    for (std::size_t row = 0; row < scales.size(); ++row) {
      double largest = 0.0;
      double code = 0.0;
      for (std::size_t n = 40 * row; n < 40 * (row + 1); ++n) {
        largest = std::max(largest, std::abs(wide[n]));
        code = std::max(code, std::abs(narrow[n]));
        EXPECT_LE(std::abs(wide[n] - scales[row] * narrow[n]), (0.5 + 1e-5) * scales[row]);
      }
      EXPECT_EQ(scales[row], static_cast<double>(static_cast<float>(largest / 127.0)));
      EXPECT_EQ(code, 127.0);
    }
  }
}

TEST(QuantizeRows, OfZerosTiesTinyAndNonFiniteNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Tensor x({1, 1, 6, 4}, DType::kFloat32);
  x.assign({0,     0,          0,    -0.0,  // zeros
            127,   63.5,       0.5,  -1.5,  // ties go to the even code: scale 1
            NAN,   1,          2,    3,     //
            1,     -kInfinity, 2,    3,     //
            1e-45, -1e-45,     0,    0,     // below every scale
            3e38,  -3e38,      1e38, 0});
  Quantized q(x);
  const std::vector<double> rows = q.rows.values();
  const std::vector<double> scales = q.scales.values();
  const auto row = [&](std::size_t n) {
    return std::vector<double>(rows.begin() + static_cast<std::ptrdiff_t>(4 * n),
                               rows.begin() + static_cast<std::ptrdiff_t>(4 * n + 4));
  };
  const std::vector<double> zeros(4, 0.0);
  EXPECT_EQ(row(0), zeros);
  EXPECT_EQ(scales[0], 0.0);
  EXPECT_EQ(row(1), (std::vector<double>{127, 64, 0, -2}));
  EXPECT_EQ(scales[1], 1.0);
  for (const std::size_t n : {2, 3}) {
    EXPECT_EQ(row(n), zeros);
    EXPECT_TRUE(std::isnan(scales[n]));
  }
  EXPECT_EQ(row(4), zeros);
  EXPECT_EQ(row(5), (std::vector<double>{127, -127, 42, 0}));

  Tensor back({1, 1, 6, 4}, DType::kFloat32);
  ASSERT_TRUE(dequantize_rows(q.rows.view(), q.scales.view(), back.view()).ok());
  for (std::size_t n = 0; n < rows.size(); ++n) {
    const auto want = static_cast<float>(scales[n / 4]) * static_cast<float>(rows[n]);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(back.values()[n]));
    } else {
      EXPECT_EQ(back.values()[n], static_cast<double>(want));
    }
  }
}

void expect_words(const Status& status, StatusCode code, const std::string& words) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(std::string(status.message()).find(words), std::string::npos) << status.message();
}

TEST(QuantizeRows, RefusesOtherTensors) {
  Tensor x({1, 2, 3, 4}, DType::kFloat32);
  Tensor rows({1, 2, 3, 4}, DType::kInt8);
  Tensor scales({1, 2, 3, 1}, DType::kFloat32);
  Tensor few({1, 2, 2, 1}, DType::kFloat32);
  const auto code = StatusCode::kInvalidArgument;
  expect_words(quantize_rows(x.view(), x.view(), scales.view()), code,
               "[quantize_rows] quantized must be int8 but got float32");
  expect_words(quantize_rows(rows.view(), rows.view(), scales.view()), code,
               "[quantize_rows] x must be float32, bfloat16 or float16 but got int8");
  expect_words(quantize_rows(x.view(), rows.view(), few.view()), code,
               "[quantize_rows] scales must have the shape [1, 2, 3, 1] but got [1, 2, 2, 1]");
  expect_words(dequantize_rows(rows.view(), scales.view(), few.view()), code,
               "[dequantize_rows] quantized must have the shape [1, 2, 2, 1]");
  TensorView over_itself = rows.view();
  over_itself.data = x.view().data;
  expect_words(quantize_rows(x.view(), over_itself, scales.view()), code,
               "quantized must not overlap its input");
}

Case int8_case(const char* spec) {
  return {.op = cases::Operation::kDecode,
          .spec = spec,
          .heads = 4,
          .queries = 2,
          .keys = 600,
          .cache_dtype = DType::kInt8};
}

// A token at a time through a strided view of a larger cache, rotated before it is quantised.
TEST(Int8Cache, IsFilledTokenByTokenWithRotatedKeys) {
  AttentionProblem f({.spec = "rope", .heads = 4, .queries = 1, .keys = 20});
  Tensor k({1, 2, 32, 16}, DType::kInt8);
  Tensor v(k);
  Tensor k_scales({1, 2, 32, 1}, DType::kFloat32);
  Tensor v_scales(k_scales);
  ASSERT_TRUE(rotate_keys(f.data.plan, f.data.k.view(), f.data.k.view()).ok());
  for (std::int64_t t = 0; t < 20; ++t) {
    const auto one = [t](Tensor& x) { return x.view().token_range(t, 1); };
    ASSERT_TRUE(quantize_rows(one(f.data.k), one(k), one(k_scales)).ok());
    ASSERT_TRUE(quantize_rows(one(f.data.v), one(v), one(v_scales)).ok());
  }
  AttentionCall call = f.call();
  const auto filled = [](Tensor& x) { return x.view().token_range(0, 20); };
  call.k = filled(k);
  call.v = filled(v);
  call.k_scales = filled(k_scales);
  call.v_scales = filled(v_scales);
  call.keys_are_turned = true;
  ASSERT_TRUE(attention(call).ok());
  const std::vector<double> got = f.data.out.values();
  ASSERT_TRUE(dequantize_rows(call.k, call.k_scales, f.data.k.view()).ok());
  ASSERT_TRUE(dequantize_rows(call.v, call.v_scales, f.data.v.view()).ok());
  AttentionCall wide = f.call();
  wide.keys_are_turned = true;
  ASSERT_TRUE(attention(wide).ok());
  const auto found = cases::compare(DType::kFloat32, {{"out", cases::ResultKind::kValue, got}},
                                    {{"out", cases::ResultKind::kValue, f.data.out.values()}});
  EXPECT_TRUE(found.fine()) << found.mismatch;
}

// A hidden token may have any scale, as it may have any key; a token that is seen and has a NaN makes the row one.
TEST(Int8Cache, ScalesOfHiddenTokensAreNotRead) {
  for (const char* spec : {"none", "cope(npos_max=8, gate_source=value)", "wall", "stick_breaking",
                           "rope + softcap(cap=2)"}) {
    SCOPED_TRACE(spec);
    Case c = int8_case(spec);
    c.padding = true;
    AttentionProblem f(c);
    f.forward();
    const std::vector<double> want = f.data.out.values();
    for (Tensor* scales : {&f.data.k_scales, &f.data.v_scales}) {
      std::vector<double> values = scales->values();
      for (std::size_t n = 0; n < values.size(); ++n) {
        if (f.data.key_mask[n % 600] == 0) values[n] = NAN;
      }
      scales->assign(values);
    }
    f.forward();
    EXPECT_EQ(f.data.out.values(), want);
    for (Tensor* scales : {&f.data.k_scales, &f.data.v_scales}) {
      const Tensor kept = *scales;
      std::vector<double> values = scales->values();
      std::size_t seen = 0;
      while (f.data.key_mask[seen] == 0) ++seen;
      values[seen] = NAN;  // of the first key head, which serves query heads 0 and 1
      scales->assign(values);
      f.forward();
      const std::vector<double> out = f.data.out.values();
      for (std::size_t n = 0; n < out.size(); ++n) {
        ASSERT_EQ(std::isnan(out[n]), n < out.size() / 2) << n;
      }
      *scales = kept;
    }
  }
}

TEST(Int8Cache, IsRefusedByNameWhereNothingReadsIt) {
  const auto refuses = [](Case c, const std::string& words, auto change) {
    c.cache_dtype = DType::kInt8;
    AttentionProblem f(c);
    AttentionCall call = f.call();
    change(call);
    expect_words(attention(call), StatusCode::kUnsupported, words);
    for (const double x : f.data.out.values()) ASSERT_TRUE(std::isnan(x)) << "nothing is written";
  };
  const auto as_is = [](const AttentionCall&) {};
  refuses({.queries = 9, .keys = 30},
          "k is int8, which only decode steps read, but the call is not one: it has 9 queries",
          as_is);
  refuses({.spec = "grape_ap", .queries = 1, .keys = 30}, "need blocks of queries", as_is);
  refuses({.spec = "cope + cope", .queries = 1, .keys = 30}, "more than one cope", as_is);
  const std::vector<std::int64_t> whole = {0, 2};
  const std::vector<std::int64_t> keys = {0, 30};
  refuses({.queries = 2, .keys = 30}, "it has packed sequences", [&](AttentionCall& call) {
    call.mask.cu_queries = whole;
    call.mask.cu_keys = keys;
  });
}

TEST(Int8Cache, ScalesMustFit) {
  const auto code = StatusCode::kInvalidArgument;
  AttentionProblem f(int8_case("none"));
  AttentionCall call = f.call();
  call.v_scales = {};
  expect_words(attention(call), code, "v_scales must be float32 [1, 2, 600, 1], since v is int8");
  call = f.call();
  call.k_scales.shape[2] = 599;
  expect_words(attention(call), code, "k_scales must be float32 [1, 2, 600, 1]");
  AttentionProblem wide({.queries = 1});
  call = wide.call();
  call.k_scales = f.data.k_scales.view();
  expect_words(attention(call), code, "k_scales must not be given: k is float32");
}

TEST(Int8Cache, OtherOperationsRefuseInt8) {
  Tensor x({1, 2, 3, 16}, DType::kInt8);
  const AttentionPlan plan(parse_spec("rope"), {.head_dim = 16, .heads = 2}, 2);
  const std::string words = "must be float32, bfloat16 or float16 but got int8";
  expect_words(rotate_keys(plan, x.view(), x.view()), StatusCode::kInvalidArgument, words);
  AttentionProblem f(int8_case("none"));
  f.forward();
  expect_words(attention_backward(f.backward_call()), StatusCode::kInvalidArgument, words);
  AttentionCall call = f.call();
  call.q = ConstTensorView(x.view());
  expect_words(attention(call), StatusCode::kInvalidArgument, "q " + words);
  const RotaryCache tables(make_rotary(Rope{}, {.head_dim = 16, .heads = 2}, {}), {});
  RopeCall turn;
  turn.q = turn.q_out = x.view();
  turn.tables = &tables;
  expect_words(rope(turn), StatusCode::kInvalidArgument, words);
}

}  // namespace
}  // namespace posenc
