// Rotations that follow the length say so, and at_length makes them constant.
#include "posenc/encodings/length.h"

#include <gtest/gtest.h>

#include "posenc/encodings/rotary.h"
#include "support/catalog_specs.h"

namespace posenc {
namespace {

constexpr ModelShape kShape{.head_dim = 8, .heads = 2};
constexpr std::array<std::int64_t, 6> kLengths = {1, 10, 17, 25, 400, 70000};

Rotary rotary_at(const Spec& spec, std::int64_t length) {
  const Encoding& e = spec.encodings.at(0);
  if (const auto* rope = std::get_if<Rope>(&e)) return make_rotary(*rope, kShape, {length});
  return make_rotary(std::get<Xpos>(e), kShape, {length});
}

bool same(const Rotary& a, const Rotary& b) {
  return a.inv_freq == b.inv_freq && a.attention_factor == b.attention_factor &&
         a.softmax_factor == b.softmax_factor && a.center == b.center;
}

TEST(Length, TheTraitIsWhatTheRotationDoes) {
  int follow = 0;
  for (const std::string& text : testing::catalog_specs(Site::kQueryKey, kShape.head_dim)) {
    const Spec spec = parse_spec(text);
    if (!is_rotary(spec.encodings.at(0))) continue;
    bool changes = false;
    for (const std::int64_t length : kLengths) {
      changes |= !same(rotary_at(spec, length), rotary_at(spec, kLengths[0]));
    }
    EXPECT_EQ(follows_length(spec), changes) << text;
    follow += changes ? 1 : 0;
  }
  EXPECT_GE(follow, 4);  // dynamic, longrope by two lengths, xpos
}

TEST(Length, AtALengthTheRotationIsTheSameAndConstant) {
  for (const std::string& text : testing::catalog_specs(Site::kQueryKey, kShape.head_dim)) {
    const Spec spec = parse_spec(text);
    if (!is_rotary(spec.encodings.at(0))) continue;
    for (const std::int64_t length : kLengths) {
      const Spec fixed = parse_spec(to_text(at_length(spec, {length})));
      EXPECT_FALSE(follows_length(fixed)) << to_text(fixed);
      for (const std::int64_t other : kLengths) {
        EXPECT_TRUE(same(rotary_at(fixed, other), rotary_at(spec, length)))
            << text << " at " << length << ", asked at " << other;
      }
      EXPECT_EQ(at_length(fixed, {3}), fixed);
    }
  }
}

TEST(Length, AContextThatIsSetDoesNotFollow) {
  LongRopeSchedule schedule{.short_factor = {1, 1, 1, 1}, .long_factor = {1, 2, 3, 4}};
  schedule.original_max_position_embeddings = 16;
  schedule.switch_by = LongRopeSchedule::SwitchBy::kContext;
  const Schedule longrope = schedule;
  EXPECT_TRUE(follows_length(longrope));
  EXPECT_FALSE(follows_length(longrope, {.sequence = 10, .context = 64}));
  EXPECT_TRUE(follows_length(longrope, {.sequence = 65, .context = 64}));
}

TEST(Length, OnlyOneConstantRotationIsCachedRotated) {
  const auto kept = [](const char* text) {
    const auto rotation = cacheable_rotation(parse_spec(text));
    return rotation ? to_text(Spec{{*rotation}}) : "";
  };
  EXPECT_EQ(kept("rope(theta=100) + alibi"), "rope(theta=100)");
  EXPECT_EQ(kept("xpos(center=3) + cope"), "xpos(center=3)");
  for (const char* text :
       {"none", "alibi + cope", "xpos", "rope + rope(theta=100)", "rope(schedule=learnable)",
        "rope(schedule=dynamic(factor=2, max_position_embeddings=16))"}) {
    EXPECT_EQ(kept(text), "") << text;
  }
}

}  // namespace
}  // namespace posenc
