#include "serve/request.h"

#include <gtest/gtest.h>

#include <random>

#include "core/plain_text.h"
#include "posenc/core/error.h"
#include "support/sanitizers.h"

namespace posenc::serve {
namespace {

bool accepted(const std::string& target) {
  try {
    parse_target(target);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.scope(), "request");
    return false;
  }
}

TEST(ServeRequest, TargetsAreTakenApart) {
  const Target target = parse_target("/api/runs/a%20b/metrics?from=12&x=%26");
  EXPECT_EQ(target.segments, (std::vector<std::string>{"api", "runs", "a b", "metrics"}));
  EXPECT_FALSE(target.folder);
  ASSERT_EQ(target.query.size(), 2U);
  EXPECT_EQ(target.query[0], std::make_pair(std::string("from"), std::string("12")));
  EXPECT_EQ(target.query[1].second, "&");
  EXPECT_TRUE(parse_target("/").folder);
  EXPECT_TRUE(parse_target("/?x=1").segments.empty());
  EXPECT_TRUE(parse_target("/live/").folder);
  EXPECT_EQ(parse_target("/%C3%A4/x").segments.front(), "\xc3\xa4");
}

TEST(ServeRequest, PathTricksAreRefused) {
  for (const char* target : {
           "",
           "x",
           "*",
           "http://localhost/",
           "//",
           "//etc/passwd",
           "/a//b",
           "/a///",
           "/.",
           "/..",
           "/../a",
           "/a/..",
           "/a/../b",
           "/a/./b",
           "/.git/config",
           "/a/.lock",
           "/%2e%2e/a",
           "/%2E%2E/%2e%2e/etc/passwd",
           "/.%2e/a",
           "/%2e./a",
           "/a%2fb",
           "/a%2Fb",
           "/%2fetc",
           "/a%5cb",
           "/a\\b",
           "/..%5c..%5c",
           "/a%00",
           "/%00",
           "/a%00.html",
           "/a%0a",
           "/a%7f",
           "/%",
           "/%2",
           "/%zz",
           "/a%-1",
           "/%c0%ae%c0%ae/a",
           "/%c0%af",
           "/%e0%80%af",
           "/%ff",
           "/%ed%a0%80",
           "/%f4%90%80%80",
           "/a b",
           "/a\tb",
           "/a\x80",
           "/?a=%",
           "/?=x",
           "/?&",
           "/?a=%ff",
           "/a#b/%2e",
           "/%252e%252e/%2e",
       }) {
    EXPECT_FALSE(accepted(target)) << target;
  }
  EXPECT_FALSE(accepted(std::string("/a\0b", 4)));
  EXPECT_FALSE(accepted("/" + std::string(kLongestTarget, 'a')));
  EXPECT_FALSE(accepted("/" + std::string(256, 'a')));
  std::string deep;
  for (int i = 0; i < 33; ++i) deep += "/a";
  EXPECT_FALSE(accepted(deep));
  EXPECT_TRUE(accepted(deep.substr(2)));
  // Decoded once: the name of this file has percent signs in it, and nothing more.
  EXPECT_EQ(parse_target("/%252e%252e").segments.front(), "%2e%2e");
}

TEST(ServeRequest, RandomTargetsGiveNamesOrErrors) {
  std::mt19937_64 random(7);
  const std::string pieces = "/.%2efF05c?&=ab\\\x01\xff\xc3";
  int fine = 0;
  constexpr int kTargets = testing::kSanitized ? 20000 : 200000;
  for (int i = 0; i < kTargets; ++i) {
    std::string target = "/";
    for (std::size_t n = random() % 12; n > 0; --n) target += pieces[random() % pieces.size()];
    try {
      for (const std::string& name : parse_target(target).segments) {
        ASSERT_FALSE(name.empty());
        ASSERT_NE(name.front(), '.') << target;
        ASSERT_EQ(name.find_first_of(std::string("/\\\0", 3)), std::string::npos) << target;
        ASSERT_TRUE(is_utf8(name));
      }
      ++fine;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(fine, kTargets / 200);
  EXPECT_LT(fine, kTargets - kTargets / 200);
}

TEST(ServeRequest, OnlyThisMachinesNamesAreHosts) {
  for (const char* host : {"localhost", "LocalHost", "127.0.0.1", "[::1]", "localhost:8080",
                           "127.0.0.1:1", "[::1]:65535"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host :
       {"", "example.org", "localhost.example.org", "127.0.0.1.example.org", "127.0.0.2",
        "localhost:", "localhost:x", "localhost:123456", "localhost@example.org", "localhost:1@a",
        "localhost,example.org", "::1", "[::1", "[::1]x", " localhost", "localhost.", "0.0.0.0"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

TEST(ServeRequest, EncodingIsUndoneByDecoding) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(percent_decoded(percent_encoded(all)), all);
  EXPECT_EQ(percent_encoded("a b/%"), "a%20b%2F%25");
}

std::string number_error(const std::string& query) {
  try {
    read_numbers(parse_target("/?" + query), {{"sample", 0, 9}, {"length", 2, 64}});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ServeRequest, NumbersOfAQuery) {
  const auto numbers =
      read_numbers(parse_target("/?length=64&sample=0"), {{"sample", 0, 9}, {"length", 2, 64}});
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{0, 64}));
  EXPECT_EQ(number_error("sample=1"), "[request] 'length' is missing");
  EXPECT_EQ(number_error("sample=1&length=8&more=1"),
            "[request] 'more' is unsupported; this request reads sample, length");
  EXPECT_EQ(number_error("sample=1&sample=1&length=8"), "[request] 'sample' is given twice");
  for (const char* bad : {"", "-1", "10", "1.5", "+1", "0x1", "1e0", "1%20", "99999999999999999999",
                          "nan", "1;rm", "$(id)"}) {
    EXPECT_EQ(number_error(std::string("length=8&sample=") + bad)
                  .rfind("[request] 'sample' must be "
                         "a whole number in [0, 9]",
                         0),
              0U)
        << bad;
  }
}

}  // namespace
}  // namespace posenc::serve
