#include <gtest/gtest.h>

TEST(Wiring, Runs) { EXPECT_EQ(1 + 1, 2); }
