// Names of other systems: every one leads to a spec that parses.
#include "encodings/other_names.h"

#include <gtest/gtest.h>

#include <array>

#include "posenc/core/error.h"
#include "posenc/encodings/spec.h"

namespace posenc {
namespace {

std::string message_of(const std::string& spec) {
  try {
    (void)parse_spec(spec);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(OtherNames, AreErrorsThatNameTheSpecToWrite) {
  const std::array<std::pair<const char*, const char*>, 12> cases = {{
      {"rotary", "did you mean 'rope'?"},
      {"RoPE", "did you mean 'rope'?"},
      {"nope", "did you mean 'none'?"},
      {"absolute", "did you mean 'learned'?"},
      {"sincos", "did you mean 'sinusoidal'?"},
      {"relative_bias", "did you mean 't5'?"},
      {"forgetting(x=1)", "did you mean 'fox'?"},
      {"stick-breaking", "did you mean 'stick_breaking'?"},
      {"ntk", "did you mean 'rope(schedule=ntk(factor=4))'?"},
      {"alibi + linear", "(line 1, column 9); did you mean 'rope(schedule=linear(factor=4))'?"},
      {"yarn(factor=4)",
       "did you mean 'rope(schedule=yarn(factor=4, original_max_position_embeddings=2048))'?"},
      {"mrope", "did you mean 'rope(axes=mrope(sections=[1, 1, 1]))'?"},
  }};
  for (const auto& [spec, says] : cases) {
    const std::string message = message_of(spec);
    EXPECT_NE(message.find(says), std::string::npos) << spec << ": " << message;
    EXPECT_EQ(message.rfind("[spec] encoding must be a known name but got", 0), 0U) << message;
  }
}

TEST(OtherNames, HaveExamplesThatParse) {
  for (const char* name :
       {"kerple_power", "softmax_one", "swin", "shaw", "su", "pi", "p-rope", "m_rope", "ape"}) {
    ASSERT_NE(spec_instead_of(name), "") << name;
    EXPECT_EQ(message_of(spec_instead_of(name)), "") << name;
  }
  for (const auto& catalog : {encoding_catalog(), schedule_catalog(), axes_catalog()}) {
    for (const CatalogEntry& entry : catalog) {
      const std::string example = example_spec(entry.traits.name);
      ASSERT_NE(example, "") << entry.traits.name;
      EXPECT_EQ(message_of(example), "") << example;
    }
  }
  EXPECT_EQ(example_spec("rotary"), "");
  EXPECT_EQ(spec_instead_of("frobnicate"), "");
}

// A misspelt name is still compared with the names of encodings.
TEST(OtherNames, LeaveMisspeltNamesToTheNearestName) {
  EXPECT_NE(message_of("rop").find("did you mean 'rope'?"), std::string::npos);
  EXPECT_NE(message_of("zzzzzzzzz").find("known: none, learned"), std::string::npos);
}

TEST(OtherNames, StandInDefaultEncodingToo) {
  EXPECT_THROW((void)default_encoding("rotary"), Error);
  EXPECT_EQ(traits(default_encoding("rope")).name, "rope");
}

}  // namespace
}  // namespace posenc
