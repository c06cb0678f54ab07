#include "posenc/encodings/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "posenc/core/error.h"
#include "posenc/encodings/analysis.h"

namespace posenc {
namespace {

ScheduleOutput at(const Schedule& schedule, std::int64_t sequence, std::int64_t context = 0) {
  return evaluate(schedule,
                  {.theta = 1e4, .dim = 64, .head_dim = 64, .lengths = {sequence, context}});
}

double g(double scale, double m) { return 0.1 * m * std::log(scale) + 1.0; }

TEST(Schedule, FactorOneChangesNothing) {
  const auto base = at(DefaultSchedule{}, 100).inv_freq;
  EXPECT_EQ(at(LinearSchedule{1.0}, 100).inv_freq, base);
  EXPECT_EQ(at(NtkSchedule{1.0}, 100).inv_freq, base);
  EXPECT_EQ(at(DynamicSchedule{.factor = 2.0, .max_position_embeddings = 512}, 512).inv_freq, base);
  EXPECT_EQ(at(ProportionalSchedule{}, 100).inv_freq, base);
  const auto yarn = at(YarnSchedule{.factor = 1.0}, 100);
  for (std::size_t i = 0; i < base.size(); ++i) EXPECT_NEAR(yarn.inv_freq[i], base[i], 1e-16);
  EXPECT_EQ(yarn.attention_factor, 1.0);
}

TEST(Schedule, NtkDividesTheLastPairByTheFactorAndKeepsTheFirst) {
  const auto base = at(DefaultSchedule{}, 1).inv_freq;
  const auto ntk = at(NtkSchedule{8.0}, 1).inv_freq;
  EXPECT_EQ(ntk.front(), base.front());
  EXPECT_NEAR(ntk.back(), base.back() / 8.0, 1e-15);
}

TEST(Schedule, DynamicFollowsTheLengthOrIsFixed) {
  DynamicSchedule s{.factor = 4.0, .max_position_embeddings = 512};
  const auto current = at(s, 2048).inv_freq;
  EXPECT_EQ(current, at(NtkSchedule{4.0 * 4.0 - 3.0}, 1).inv_freq);
  s.length = DynamicSchedule::Length::kFixed;
  EXPECT_EQ(at(s, 1).inv_freq, at(NtkSchedule{4.0 * 4.0 - 3.0}, 1).inv_freq);
}

TEST(Schedule, YarnMagnitudeByProfile) {
  YarnSchedule yarn{.factor = 8.0, .attention_factor = 1.5, .mscale = 0.7, .mscale_all_dim = 0.9};
  const auto factor = [&](Profile profile, bool deepseek = false) {
    return at(apply_profile(yarn, profile, deepseek), 1).attention_factor;
  };
  EXPECT_DOUBLE_EQ(factor(Profile::kHf), 1.5);
  EXPECT_DOUBLE_EQ(factor(Profile::kVllm), g(8.0, 1.0)) << "attention_factor is not read there";
  EXPECT_DOUBLE_EQ(factor(Profile::kVllm, true), g(8.0, 0.7) / g(8.0, 0.9));
  EXPECT_DOUBLE_EQ(factor(Profile::kLlamaCpp), g(8.0, 1.0) / g(8.0, 0.9));
  yarn.attn_factor = 2.0;
  EXPECT_DOUBLE_EQ(factor(Profile::kVllm), 2.0 * g(8.0, 1.0));
  EXPECT_DOUBLE_EQ(factor(Profile::kHf), 1.5);
  yarn.attention_factor.reset();
  EXPECT_DOUBLE_EQ(factor(Profile::kHf), g(8.0, 0.7) / g(8.0, 0.9));
  yarn.mscale.reset();
  EXPECT_DOUBLE_EQ(factor(Profile::kHf), g(8.0, 1.0));
}

TEST(Schedule, DeepSeekScalesTheSoftmaxToo) {
  const YarnSchedule yarn{
      .factor = 40.0, .mscale = 1.0, .mscale_all_dim = 1.0, .softmax_mscale = true};
  const ScheduleOutput output = at(yarn, 1);
  EXPECT_DOUBLE_EQ(output.attention_factor, 1.0);
  EXPECT_DOUBLE_EQ(output.softmax_factor, g(40.0, 1.0) * g(40.0, 1.0));
}

TEST(Schedule, TruncateByProfile) {
  const YarnSchedule yarn{.factor = 8.0, .truncate = false};
  EXPECT_FALSE(std::get<YarnSchedule>(apply_profile(yarn, Profile::kHf)).truncate);
  EXPECT_FALSE(std::get<YarnSchedule>(apply_profile(yarn, Profile::kVllm)).truncate);
  EXPECT_TRUE(std::get<YarnSchedule>(apply_profile(yarn, Profile::kVllm, true)).truncate);
  EXPECT_TRUE(std::get<YarnSchedule>(apply_profile(yarn, Profile::kLlamaCpp)).truncate);
}

TEST(Schedule, LongRopeSwitchByProfile) {
  const std::vector<double> ones(32, 1.0);
  const std::vector<double> twos(32, 2.0);
  const LongRopeSchedule s{.short_factor = ones,
                           .long_factor = twos,
                           .original_max_position_embeddings = 4096,
                           .max_position_embeddings = 131072};
  const auto is_long = [&](Profile profile, std::int64_t sequence, std::int64_t context) {
    return at(apply_profile(s, profile), sequence, context).inv_freq[0] == 0.5;
  };
  EXPECT_FALSE(is_long(Profile::kHf, 4096, 131072));
  EXPECT_TRUE(is_long(Profile::kHf, 4097, 131072));
  EXPECT_TRUE(is_long(Profile::kVllm, 10, 10)) << "by the model's maximum";
  EXPECT_TRUE(is_long(Profile::kLlamaCpp, 10, 8192));
  EXPECT_FALSE(is_long(Profile::kLlamaCpp, 10, 4096));
  EXPECT_NEAR(at(s, 1).attention_factor, std::sqrt(1.0 + std::log(32.0) / std::log(4096.0)), 1e-15);
  LongRopeSchedule unknown = s;
  unknown.max_position_embeddings = 0;
  EXPECT_THROW(at(unknown, 1), Error);
  unknown.factor = 4.0;
  EXPECT_NO_THROW(at(unknown, 1));
  EXPECT_THROW(at(apply_profile(unknown, Profile::kVllm), 1), Error) << "no maximum to compare";
}

TEST(Schedule, LlamaCppHasNoDynamicNtk) {
  try {
    apply_profile(DynamicSchedule{}, Profile::kLlamaCpp);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  }
}

TEST(Schedule, LinearIndexIsHarmonic) {
  const auto inv = at(LinearIndexSchedule{}, 1).inv_freq;
  EXPECT_DOUBLE_EQ(inv[0], 1.0);
  EXPECT_DOUBLE_EQ(inv[2], 0.2);
  EXPECT_DOUBLE_EQ(inv[31], 1.0 / 63.0);
}

TEST(Analysis, WavelengthsRotationsAndAmbiguity) {
  const ModelShape shape{.head_dim = 64, .heads = 1};
  const Rotary rotary = make_rotary(Rope{}, shape, {});
  const double longest = 2.0 * M_PI * std::pow(1e4, 62.0 / 64.0);
  EXPECT_NEAR(wavelengths(rotary).back(), longest, 1e-6);
  EXPECT_EQ(max_unambiguous_distance(rotary), static_cast<std::int64_t>(longest));
  EXPECT_NEAR(rotations_at(rotary, 1000)[0], 1000.0 / (2.0 * M_PI), 1e-9);
  const Rotary still =
      make_rotary(Rope{.schedule = ProportionalSchedule{.partial_rotary_factor = 0.01}}, shape, {});
  EXPECT_EQ(max_unambiguous_distance(still), std::nullopt);
  EXPECT_TRUE(std::isinf(wavelengths(still)[0]));
}

TEST(Analysis, DecayCurveIsTheMeanOfPartialSums) {
  const Rotary rotary = make_rotary(Rope{}, {.head_dim = 128, .heads = 1}, {});
  const std::vector<double> curve = decay_curve(rotary, 256);
  ASSERT_EQ(curve.size(), 257u);
  EXPECT_DOUBLE_EQ(curve[0], 65.0 / 2.0) << "the mean of 1 .. 64";
  double near = 0.0;
  double far = 0.0;
  for (std::size_t m = 1; m <= 50; ++m) {
    near += curve[m] / 50.0;
    far += curve[206 + m] / 50.0;
  }
  EXPECT_LT(far, 0.7 * near) << "distant keys are bounded lower";
}

TEST(Analysis, RegimesSayWhereAScheduleInterpolates) {
  const ModelShape shape{.head_dim = 128, .heads = 1};
  using R = PairRegime;
  const auto regimes = [&](const Schedule& s) {
    return pair_regimes(Rope{.schedule = s}, shape, {});
  };
  EXPECT_EQ(regimes(DefaultSchedule{}), std::vector<R>(64, R::kExtrapolates));
  EXPECT_EQ(regimes(LinearSchedule{4.0}), std::vector<R>(64, R::kInterpolates));
  const auto yarn = regimes(YarnSchedule{.factor = 8.0});
  EXPECT_EQ(yarn.front(), R::kExtrapolates);
  EXPECT_EQ(yarn.back(), R::kInterpolates);
  EXPECT_EQ(std::count(yarn.begin(), yarn.end(), R::kBlends), 25);
  const auto part = regimes(ProportionalSchedule{.partial_rotary_factor = 0.25});
  EXPECT_EQ(std::count(part.begin(), part.end(), R::kStill), 48);
}

}  // namespace
}  // namespace posenc
