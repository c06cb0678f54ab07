#include "core/bind.h"

#include <gtest/gtest.h>

namespace posenc {
namespace {

enum class Colour { kRed, kGreen };
constexpr std::array<std::string_view, 2> enum_names(Colour /*tag*/) { return {"red", "green"}; }

struct InnerTraits {
  std::string_view name = "inner";
};

struct Inner {
  static constexpr InnerTraits kTraits{};
  double depth = 1.0;
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("depth", self.depth, FieldRule{.doc = "how deep", .min = 0, .open_min = true});
  }
  bool operator==(const Inner&) const = default;
};

struct Sample {
  bool flag = false;
  std::int64_t count = 4;
  double ratio = 0.5;
  std::optional<double> maybe;
  std::vector<double> list = {1.0};
  std::vector<std::int64_t> sections;
  Colour colour = Colour::kRed;
  std::variant<Inner> inner;
  std::string word = "x";
  double needed = 0.0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("flag", self.flag, FieldRule{.doc = "a flag"});
    visit("count", self.count, FieldRule{.doc = "a count", .min = 0, .max = 10, .even = true});
    visit("ratio", self.ratio, FieldRule{.doc = "a ratio", .min = 0, .max = 1, .open_min = true});
    visit("maybe", self.maybe, FieldRule{.doc = "or nothing"});
    visit("list", self.list, FieldRule{.doc = "one or more", .min = 0});
    visit("sections", self.sections, FieldRule{.doc = "whole numbers"});
    visit("colour", self.colour, FieldRule{.doc = "a name"});
    visit("inner", self.inner, FieldRule{.doc = "a config"});
    visit("word", self.word, FieldRule{.doc = "text"});
    visit("needed", self.needed, FieldRule{.doc = "has no default", .required = true});
  }
  bool operator==(const Sample&) const = default;
};

Sample read(const char* json) { return bind_config<Sample>(parse_json(json, "sample"), "sample"); }

TEST(Bind, ReadsEveryKindOfField) {
  const Sample s = read(R"({"flag": true, "count": 6, "ratio": 1, "maybe": 2.5, "list": [1, 2],
      "sections": [3, 4], "colour": "green", "inner": {"inner": {"depth": 3}}, "word": "y",
      "needed": 7})");
  EXPECT_TRUE(s.flag);
  EXPECT_EQ(s.count, 6);
  EXPECT_EQ(s.ratio, 1.0);
  EXPECT_EQ(s.maybe, 2.5);
  EXPECT_EQ(s.list, (std::vector<double>{1, 2}));
  EXPECT_EQ(s.sections, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(s.colour, Colour::kGreen);
  EXPECT_EQ(std::get<Inner>(s.inner).depth, 3.0);
  EXPECT_EQ(s.word, "y");
  EXPECT_EQ(s.needed, 7.0);
}

TEST(Bind, WritesOnlyWhatDiffersAndReadsItBack) {
  Sample s = read(R"({"needed": 1})");
  EXPECT_EQ(to_json(config_arguments(s)), R"({"needed":1})");
  s.list = {3.25};
  s.colour = Colour::kGreen;
  s.maybe = 0.1;
  const Value written = config_arguments(s);
  EXPECT_EQ(to_json(written), R"({"maybe":0.1,"list":3.25,"colour":"green","needed":1})");
  EXPECT_EQ(bind_config<Sample>(written, "sample"), s);
}

TEST(Bind, DescribesFromTheSameList) {
  const std::vector<FieldDoc> docs = describe_fields<Sample>();
  ASSERT_EQ(docs.size(), 10u);
  EXPECT_EQ(docs[1].range, "in [0, 10] and even");
  EXPECT_EQ(docs[2].range, "in (0, 1]");
  EXPECT_EQ(docs[6].type, "one of red, green");
  EXPECT_EQ(docs[6].default_value, "red");
  EXPECT_EQ(docs[9].default_value, "required");
}

struct Wrong {
  const char* json;
  ErrorKind kind;
  const char* message;
};

TEST(Bind, ErrorsNameKeyRuleAndValue) {
  const Wrong cases[] = {
      {R"({})", ErrorKind::kMissingKey, "[sample] needed is required; add it"},
      {R"({"needed": 1, "cuont": 2})", ErrorKind::kUnknownKey,
       "[sample] cuont is not a known key; did you mean 'count'?"},
      {R"({"needed": 1, "zzzzzzzz": 2})", ErrorKind::kUnknownKey,
       "[sample] zzzzzzzz is not a known key; known: flag, count, ratio, maybe, list, sections, "
       "colour, "
       "inner, word, needed"},
      {R"({"needed": 1, "count": 3})", ErrorKind::kOutOfRange,
       "[sample] count must be even but got 3"},
      {R"({"needed": 1, "count": 12})", ErrorKind::kOutOfRange,
       "[sample] count must be in [0, 10] and even but got 12"},
      {R"({"needed": 1, "count": 2.5})", ErrorKind::kWrongType,
       "[sample] count must be an integer but got 2.5"},
      {R"({"needed": 1, "ratio": 0})", ErrorKind::kOutOfRange,
       "[sample] ratio must be in (0, 1] but got 0"},
      {R"({"needed": "x"})", ErrorKind::kWrongType, "[sample] needed must be a number but got 'x'"},
      {R"({"needed": null})", ErrorKind::kWrongType,
       "[sample] needed must be a number but got null"},
      {R"({"needed": 1, "flag": 1})", ErrorKind::kWrongType,
       "[sample] flag must be true or false but got 1"},
      {R"({"needed": 1, "list": [1, -2]})", ErrorKind::kOutOfRange,
       "[sample] list[1] must be >= 0 but got -2"},
      {R"({"needed": 1, "list": []})", ErrorKind::kWrongLength,
       "[sample] list must have at least one entry but got a list of 0"},
      {R"({"needed": 1, "colour": "gren"})", ErrorKind::kUnknownKey,
       "[sample] colour must be a known name but got 'gren'; did you mean 'green'?"},
      {R"({"needed": 1, "inner": {"inner": {"depth": 0}}})", ErrorKind::kOutOfRange,
       "[inner] depth must be > 0 but got 0"},
      {R"([1])", ErrorKind::kWrongType, "[sample] takes named arguments but got a list of 1"},
  };
  for (const Wrong& c : cases) {
    try {
      read(c.json);
      ADD_FAILURE() << c.json;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), c.kind) << c.json;
      EXPECT_STREQ(error.what(), c.message);
    }
  }
}

}  // namespace
}  // namespace posenc
