#include "core/value.h"

#include <gtest/gtest.h>

#include <functional>

namespace posenc {
namespace {

ErrorKind kind_of(const std::function<void()>& action, std::string* message = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::kIo;
}

TEST(Value, JsonAndYamlReadTheSameTree) {
  const Value json = parse_json(R"({"a": 1, "b": [1.5, true, null, "x"], "c": {"d": -7}})", "t");
  const Value yaml = parse_yaml("a: 1\nb: [1.5, true, null, x]\nc:\n  d: -7\n", "t");
  EXPECT_EQ(json, yaml);
  EXPECT_EQ(parse_json(to_json(json), "t"), json);
  EXPECT_EQ(parse_yaml(to_yaml(json), "t"), json);
}

TEST(Value, NumbersPrintShortestAndReadBack) {
  for (const double x : {0.1, 1.0 / 3.0, 1e300, 5e-324, 123456789.0, -2.5}) {
    EXPECT_EQ(std::strtod(number_text(x).c_str(), nullptr), x);
  }
  EXPECT_EQ(number_text(0.1), "0.1");
  for (const char* yaml : {"-0.0\n", ".nan\n", ".inf\n", "-.inf\n", "1e+300\n"}) {
    const Value read = parse_yaml(yaml, "t");
    EXPECT_NE(read.get_if<double>(), nullptr) << yaml;
    EXPECT_EQ(to_yaml(read), yaml);
  }
}

TEST(Value, QuotedYamlScalarsStayWords) {
  const Value quoted = parse_yaml("a: \"12\"\n", "t");
  EXPECT_NE(quoted.find("a")->get_if<std::string>(), nullptr);
  EXPECT_EQ(parse_yaml(to_yaml(quoted), "t"), quoted);
}

TEST(Value, YamlKnowsWhereThingsStand) {
  const Value map = parse_yaml("a: 1\nbcd:\n  e: 2\n", "t");
  EXPECT_EQ(map.find("bcd")->find("e")->mark().line, 3);
  EXPECT_EQ(map.find("bcd")->find("e")->mark().column, 6);
}

struct Refused {
  const char* text;
  ErrorKind kind;
  const char* says;
};

TEST(Value, YamlRefusesWhatItWouldMisread) {
  const Refused cases[] = {
      {"a: 1\na: 2\n", ErrorKind::kConflict, "a is given twice (line 2"},
      {"<<: {a: 1}\n", ErrorKind::kSyntax, "merge key"},
      {"a: &x 1\nb: *x\n", ErrorKind::kSyntax, "alias"},
      {"a: 1\n---\nb: 2\n", ErrorKind::kSyntax, "one YAML document"},
      {"a: [1\n", ErrorKind::kSyntax, "is not YAML"},
      {"", ErrorKind::kSyntax, "is empty"},
      {"? [1]\n: 2\n", ErrorKind::kSyntax, "not a word"},
      {"a: \xfb\n", ErrorKind::kSyntax, "is not UTF-8 at byte 4 (0xfb)"},
      {"a: 1\n\x04", ErrorKind::kSyntax, "has a control character at byte 6 (0x04); remove it"},
      {"a: \x7f\n", ErrorKind::kSyntax, "control character"},
      {"a: 1\r\rb: 2\n", ErrorKind::kSyntax, "at byte 5 (0x0d); end lines with a line feed"},
  };
  for (const Refused& c : cases) {
    std::string message;
    EXPECT_EQ(kind_of([&] { parse_yaml(c.text, "t"); }, &message), c.kind) << c.text;
    EXPECT_NE(message.find(c.says), std::string::npos) << message;
  }
}

TEST(Value, YamlEscapesControlCharacters) {
  const Value tree = parse_yaml("\"k\\r\": \"\\x01 text\\r\"\n", "t");
  ASSERT_NE(tree.find("k\r"), nullptr);
  const Value again = parse_yaml(to_yaml(tree), "t");
  ASSERT_NE(again.find("k\r"), nullptr);
  EXPECT_EQ(*again.find("k\r")->get_if<std::string>(), "\x01 text\r");
  EXPECT_NE(parse_yaml("a: 1\r\nb: 2\r\n", "t").find("b"), nullptr) << "lines may end in CR LF";
}

TEST(Value, YamlKeysHaveAtMost200Bytes) {
  std::string escaped;  // the longest text that a writer makes of a key
  for (int i = 0; i < 200; ++i) escaped += "\\x01";
  const std::string key(200, 'k');
  const std::string yaml = to_yaml(parse_yaml("\"" + escaped + "\": 1\n", "t"));
  EXPECT_EQ(to_yaml(parse_yaml(yaml, "t")), yaml);
  std::string message;
  kind_of([&] { parse_yaml(key + "k: 1\n", "t"); }, &message);
  EXPECT_NE(message.find("has a key of 201 bytes (line 1"), std::string::npos) << message;
}

TEST(Value, JsonRefusesAndNamesTheKey) {
  const Refused cases[] = {
      {R"({"a": {"b": NaN}})", ErrorKind::kNotFinite, "a.b must be a finite number"},
      {R"({"a": {"b": Infinity}})", ErrorKind::kNotFinite, "a.b must be a finite number"},
      {R"({"a": -Infinity})", ErrorKind::kNotFinite, "a must be a finite number"},
      {R"({"a": 1e999})", ErrorKind::kNotFinite, "a must be a finite number"},
      {R"({"a": 1, "a": 2})", ErrorKind::kConflict, "a is given twice"},
      {R"({"a": 1)", ErrorKind::kSyntax, "is not JSON"},
      {"", ErrorKind::kSyntax, "is not JSON"},
      {"\xff\xfe", ErrorKind::kSyntax, "is not JSON"},
  };
  for (const Refused& c : cases) {
    std::string message;
    EXPECT_EQ(kind_of([&] { parse_json(c.text, "t"); }, &message), c.kind) << c.text;
    EXPECT_NE(message.find(c.says), std::string::npos) << message;
  }
}

TEST(Value, DeepNestingIsRefusedNotOverflowed) {
  const std::string open(100000, '[');
  EXPECT_EQ(kind_of([&] { parse_json(open, "t"); }), ErrorKind::kSyntax);
  EXPECT_EQ(kind_of([&] { parse_yaml(open, "t"); }), ErrorKind::kSyntax);
}

TEST(Value, FilesThatCannotBeReadSaySo) {
  std::string message;
  EXPECT_EQ(kind_of([] { read_file("/nonexistent/config.json"); }, &message), ErrorKind::kIo);
  EXPECT_NE(message.find("/nonexistent/config.json"), std::string::npos);
  EXPECT_EQ(kind_of([] { read_file("/"); }, &message), ErrorKind::kIo);
  EXPECT_NE(message.find("directory"), std::string::npos);
}

}  // namespace
}  // namespace posenc
