#include "posenc/encodings/spec.h"

#include <gtest/gtest.h>

#include <set>

#include "support/message_of.h"
#include "support/random_spec.h"
#include "support/sanitizers.h"

namespace posenc {
namespace {

TEST(Spec, ThousandsOfRandomSpecsRoundTripInAllThreeForms) {
  Rng rng(1);
  std::set<std::string> hashes;
  constexpr int kSpecs = testing::kSanitized ? 400 : 4000;
  for (int i = 0; i < kSpecs; ++i) {
    const Spec spec = testing::random_spec(rng);
    const std::string text = to_text(spec);
    ASSERT_EQ(parse_spec(text), spec) << text;
    ASSERT_EQ(parse_spec_yaml(to_yaml(spec)), spec) << to_yaml(spec);
    ASSERT_EQ(parse_spec_json(to_json(spec)), spec) << to_json(spec);
    ASSERT_EQ(hash(parse_spec_json(to_json(spec))), hash(spec));
    ASSERT_EQ(hash(parse_spec_yaml(to_yaml(spec))), hash(spec));
    hashes.insert(hash(spec));
  }
  EXPECT_GT(hashes.size(), 3u * kSpecs / 4) << "different specs have different hashes";
}

TEST(Spec, CompositionWithNothingIsIdentity) {
  Rng rng(2);
  for (int i = 0; i < 300; ++i) {
    const Spec spec = testing::random_spec(rng);
    EXPECT_EQ(spec + Spec{}, spec);
    EXPECT_EQ(Spec{} + spec, spec);
    EXPECT_EQ(parse_spec(to_text(spec) + " + none"), spec);
  }
  EXPECT_EQ(to_text(parse_spec("none")), "none");
  EXPECT_EQ(to_text(Spec{}), "none");
}

TEST(Spec, WaysOfWritingTheSameThingHaveOneHash) {
  const std::string wanted = hash(parse_spec("rope(theta=500000, layout=half) + alibi"));
  EXPECT_EQ(hash(parse_spec("rope( theta = 5e5 )+alibi()")), wanted);
  EXPECT_EQ(hash(parse_spec("rope(layout=half, theta=500000.0) + none + alibi")), wanted);
  EXPECT_EQ(hash(parse_spec_yaml("- rope: {theta: 500000}\n- alibi\n")), wanted);
  EXPECT_EQ(hash(parse_any_spec("[{rope: {theta: 500000}}, alibi]")), wanted);
  EXPECT_EQ(hash(parse_spec_yaml("rope(theta=500000) + alibi\n")), wanted);
  EXPECT_EQ(hash(parse_spec_json(R"([{"rope": {"theta": 500000.0}}, {"alibi": {}}])")), wanted);
  EXPECT_EQ(hash(parse_spec_json(R"("rope(theta=500000) + alibi")")), wanted);
  EXPECT_NE(hash(parse_spec("alibi + rope(theta=500000)")), wanted) << "order is part of a spec";
}

TEST(Spec, TheFormIsDetected) {
  const Spec wanted = parse_spec("rope(theta=500000) + alibi");
  for (const char* given : {
           "rope(theta=500000) + alibi",
           " \t\r\nrope(theta=500000)\n+ alibi\n",
           R"([{"rope": {"theta": 500000}}, "alibi"])",
           "\r\n [{\"rope\": {\"theta\": 5e5}}, {\"alibi\": {}}]",
           R"("rope(theta=500000) + alibi")",
           "- rope: {theta: 500000}\n- alibi\n",
           "- rope: {theta: 500000}\r\n- alibi\r\n",
           "\n- rope:\n    theta: 500000\n- alibi",
       }) {
    EXPECT_EQ(parse_any_spec(given), wanted) << given;
  }
  const Spec rope = parse_spec("rope(theta=500000)");
  for (const char* given : {R"({"rope": {"theta": 500000}})", "rope: {theta: 500000}",
                            "rope:\n  theta: 500000\n", "rope(theta=500000)"}) {
    EXPECT_EQ(parse_any_spec(given), rope) << given;
  }
  EXPECT_EQ(parse_any_spec("none"), Spec{});
  EXPECT_EQ(testing::message_of([] { (void)parse_any_spec("rope(theta: 5)"); }),
            testing::message_of([] { (void)parse_spec("rope(theta: 5)"); }))
      << "text with a mistake, not YAML";
  EXPECT_EQ(testing::message_of([] { (void)parse_any_spec(R"({"rope": {"theta")"); }),
            testing::message_of([] { (void)parse_spec_json(R"({"rope": {"theta")"); }))
      << "neither JSON nor YAML";
  EXPECT_EQ(testing::message_of([] { (void)parse_any_spec(" "); }),
            testing::message_of([] { (void)parse_spec(" "); }));
}

// Hashes name runs on disk: a change of the canonical form must be seen, not slip in.
TEST(Spec, HashesAreStable) {
  EXPECT_EQ(hash(parse_spec("none")), "3c0d17bad169557b");
  EXPECT_EQ(hash(parse_spec("rope")), "a3b81c1ff11919cd");
  EXPECT_EQ(hash(parse_spec("rope(axes=mrope(sections=[16, 24, 24]))")), "11a285c18e26e434");
}

TEST(Spec, ParameterNamesAreStableAndNumbered) {
  const ModelShape shape{.head_dim = 8, .heads = 2};
  std::vector<std::string> names;
  for (const SpecParameter& p : parameters(
           parse_spec("rope(schedule=learnable) + alibi + alibi(trainable=true) + cope"), shape)) {
    names.push_back(p.info.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"rope.alpha", "alibi.slopes", "alibi_2.slopes",
                                             "cope.pos_emb"}));
}

TEST(Spec, EveryFieldOfEveryEncodingIsDocumented) {
  int fields = 0;
  for (const auto& catalog : {encoding_catalog(), schedule_catalog(), axes_catalog()}) {
    for (const CatalogEntry& entry : catalog) {
      EXPECT_FALSE(entry.traits.name.empty());
      EXPECT_FALSE(entry.traits.title.empty()) << entry.traits.name;
      for (const FieldDoc& field : entry.fields) {
        ++fields;
        EXPECT_FALSE(field.doc.empty()) << entry.traits.name << "." << field.name;
        EXPECT_FALSE(field.default_value.empty()) << entry.traits.name << "." << field.name;
        const bool number = field.type.find("number") == 0 || field.type.find("integer") == 0;
        const bool free = field.name == "center";
        EXPECT_TRUE(!number || free || !field.range.empty())
            << entry.traits.name << "." << field.name;
        const FieldRule& rule = field.rule;
        EXPECT_TRUE(!rule.required || !rule.example.empty())
            << entry.traits.name << "." << field.name;
        EXPECT_TRUE(rule.usual.high == 0 ||
                    (rule.usual.low >= rule.min && rule.usual.high <= rule.max))
            << entry.traits.name << "." << field.name;
      }
    }
  }
  EXPECT_GT(fields, 60);
}

struct Wrong {
  const char* text;
  ErrorKind kind;
  const char* message;
};

TEST(Spec, MistakesAreNamed) {
  const Wrong cases[] = {
      {"rop", ErrorKind::kUnknownKey, "did you mean 'rope'?"},
      {"rope(thta=3)", ErrorKind::kUnknownKey, "did you mean 'theta'?"},
      {"rope(rotary_dim=7)", ErrorKind::kOutOfRange, "[rope] rotary_dim must be even but got 7"},
      {"rope(theta=1)", ErrorKind::kOutOfRange, "[rope] theta must be in (1, 1e+30] but got 1"},
      {"rope(theta=nan)", ErrorKind::kNotFinite, "theta must be a finite number but got nan"},
      {"rope(theta=inf)", ErrorKind::kNotFinite, "theta must be a finite number but got inf"},
      {"rope(theta=1e999)", ErrorKind::kNotFinite, "1e999"},
      {"rope(theta=half)", ErrorKind::kWrongType, "theta must be a number but got 'half'"},
      {"rope(theta=1e4, theta=1e5)", ErrorKind::kConflict, "theta is given twice"},
      {"rope(schedule=yarn)", ErrorKind::kMissingKey, "[yarn] factor is required"},
      {"rope(schedule=linear(factor=0.5))", ErrorKind::kOutOfRange,
       "[linear] factor must be in [1"},
      {"rope(schedule=[1])", ErrorKind::kWrongType,
       "must be a name, or one name with its arguments"},
      {"rope(", ErrorKind::kSyntax, "needs a name at column 6 but got the end"},
      {"rope(theta)", ErrorKind::kSyntax, "needs '=' after 'theta'"},
      {"rope(theta=)", ErrorKind::kSyntax, "needs a value at column 12"},
      {"rope alibi", ErrorKind::kSyntax, "needs '+' or the end at column 6"},
      {"", ErrorKind::kSyntax, "needs a name at column 1"},
      {"cope(npos_max=1)", ErrorKind::kOutOfRange, "npos_max must be in [2, 65536] but got 1"},
      {"7", ErrorKind::kSyntax, "needs a name"},
  };
  for (const Wrong& c : cases) {
    try {
      parse_spec(c.text);
      ADD_FAILURE() << c.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), c.kind) << c.text;
      EXPECT_NE(std::string(error.what()).find(c.message), std::string::npos) << error.what();
    }
  }
}

TEST(Spec, ShapesThatDoNotFitAreNamed) {
  const ModelShape shape{.head_dim = 64, .heads = 8};
  const Wrong cases[] = {
      {"rope(theta=[1e4, 2e4, 3e4])", ErrorKind::kWrongLength, "divides the heads (8) but got 3"},
      {"rope(rotary_dim=64, dim_offset=2)", ErrorKind::kConflict,
       "must be at most head_dim (64) but got 66"},
      {"rope(rotary_dim=64, dim_offset=1)", ErrorKind::kConflict,
       "must be at most head_dim (64) but got 65"},
      {"rope(axes=mrope(sections=[16, 24, 24]))", ErrorKind::kWrongLength,
       "add up to the rotated pairs (32)"},
      {"rope(axes=axial(axes=2, sections=[16, 8, 8]))", ErrorKind::kConflict,
       "must have 2 entries"},
      {"rope(axes=axial(axes=3))", ErrorKind::kWrongLength,
       "must divide the rotated pairs (32) but got 3"},
      {"rope(axes=mrope_interleaved(sections=[2, 15, 15]))", ErrorKind::kOutOfRange, "sections[1]"},
      {"rope(axes=mrope_interleaved(sections=[10, 11, 11]))", ErrorKind::kOutOfRange,
       "sections[2]"},
      {"rope(schedule=proportional, rotary_dim=32)", ErrorKind::kConflict,
       "must be the head dimension (64)"},
      {"rope(schedule=llama3(factor=8, low_freq_factor=4, high_freq_factor=4, "
       "original_max_position_embeddings=8192))",
       ErrorKind::kConflict, "high_freq_factor must be above low_freq_factor (4) but got 4"},
      {"rope(schedule=ntk(factor=2), rotary_dim=2)", ErrorKind::kOutOfRange,
       "rotary_dim must be >= 4"},
      {"t5(num_buckets=32, max_distance=16)", ErrorKind::kConflict, "max_distance must be above"},
      {"t5(num_buckets=2, bidirectional=true)", ErrorKind::kOutOfRange, "num_buckets must be >= 4"},
  };
  for (const Wrong& c : cases) {
    try {
      validate(parse_spec(c.text), shape);
      ADD_FAILURE() << c.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), c.kind) << c.text;
      EXPECT_NE(std::string(error.what()).find(c.message), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(validate(parse_spec("rope"), ModelShape{.head_dim = 7, .heads = 1}), Error);
  EXPECT_THROW(validate(parse_spec("alibi"), ModelShape{.head_dim = 8, .heads = 0}), Error);
}

TEST(Spec, InitialParametersHaveAnEntryPerEncoding) {
  const ModelShape shape{.head_dim = 16, .heads = 4};
  const Spec spec = parse_spec("rope + t5 + cope(npos_max=8) + alibi");
  const std::vector<Parameters> values = initial_parameters(spec, shape, 3);
  ASSERT_EQ(values.size(), spec.encodings.size());
  for (const SpecParameter& parameter : parameters(spec, shape)) {
    EXPECT_EQ(std::ssize(values[parameter.encoding][parameter.index]), parameter.info.count())
        << parameter.info.name;
  }
  EXPECT_TRUE(values[0].empty()) << "rope has none";
  EXPECT_EQ(values[3][0], (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625}));
  EXPECT_EQ(initial_parameters(spec, shape, 3), values);
  EXPECT_NE(initial_parameters(spec, shape, 4)[1], values[1]);
  EXPECT_EQ(initial_parameters(spec, shape), initial_parameters(spec, shape, 0));
  EXPECT_TRUE(initial_parameters(Spec{}, shape).empty());
}

TEST(Spec, InitialParametersRefuseWhatDoesNotFit) {
  const auto make = [](const char* spec, ModelShape shape) {
    return testing::message_of([&] { (void)initial_parameters(parse_spec(spec), shape); });
  };
  EXPECT_EQ(make("rope + alibi", {.head_dim = 7, .heads = 2}),
            "[rope] head_dim must be even but got 7");
  EXPECT_NE(make("alibi", {.head_dim = 8, .heads = 0}).find("heads must be"), std::string::npos);
  const std::int64_t wide = std::int64_t{1} << 40;
  EXPECT_EQ(make("learned(max_positions=4096)", {.head_dim = 1, .heads = 1, .model_dim = wide}),
            "[parameters] learned.weight has more than 2^40 entries");
}

}  // namespace
}  // namespace posenc
