// Every encoding and many compositions, under every mask: gradients against central differences.
#include <gtest/gtest.h>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::compare_all_gradients;
using testing::gradients_agree;
using testing::many_specs;
using testing::random_case;

struct Setting {
  const char* name;
  ref::AttentionShape shape;
  ref::AttentionOptions options;
};

ref::AttentionShape shape_of(std::int64_t B, std::int64_t H, std::int64_t Hkv, std::int64_t Tq,
                             std::int64_t Tk) {
  return {.batch = B, .heads = H, .kv_heads = Hkv, .queries = Tq, .keys = Tk, .head_dim = 4};
}

std::vector<Setting> settings() {
  ref::AttentionOptions causal;
  causal.masking.causal = true;
  std::vector<Setting> all = {{"causal", shape_of(1, 2, 2, 6, 6), causal},
                              {"bidirectional", shape_of(1, 2, 2, 5, 5), {}},
                              {"fewer queries", shape_of(1, 2, 2, 2, 6), causal},
                              {"more queries, some without keys", shape_of(1, 2, 2, 5, 3), causal},
                              {"grouped queries", shape_of(1, 4, 1, 4, 4), causal}};

  Setting window{"causal window", shape_of(1, 2, 2, 6, 6), causal};
  window.options.masking.window_left = 2;
  all.push_back(window);

  Setting both_sides{"window on both sides", shape_of(1, 2, 2, 5, 6), {}};
  both_sides.options.masking.window_left = 2;
  both_sides.options.masking.window_right = 1;
  all.push_back(both_sides);

  Setting padding{"padding", shape_of(2, 2, 2, 4, 4), causal};
  padding.options.masking.key_mask = {1, 1, 1, 0, 0, 1, 0, 1};
  all.push_back(padding);

  Setting packed{"packed", shape_of(1, 2, 2, 6, 7), causal};
  packed.options.masking.cu_queries = {0, 2, 2, 6};
  packed.options.masking.cu_keys = {0, 3, 4, 7};
  all.push_back(packed);

  Setting dropout{"dropout", shape_of(2, 2, 2, 5, 5), causal};
  dropout.options.dropout = {.rate = 0.3, .seed = 77};
  all.push_back(dropout);

  Setting positions{"explicit positions and scale", shape_of(1, 2, 2, 3, 4), {}};
  positions.options.scale = 0.7;
  positions.options.positions.query = {2, 9, 4};
  positions.options.positions.key = {0, 3, 1, 11};
  all.push_back(positions);

  Setting everything{"everything at once", shape_of(2, 4, 2, 5, 6), causal};
  everything.options.masking.window_left = 2;
  everything.options.masking.cu_queries = {0, 2, 5};
  everything.options.masking.cu_keys = {0, 2, 6};
  everything.options.masking.key_mask = {1, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1};
  everything.options.dropout = {.rate = 0.2, .seed = 5};
  all.push_back(everything);
  return all;
}

class AttentionGradient : public ::testing::TestWithParam<std::string> {};

TEST_P(AttentionGradient, AgreesWithDifferences) {
  std::uint64_t seed = 1;
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(setting.name);
    AttentionCase problem = random_case(GetParam(), setting.shape, setting.options, ++seed);
    const auto report = compare_all_gradients(problem);
    EXPECT_TRUE(gradients_agree(report)) << GetParam();
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, AttentionGradient, ::testing::ValuesIn(many_specs()),
                         [](const auto& parameter) {
                           return "Spec" + std::to_string(parameter.index);
                         });

TEST(AttentionGradientAxes, LearnedFrequenciesOfTwoAxes) {
  ref::AttentionOptions options;
  options.masking.causal = true;
  options.positions = {
      .axes = 2, .query = {0, 0, 0, 1, 1, 0, 1, 1, 2, 5}, .key = {0, 0, 0, 1, 1, 0, 1, 1, 2, 5}};
  for (const char* axes :
       {"axial(axes=2)", "mrope(sections=[1, 1])", "mrope_interleaved(sections=[1, 1])"}) {
    SCOPED_TRACE(axes);
    const std::string spec = std::string("rope(schedule=learnable, axes=") + axes + ") + alibi";
    AttentionCase problem = random_case(spec, shape_of(1, 2, 2, 5, 5), options, 3);
    const auto report = compare_all_gradients(problem);
    EXPECT_TRUE(gradients_agree(report));
  }
}

}  // namespace
}  // namespace posenc
