#include "tokens/unicode.h"

#include <gtest/gtest.h>

#include "tokens/unicode_tables.h"

namespace posenc::tokens {
namespace {

std::string utf8(char32_t c) {
  std::string text;
  append_utf8(c, text);
  return text;
}

TEST(Unicode, EveryCharacterReadsBack) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const std::string text = utf8(c);
    const CodePoint read = code_point_at(text, 0);
    ASSERT_EQ(read.value, c);
    ASSERT_EQ(read.bytes, text.size());
  }
}

TEST(Unicode, InvalidBytesStandForThemselves) {
  for (const std::string& text :
       {std::string("\x80"), std::string("\xC0\xAF"), std::string("\xE2\x82"),
        std::string("\xED\xA0\x80"), std::string("\xF4\x90\x80\x80"), std::string("\xFF"),
        std::string("\xC3(")}) {
    const auto first = static_cast<unsigned char>(text[0]);
    EXPECT_EQ(code_point_at(text, 0).value, kInvalidByte + first);
    EXPECT_EQ(code_point_at(text, 0).bytes, 1u);
    EXPECT_EQ(to_nfc(text + "e\xCC\x81"), text + "\xC3\xA9") << "and stay where text is normalised";
  }
}

TEST(Unicode, KindsOfCharacters) {
  using enum CharacterKind;
  for (const char32_t c : {U'a', U'Z', U'é', U'я', U'中', U'가', U'ª', U'\U00010400'}) {
    EXPECT_EQ(kind_of(c), kLetter) << static_cast<std::uint32_t>(c);
  }
  for (const char32_t c : {U'0', U'½', U'²', U'Ⅷ', U'٣'}) EXPECT_EQ(kind_of(c), kNumber);
  for (const char32_t c : {U' ', U'\n', U'\t', U'\x85', U'\xA0', U'\x3000'}) {
    EXPECT_EQ(kind_of(c), kSpace);
  }
  for (const char32_t c : {U'.', U'_', U'\x301', U'\x200D', U'\x1C', U'\x200B', U'👍'}) {
    EXPECT_EQ(kind_of(c), kOther) << static_cast<std::uint32_t>(c);
  }
  EXPECT_EQ(kind_of(kInvalidByte + 0x80), kOther);
}

TEST(Unicode, NormalForms) {
  EXPECT_EQ(to_nfc("plain ASCII"), "plain ASCII");
  EXPECT_EQ(to_nfc("cafe\u0301"), "café");
  EXPECT_EQ(to_nfc("\u212B\u2126"), "\u00C5\u03A9") << "single characters";
  EXPECT_EQ(to_nfc("\u0958"), "\u0915\u093C") << "excluded from composition";
  EXPECT_EQ(to_nfc("q\u0307\u0323"), "q\u0323\u0307") << "marks in order";
  EXPECT_EQ(to_nfc("\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(to_nfc("\u1100\u1161\u11A7"), "\uAC00\u11A7") << "no trailing consonant";
  EXPECT_EQ(to_nfc("\u0301e"), "\u0301e") << "nothing before the mark";
  EXPECT_EQ(to_nfc("a\u0315\u0300\u05AE\u0300b"), "\u00E0\u05AE\u0300\u0315b");
}

// Every character, composed and taken apart, gives the same normal form.
TEST(Unicode, DecompositionsAreEquivalent) {
  for (const auto table : {composing_pairs(), one_way_pairs()}) {
    for (const Decomposition& d : table) {
      const std::string parts = utf8(d.first) + (d.second != 0 ? utf8(d.second) : "");
      ASSERT_EQ(to_nfc(utf8(d.composed)), to_nfc(parts)) << static_cast<std::uint32_t>(d.composed);
      ASSERT_EQ(to_nfc(to_nfc(parts)), to_nfc(parts));
    }
  }
  for (const Decomposition& d : composing_pairs()) {
    ASSERT_EQ(to_nfc(utf8(d.composed)), utf8(d.composed));
  }
}

}  // namespace
}  // namespace posenc::tokens
