// Headers that lie, one test per lie, and headers that must be taken.
#include "weights/header.h"

#include <gtest/gtest.h>

#include "posenc/core/error.h"
#include "support/checkpoint_case.h"

namespace posenc::weights {
namespace {

using testing::raw_safetensors;

// The error's text, or "" when the file is taken.
std::string refusal(const std::string& file) {
  try {
    const std::uint64_t length = header_length(file.substr(0, 8), file.size(), "f");
    parse_header(std::string_view(file).substr(8, length), file.size() - 8 - length, "f");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const std::string& json, std::size_t data) {
  return refusal(raw_safetensors(json, std::string(data, 'x')));
}

// One tensor "a" with these fields.
std::string entry(const std::string& fields) { return R"({"a":{)" + fields + "}}"; }

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Header, ReadsTensorsInTheOrderOfTheirBytes) {
  const Header header = parse_header(
      R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},
          "__metadata__":{"format":"pt","k":"v"},
          "a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},
          "empty":{"dtype":"I64","shape":[4,0],"data_offsets":[26,26]}}   )",
      26, "f");
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0], (TensorInfo{{"a", ElementType::kBf16, {}}, 0, 2}));
  EXPECT_EQ(header.tensors[1], (TensorInfo{{"b", ElementType::kF32, {2, 3}}, 2, 26}));
  EXPECT_EQ(header.tensors[2], (TensorInfo{{"empty", ElementType::kI64, {4, 0}}, 26, 26}));
  EXPECT_EQ(header.metadata, (Metadata{{"format", "pt"}, {"k", "v"}}));
}

TEST(Header, WhatIsWrittenReadsBackAndIsAligned) {
  Header header;
  header.tensors = place({{"a \" \\ \u00e9 \n", ElementType::kF8E4M3, {3}},
                          {"b", ElementType::kF4, {2, 3}},
                          {"c", ElementType::kF64, {}}},
                         "f");
  header.metadata = {{"z", "1"}, {"a", "{\"x\": [1]}"}};
  const std::string bytes = header_bytes(header, "f");
  EXPECT_EQ(bytes.size() % 8, 0u);
  const std::uint64_t length = header_length(bytes, bytes.size() + 14, "f");
  EXPECT_EQ(length, bytes.size() - 8);
  EXPECT_EQ(parse_header(bytes.substr(8), 14, "f"), header);
  EXPECT_EQ(parse_header("{}", 0, "f"), Header{});
}

TEST(Header, EveryElementTypeHasANameAndASize) {
  for (int i = 0; i <= static_cast<int>(ElementType::kU64); ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(element_type_from_name(element_type_name(type)), type);
    EXPECT_EQ(byte_length(type, {8}), static_cast<std::uint64_t>(element_bits(type)));
  }
  EXPECT_EQ(element_type_from_name("F31"), std::nullopt);
  EXPECT_EQ(element_bits(ElementType::kBf16), 16);
  EXPECT_EQ(element_bits(ElementType::kF8E5M2), 8);
  EXPECT_EQ(byte_length(ElementType::kF4, {3}), std::nullopt) << "a byte and a half";
}

TEST(HostileHeader, TooShortForALength) {
  EXPECT_SAYS(refusal(""), "at least 8 bytes but got 0");
  EXPECT_SAYS(refusal("1234567"), "at least 8 bytes but got 7");
}

TEST(HostileHeader, LongerThanTheFile) {
  std::string file = raw_safetensors("{}", "");
  file[0] = 3;
  EXPECT_SAYS(refusal(file), "header must have at most 2 bytes but got 3");
  file[7] = '\x80';
  EXPECT_SAYS(refusal(file), "but got 9223372036854775811");
}

TEST(HostileHeader, LongerThanAHundredMegabytes) {
  const std::string prefix("\x01\xe1\xf5\x05\0\0\0\0", 8);  // 100,000,001
  try {
    header_length(prefix, std::uint64_t{1} << 40, "f");
    FAIL();
  } catch (const Error& error) {
    EXPECT_SAYS(std::string(error.what()), "at most 100000000 bytes but got 100000001");
  }
}

TEST(HostileHeader, NoJson) {
  EXPECT_SAYS(refusal("", 0), "must be a JSON object");
  EXPECT_SAYS(refusal("[]", 0), "must be a JSON object");
  EXPECT_SAYS(refusal(R"( {})", 0), "must be a JSON object");
  EXPECT_SAYS(refusal(R"({"a")", 0), "is not JSON (byte ");
  EXPECT_SAYS(refusal("{} {}", 0), "is not JSON");
  EXPECT_SAYS(refusal("{\"\xff\xfe\": 1}", 0), "is not JSON");
}

TEST(HostileHeader, SomethingAfterAZeroByte) {
  EXPECT_SAYS(refusal(std::string("{}\0{}", 5), 0), "is zero");
}

TEST(HostileHeader, DeepJson) {
  EXPECT_SAYS(refusal(R"({"a":)" + std::string(100000, '['), 0), "must be an object");
  EXPECT_SAYS(refusal(entry(R"("shape":)" + std::string(100000, '[')), 0), "whole numbers");
  EXPECT_SAYS(refusal(R"({"__metadata__":{"a":{"b":{}}}})", 0), "must be a text");
}

TEST(HostileHeader, TooManyTensors) {
  std::string json = "{";
  for (std::size_t i = 0; i <= kMostTensors; ++i) {
    json += (i > 0 ? ",\"" : "\"") + std::to_string(i) +
            R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  EXPECT_SAYS(refusal(json + "}", 0), "at most 262144 tensors");
}

TEST(HostileHeader, TooManyDimensionsOrTooLongAName) {
  std::string ones = "1";
  for (std::size_t i = 0; i < kHighestRank; ++i) ones += ",1";
  EXPECT_SAYS(refusal(entry(R"("dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1])"), 1),
              "at most 32 numbers");
  EXPECT_SAYS(refusal(R"({")" + std::string(kLongestName + 1, 'n') + R"(":{}})", 0),
              "names of at most 4096 bytes");
}

TEST(HostileHeader, NamesTwice) {
  const std::string tensor = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_SAYS(refusal("{" + tensor + "," + tensor + "}", 0), "has 'a' twice");
  EXPECT_SAYS(refusal(entry(R"("dtype":"U8","dtype":"U8")"), 0), "dtype of 'a' twice");
  EXPECT_SAYS(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), "__metadata__ twice");
  EXPECT_SAYS(refusal(R"({"__metadata__":{"k":"1","k":"1"}})", 0), "'k' of __metadata__ twice");
}

TEST(HostileHeader, MetadataThatIsNoText) {
  EXPECT_SAYS(refusal(R"({"__metadata__":{"k":1}})", 0), "'k' of __metadata__ must be a text");
  EXPECT_SAYS(refusal(R"({"__metadata__":{"k":null}})", 0), "must be a text but got null");
  EXPECT_SAYS(refusal(R"({"__metadata__":["k"]})", 0), "must be an object of texts");
  EXPECT_SAYS(refusal(R"({"__metadata__":"k"})", 0), "must be an object of texts but got 'k'");
}

TEST(HostileHeader, UnknownType) {
  EXPECT_SAYS(refusal(entry(R"("dtype":"F31","shape":[0],"data_offsets":[0,0])"), 0),
              "dtype of 'a' must be a known type but got 'F31'");
  EXPECT_SAYS(refusal(entry(R"("dtype":7,"shape":[0],"data_offsets":[0,0])"), 0),
              "must be a text but got 7");
}

TEST(HostileHeader, FieldsMissingOrUnknown) {
  for (const char* fields :
       {"", R"("dtype":"U8","shape":[0])", R"("shape":[0],"data_offsets":[0,0])",
        R"("dtype":"U8","data_offsets":[0,0])"}) {
    EXPECT_SAYS(refusal(entry(fields), 0), "must have dtype, shape and data_offsets for 'a'");
  }
  EXPECT_SAYS(refusal(entry(R"("dtype":"U8","strides":[1])"), 0), "but got 'strides'");
}

TEST(HostileHeader, NumbersThatAreNoCounts) {
  for (const char* number : {"-1", "1.0", "1e3", "9223372036854775808", "18446744073709551616",
                             "true", "null", "\"1\"", "{}"}) {
    const std::string fields =
        R"("dtype":"U8","data_offsets":[0,1],"shape":[)" + std::string(number) + "]";
    EXPECT_SAYS(refusal(entry(fields), 1), "shape of 'a' must be a list of whole numbers");
  }
  EXPECT_SAYS(refusal(entry(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1), "two numbers");
  EXPECT_NE(refusal(entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1), "");
  EXPECT_NE(refusal(entry(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"), 1), "");
}

TEST(HostileHeader, ShapeThatOverflows) {
  const std::string big = std::to_string(std::int64_t{1} << 32);
  EXPECT_SAYS(
      refusal(entry(R"("dtype":"F64","shape":[)" + big + "," + big + R"(],"data_offsets":[0,0])"),
              0),
      "has a shape without a byte length");
  EXPECT_SAYS(refusal(entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2),
              "has a shape without a byte length");
}

TEST(HostileHeader, LengthThatIsNotThatOfTheShape) {
  EXPECT_SAYS(refusal(entry(R"("dtype":"F32","shape":[2,3],"data_offsets":[0,23])"), 23),
              "'a' has 23 bytes, but F32 [2, 3] takes 24");
}

TEST(HostileHeader, EndBeforeItsBeginning) {
  EXPECT_SAYS(refusal(entry(R"("dtype":"U8","shape":[0],"data_offsets":[4,2])"), 4),
              "ends (2) before it begins (4)");
}

TEST(HostileHeader, ReachesPastTheFile) {
  EXPECT_SAYS(refusal(entry(R"("dtype":"U8","shape":[5],"data_offsets":[0,5])"), 4),
              "'a' ends at byte 5 of 4");
  const std::string last = std::to_string(~std::uint64_t{0});
  EXPECT_SAYS(
      refusal(entry(R"("dtype":"U8","shape":[1],"data_offsets":[)" + last + "," + last + "]"), 4),
      "of 4");
}

std::string two(const std::string& a, const std::string& b) {
  return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[)" + a +
         R"(]},"b":{"dtype":"U8","shape":[4],"data_offsets":[)" + b + "]}}";
}

TEST(HostileHeader, Overlaps) {
  EXPECT_EQ(refusal(two("0,4", "4,8"), 8), "");
  EXPECT_SAYS(refusal(two("0,4", "3,7"), 8), "'b' overlaps another tensor at byte 3");
  EXPECT_SAYS(refusal(two("4,8", "4,8"), 8), "leaves a gap");
  EXPECT_SAYS(refusal(two("0,4", "0,4"), 8), "overlaps");
}

TEST(HostileHeader, Holes) {
  EXPECT_SAYS(refusal(two("0,4", "5,9"), 9), "'b' leaves a gap before it from byte 4 to 5");
  EXPECT_SAYS(refusal(two("1,5", "5,9"), 9), "'a' leaves a gap before it from byte 0 to 1");
  EXPECT_SAYS(refusal(two("0,4", "4,8"), 10), "has 2 bytes that belong to no tensor");
}

TEST(HostileHeader, MessagesStayOnOneLine) {
  const std::string text = refusal("{\"a\\nb\\u001b[31m\":7}", 0);
  EXPECT_SAYS(text, "'a?b?[31m' must be an object");
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace posenc::weights
