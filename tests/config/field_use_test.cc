#include "config/field_use.h"

#include <gtest/gtest.h>

#include "config/load.h"

namespace posenc::config {
namespace {

using Names = std::vector<std::string>;

Names unread(const std::vector<std::string>& settings) {
  return unread_fields(parse_config("task: flip_flop\n", "config", settings).tree);
}

TEST(UnreadFields, FollowTheFieldsThatTheyDependOn) {
  EXPECT_EQ(unread({}),
            (Names{"model.linear_form", "train.momentum", "train.position_range", "train.chunks"}));
  EXPECT_EQ(unread({"model.attention=linear", "train.optimizer=sgd", "train.schedule=constant",
                    "train.positions=shift", "train.position_range=128",
                    "train.stages=[{length: 8, batch: 4, steps: 2}]"}),
            (Names{"model.qk_norm", "model.window", "model.score_scaling",
                   "model.attention_dropout", "train.length", "train.batch", "train.steps",
                   "train.min_lr", "train.beta1", "train.beta2", "train.epsilon", "train.chunks"}));
}

TEST(UnreadFields, ATreeWithoutTheOtherFieldHasNone) {
  EXPECT_EQ(unread_fields(parse_yaml("model: {linear_form: elu}\n", "config")), Names{});
}

}  // namespace
}  // namespace posenc::config
