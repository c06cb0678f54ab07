// Walks on rings and tori.
#include "tasks/navigation.h"

#include <gtest/gtest.h>

#include <set>

#include "posenc/core/error.h"
#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

TEST(NavigationRows, HaveThePublishedLengths) {
  const auto task = make_task(Navigation{});
  EXPECT_EQ(task->info().length, 256);
  EXPECT_EQ(task->natural_length("train", 256), 256);
  EXPECT_EQ(task->natural_length("dense", 256), 128);
  EXPECT_EQ(task->natural_length("sparse", 256), 512);
  EXPECT_EQ(task->natural_length("dense", 10), 6) << "three steps at least";
  EXPECT_THROW(make_batch(*task, {"train", 63}, 1, 0, 1), Error);
}

// A walk that never turns comes back to a place after as many steps as the ring has places.
TEST(NavigationRows, GoRoundARingOfTheAxisSize) {
  const Navigation config{.dimensions = 1,
                          .max_run = 1000,
                          .grid = 9,
                          .empty = 0.1,
                          .dense_grid = 6,
                          .sparse_grid = 14,
                          .sparse_empty = 0.3};
  const auto task = make_task(config);
  for (const auto& [axis, side] :
       {std::pair{"train", 9}, {"longer", 9}, {"dense", 6}, {"sparse", 14}}) {
    const Batch batch = make_batch(*task, {axis, 80, 80}, 1, 0, 40);
    int straight = 0;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const Words words = row_words(*task, batch, row);
      if (std::count(words.begin(), words.end(), words[0]) != 40) continue;
      ++straight;
      for (std::int64_t t = 0; t < 80; t += 2) {
        const std::string& seen = words[static_cast<std::size_t>(t) + 1];
        const bool scored = batch.targets[place(batch, row, t)] != kUnscored;
        EXPECT_EQ(scored, t >= 2 * side && seen != ".") << axis << " " << t;
        if (t < 2 * side) continue;
        EXPECT_EQ(seen, words[static_cast<std::size_t>(t - 2 * side) + 1]);
      }
    }
    EXPECT_GT(straight, 20) << axis;
  }
}

TEST(NavigationRows, LeaveAsManyPlacesEmptyAsTheAxisSays) {
  const auto task = make_task(Navigation{.max_run = 1000, .sparse_grid = 1000});
  for (const auto& [axis, empty] : {std::pair{"train", 0.5}, {"dense", 0.2}, {"sparse", 0.8}}) {
    const Batch batch = make_batch(*task, {axis, 512, 512}, 1, 0, 300);
    std::int64_t first = 0;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      first += row_words(*task, batch, row)[1] == "." ? 1 : 0;  // no place comes before it
    }
    EXPECT_NEAR(share(first, 300), empty, 0.1) << axis;
  }
}

TEST(NavigationRows, KeepADirectionForAFewSteps) {
  const auto task = make_task(Navigation{});
  const Batch batch = make_batch(*task, {"train", 256}, 1, 0, 400);
  std::int64_t turns = 0;
  std::set<std::string> actions;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const Words words = row_words(*task, batch, row);
    for (std::size_t t = 0; t < words.size(); t += 2) {
      actions.insert(words[t]);
      turns += t > 0 && words[t] != words[t - 2] ? 1 : 0;
    }
  }
  EXPECT_EQ(actions, (std::set<std::string>{"<", ">", "^", "v"}));
  // A run has 5.5 steps on average, and the next one has another direction in three of four cases.
  EXPECT_NEAR(share(turns, 400 * 127), 0.75 / 5.5, 0.01);
}

}  // namespace
}  // namespace posenc::tasks
