// Text of others in messages and on terminals.
#include "core/plain_text.h"

#include <gtest/gtest.h>

#include <string>

#include "core/value.h"
#include "posenc/core/error.h"
#include "posenc/core/status.h"

namespace posenc {
namespace {

// Every character that a terminal obeys or that turns the direction of text.
const std::string kHostile =
    "\x1b[2J\x07\x7f\u0085\u009b\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068"
    "\u2069\u2028\r";

TEST(PlainText, HidesWhatATerminalObeys) {
  EXPECT_EQ(printable("a" + kHostile + "b"), "a?[2J" + std::string(18, '?') + "b");
  EXPECT_EQ(printable("r\u00f4pe \u4f4d\u7f6e \U0001f600\n\tx"),
            "r\u00f4pe \u4f4d\u7f6e \U0001f600\n\tx");
  EXPECT_EQ(one_line("a\nb\tc\r\n"), "a b c  ");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a?b");
}

TEST(PlainText, BytesThatAreNotUtf8AreReplaced) {
  for (const std::string bad : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_FALSE(is_utf8(bad));
    EXPECT_EQ(printable("a" + bad + "b"), "a" + std::string(bad.size(), '?') + "b");
  }
  EXPECT_TRUE(is_utf8("r\u00f4pe\U0010ffff"));
  EXPECT_EQ(character_count("r\u00f4pe\xff"), 5U);
}

TEST(PlainText, JsonKeepsWhatItSays) {
  const std::string json = "{\"name\":\"a\u202eb\u009b\",\"x\":\"\u00e9\"}";
  EXPECT_EQ(printable_json(json), "{\"name\":\"a\\u202eb\\u009b\",\"x\":\"\u00e9\"}");
  EXPECT_EQ(parse_json(printable_json(json), "j"), parse_json(json, "j"));
}

TEST(PlainText, IsCutBetweenCharacters) {
  const std::string text = "\u00e9\u00e9\u00e9\u00e9\u00e9";  // ten bytes
  EXPECT_EQ(shortened(text, 10), text);
  EXPECT_EQ(shortened(text, 9), "\u00e9\u00e9\u00e9...");
  EXPECT_EQ(shortened(text, 8), "\u00e9\u00e9...");
  for (std::size_t longest = 3; longest < 10; ++longest) {
    EXPECT_TRUE(is_utf8(shortened(text, longest))) << longest;
    EXPECT_LE(shortened(text, longest).size(), longest);
  }
  EXPECT_EQ(describe(Value::of_string(std::string(56, 'a') + "\u00e9\u00e9\u00e9")),
            "'" + std::string(56, 'a') + "...'");
}

// A buffer of a fixed size ends where it ends: never within a character.
TEST(PlainText, StatusEndsWithAWholeCharacter) {
  for (int before = 190; before < 200; ++before) {
    const std::string text =
        std::string(static_cast<std::size_t>(before), 'a') + "\U0001f600\u00e9";
    const Status given(StatusCode::kInvalidArgument, text.c_str());
    const Status made = Status::format(StatusCode::kInvalidArgument, "%s", text.c_str());
    EXPECT_TRUE(is_utf8(given.message())) << before;
    EXPECT_STREQ(given.message(), made.message());
    EXPECT_EQ(text.compare(0, std::string(given.message()).size(), given.message()), 0);
  }
  EXPECT_STREQ(Status(StatusCode::kOutOfRange, "a\xff\xc3(b").message(),
               "a?"
               "?(b");
}

TEST(PlainText, AnErrorIsOneLineOfUtf8WhateverTheValue) {
  const Error error(ErrorKind::kOutOfRange, {.scope = "f\nile",
                                             .key = "na\x1bme",
                                             .rule = "must be\u202e plain",
                                             .value = "'\xff\xfe'",
                                             .hint = "x"});
  EXPECT_STREQ(error.what(),
               "[f ile] na?me must be? plain but got '?"
               "?'; x");
}

}  // namespace
}  // namespace posenc
