#include "core/strings.h"

#include <gtest/gtest.h>

namespace posenc {
namespace {

using Parts = std::vector<std::string_view>;

TEST(Strings, Fnv1aHasThePublishedValues) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
}

TEST(Strings, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,b", ','), (Parts{"a", "b"}));
  EXPECT_EQ(split(",a,,b,", ','), (Parts{"", "a", "", "b", ""}));
  EXPECT_EQ(split("", ','), Parts{""});
}

TEST(Strings, ANewlineAtTheEndBeginsNoLine) {
  EXPECT_EQ(split_lines("a\nb"), (Parts{"a", "b"}));
  EXPECT_EQ(split_lines("a\n\nb\n"), (Parts{"a", "", "b"}));
  EXPECT_EQ(split_lines("a\n\n"), (Parts{"a", ""}));
  EXPECT_EQ(split_lines(""), Parts{});
  EXPECT_EQ(split_lines("\n"), Parts{});
}

}  // namespace
}  // namespace posenc
