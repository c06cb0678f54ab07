// Factors of queries by their position: the published values, where they are nothing, and their gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::causal;
using testing::largest_difference;
using testing::random_case;

const ref::AttentionShape kShape{
    .batch = 2, .heads = 4, .kv_heads = 2, .queries = 9, .keys = 9, .head_dim = 4};

double factor_at(const char* spec, double position) {
  return std::get<Temperature>(parse_spec(spec).encodings[0]).factor(position);
}

TEST(Temperature, FactorsArePublishedOnes) {
  EXPECT_EQ(factor_at("temperature", 8190), 1.0);  // Llama 4: nothing before 8,192 tokens
  EXPECT_DOUBLE_EQ(factor_at("temperature", 8191), 1.0 + 0.1 * std::log(2.0));
  EXPECT_DOUBLE_EQ(factor_at("temperature", 3 * 8192 - 1), 1.0 + 0.1 * std::log(4.0));
  EXPECT_EQ(factor_at("temperature(offset=0)", 8191), 1.0);  // Ministral 3
  EXPECT_DOUBLE_EQ(factor_at("temperature(offset=0)", 8192), 1.0 + 0.1 * std::log(2.0));
  EXPECT_EQ(factor_at("temperature(kind=ssmax, offset=0)", 0), 0.0);
  EXPECT_EQ(factor_at("temperature(kind=log, floor=100)", 50), 1.0);
  EXPECT_DOUBLE_EQ(factor_at("temperature(kind=log, floor=100, scale=2)", 299),
                   1.0 + 2.0 * std::log(3.0));
  EXPECT_DOUBLE_EQ(factor_at("temperature(kind=ssmax)", 1023), std::log(1024.0));
  EXPECT_EQ(factor_at("temperature(kind=ssmax)", -5), 0.0);  // as at position 0
}

TEST(Temperature, BelowItsFloorIsNone) {
  const AttentionCase warm = random_case("rope + temperature", kShape, causal(), 1);
  AttentionCase plain = warm;
  plain.spec = parse_spec("rope");
  plain.parameters = {{}};
  EXPECT_EQ(warm.forward().out, plain.forward().out);
}

// Only queries are scaled: the same as scaled queries, before a rotation or after it.
TEST(Temperature, MultipliesQueries) {
  const AttentionCase warm = random_case("temperature(kind=ssmax) + rope", kShape, causal(), 2);
  AttentionCase plain = warm;
  plain.spec = parse_spec("rope");
  plain.parameters = {{}};
  for (std::size_t n = 0; n < plain.q.size(); ++n) {
    const std::size_t token = n / 4 % 9;
    const std::size_t head = n / 36 % 4;
    plain.q[n] *= warm.parameters[0][0][head] * std::log(static_cast<double>(token + 1));
  }
  EXPECT_LE(largest_difference(warm.forward().out, plain.forward().out), 1e-13);
}

TEST(Temperature, KeysOfACacheAreThoseWithoutIt) {
  const auto rotation = cacheable_rotation(parse_spec("rope + temperature"));
  ASSERT_TRUE(rotation.has_value());
  EXPECT_EQ(*rotation, parse_spec("rope").encodings[0]);
}

TEST(Temperature, GradientsMatchDifferences) {
  for (const ref::AttentionOptions& options : testing::causal_settings()) {
    for (const char* spec :
         {"temperature(kind=step, floor=2)", "rope(schedule=learnable) + temperature(kind=ssmax)",
          "temperature(kind=ssmax) + temperature(kind=ssmax) + cope(npos_max=3)"}) {
      AttentionCase problem = random_case(spec, kShape, options, 3);
      const auto report = testing::compare_all_gradients(problem);
      EXPECT_EQ(report.wrong, 0) << spec << " " << report.first_wrong;
    }
  }
}

}  // namespace
}  // namespace posenc
