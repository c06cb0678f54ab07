#include "runs/score_regions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace posenc::runs {
namespace {

TEST(ScoreRegions, TheHeadlineStartsAtTheTrainedLength) {
  const PositionRange beyond = region_range(Region::kHeadline, 64, 128);
  EXPECT_EQ(beyond, (PositionRange{64, 128}));
  EXPECT_FALSE(beyond.holds(63)) << "the last position of training";
  EXPECT_TRUE(beyond.holds(64)) << "the first one beyond it";
  EXPECT_TRUE(beyond.holds(127));
  EXPECT_FALSE(beyond.holds(128));
  EXPECT_EQ(region_range(Region::kHeadline, 64, 65), (PositionRange{64, 65}));
}

TEST(ScoreRegions, RowsThatAreNotLongerCountWhole) {
  EXPECT_EQ(region_range(Region::kHeadline, 64, 64), (PositionRange{0, 64}));
  EXPECT_EQ(region_range(Region::kHeadline, 64, 40), (PositionRange{0, 40}));
  EXPECT_EQ(region_range(Region::kAll, 64, 128), (PositionRange{0, 128}));
}

TEST(ScoreRegions, TheLastEighthIsRoundedUp) {
  EXPECT_EQ(region_range(Region::kLastEighth, 64, 64), (PositionRange{56, 64}));
  EXPECT_EQ(region_range(Region::kLastEighth, 64, 65), (PositionRange{56, 65}));
  EXPECT_EQ(region_range(Region::kLastEighth, 64, 1), (PositionRange{0, 1}));
}

TEST(ScoreRegions, OtherSamplesAreBeyondTrainingAtAnyLength) {
  EXPECT_TRUE(beyond_training(64, 65, false));
  EXPECT_FALSE(beyond_training(64, 64, false));
  EXPECT_TRUE(beyond_training(64, 64, true));
  EXPECT_TRUE(beyond_training(64, 32, true));
}

TEST(BucketEdges, TheTrainedLengthIsAnEdgeOfEveryLongerRow) {
  for (const std::int64_t trained : {1, 2, 7, 31, 64, 100}) {
    for (std::int64_t row = 1; row <= 9 * trained; ++row) {
      const auto edges = bucket_edges(trained, row);
      ASSERT_EQ(edges.front(), 0);
      ASSERT_EQ(edges.back(), row);
      ASSERT_LE(edges.size(), 17U);
      ASSERT_TRUE(std::is_sorted(edges.begin(), edges.end(), std::less_equal<>())) << row;
      if (row > trained) {
        ASSERT_TRUE(std::count(edges.begin(), edges.end(), trained)) << trained << " " << row;
      }
    }
  }
}

TEST(BucketEdges, AreSpreadByLength) {
  EXPECT_EQ(bucket_edges(64, 64).size(), 17U);
  EXPECT_EQ(bucket_edges(64, 64)[1], 4);
  EXPECT_EQ(bucket_edges(64, 512),
            (std::vector<std::int64_t>{0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384,
                                       416, 448, 480, 512}));
  EXPECT_EQ(bucket_edges(4, 3), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(BucketOf, AnEdgeBelongsToTheBucketItOpens) {
  const std::vector<std::int64_t> edges = {0, 32, 64, 96};
  EXPECT_EQ(bucket_of(edges, 0), 0U);
  EXPECT_EQ(bucket_of(edges, 31), 0U);
  EXPECT_EQ(bucket_of(edges, 32), 1U);
  EXPECT_EQ(bucket_of(edges, 63), 1U);
  EXPECT_EQ(bucket_of(edges, 64), 2U) << "the first position beyond a trained length of 64";
  EXPECT_EQ(bucket_of(edges, 95), 2U);
}

}  // namespace
}  // namespace posenc::runs
