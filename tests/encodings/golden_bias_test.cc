// T5's buckets and ALiBi's slopes against Hugging Face transformers, to the last bit.
#include <gtest/gtest.h>

#include <cmath>

#include "posenc/encodings/alibi.h"
#include "posenc/encodings/t5.h"
#include "support/golden.h"

namespace posenc {
namespace {

using testing::Json;
using testing::Row;

struct BucketCase {
  const char* name;
  T5 config;
};

TEST(GoldenBias, T5Buckets) {
  const Json golden = testing::load_golden("bias_hf.json").at("t5");
  ASSERT_TRUE(golden.at("relative_position_is_key_minus_query").get<bool>());
  const auto relative = golden.at("rel").get<std::vector<std::int64_t>>();
  ASSERT_EQ(relative.size(), 1201U);
  const std::vector<BucketCase> cases = {
      {"causal_32_128", {.num_buckets = 32, .max_distance = 128, .bidirectional = false}},
      {"bidirectional_32_128", {.num_buckets = 32, .max_distance = 128, .bidirectional = true}},
      {"causal_64_256", {.num_buckets = 64, .max_distance = 256, .bidirectional = false}},
      {"bidirectional_16_64", {.num_buckets = 16, .max_distance = 64, .bidirectional = true}}};
  ASSERT_EQ(golden.size(), cases.size() + 2);
  for (const BucketCase& test_case : cases) {
    const auto want = golden.at(test_case.name).get<std::vector<std::int64_t>>();
    ASSERT_EQ(want.size(), relative.size());
    for (std::size_t i = 0; i < relative.size(); ++i) {
      EXPECT_EQ(t5_bucket(test_case.config, relative[i]), want[i])
          << test_case.name << " at " << relative[i];
    }
  }
}

// Nine digits tell every float32 from its neighbours, so equal floats are equal bits.
TEST(GoldenBias, AlibiSlopes) {
  const Json golden = testing::load_golden("bias_hf.json").at("alibi_slopes");
  EXPECT_EQ(golden.size(), 14U);
  for (const auto& [heads, slopes] : golden.items()) {
    const Row want = slopes.get<Row>();
    const Row exact = alibi_slopes(Alibi{}, std::stoll(heads));
    const Row hf = alibi_slopes(Alibi{.precision = Precision::kHf}, std::stoll(heads));
    ASSERT_EQ(hf.size(), want.size());
    ASSERT_EQ(exact.size(), want.size());
    for (std::size_t h = 0; h < want.size(); ++h) {
      EXPECT_EQ(static_cast<float>(hf[h]), static_cast<float>(want[h]))
          << heads << " heads, head " << h;
      EXPECT_EQ(hf[h], static_cast<double>(static_cast<float>(hf[h])));
    }
  }
}

// Transformers rounds the base to float32, and each power multiplies that error: the last of 64
// slopes is 5e-7 off. The exact slopes are near it, and as near to the truth as a double can be.
TEST(GoldenBias, ExactAlibiSlopes) {
  const Json golden = testing::load_golden("bias_hf.json").at("alibi_slopes");
  for (const auto& [heads, slopes] : golden.items()) {
    const Row exact = alibi_slopes(Alibi{}, std::stoll(heads));
    EXPECT_LE(testing::largest_relative_error(exact, slopes.get<Row>()), 1e-6) << heads;
  }
  for (const std::int64_t heads : {1, 2, 16, 32, 64, 128}) {
    const Row exact = alibi_slopes(Alibi{}, heads);
    for (std::int64_t h = 0; h < heads; ++h) {
      const long double want =
          std::exp2(-8.0L * static_cast<long double>(h + 1) / static_cast<long double>(heads));
      EXPECT_LE(
          testing::relative_error(exact[static_cast<std::size_t>(h)], static_cast<double>(want)),
          4e-16);
    }
  }
}

}  // namespace
}  // namespace posenc
