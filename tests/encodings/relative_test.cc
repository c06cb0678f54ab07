// Which entry of its table the learned relative bias reads.
#include "posenc/encodings/relative.h"

#include <gtest/gtest.h>

namespace posenc {
namespace {

// Two heads, entries 0, 1, ... of the first and 100, 101, ... of the second.
Parameters numbered(std::size_t entries) {
  Parameters table = {std::vector<double>(2 * entries)};
  for (std::size_t n = 0; n < entries; ++n) {
    table[0][n] = static_cast<double>(n);
    table[0][entries + n] = 100.0 + static_cast<double>(n);
  }
  return table;
}

TEST(Relative, OneSidedEntriesAreDistancesToThePast) {
  const Relative config{.max_distance = 3};
  const Parameters table = numbered(4);
  EXPECT_EQ(bias(config, table, 0, 7, 7), 0.0);
  EXPECT_EQ(bias(config, table, 0, 7, 5), 2.0);
  EXPECT_EQ(bias(config, table, 1, 7, 4), 103.0);
  EXPECT_EQ(bias(config, table, 1, 9, 4), 103.0) << "beyond max_distance";
  EXPECT_EQ(bias(config, table, 0, 4, 9), 0.0) << "the future";
}

TEST(Relative, TwoSidedEntriesStartAtTheFarFuture) {
  const Relative config{.max_distance = 3, .bidirectional = true};
  const Parameters table = numbered(7);
  EXPECT_EQ(bias(config, table, 0, 4, 9), 0.0);
  EXPECT_EQ(bias(config, table, 0, 7, 8), 2.0);
  EXPECT_EQ(bias(config, table, 1, 7, 7), 103.0);
  EXPECT_EQ(bias(config, table, 0, 9, 7), 5.0);
  EXPECT_EQ(bias(config, table, 0, 9, 1), 6.0);
}

}  // namespace
}  // namespace posenc
