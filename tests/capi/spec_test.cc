// Specs, errors and threads through the C ABI.
#include <cstring>
#include <thread>

#include "capi/c_handles.h"
#include "core/plain_text.h"
#include "posenc/encodings/alibi.h"
#include "posenc/encodings/t5.h"

namespace posenc {
namespace {

using testing::fails;
using testing::make_spec;
using testing::ok;
using testing::SpecHandle;

using Writer = int64_t (*)(const posenc_spec*, char*, size_t);

std::string written(Writer writer, const posenc_spec* spec) {
  std::string text(static_cast<std::size_t>(writer(spec, nullptr, 0)) + 1, '?');
  EXPECT_EQ(writer(spec, text.data(), text.size()), static_cast<int64_t>(text.size()) - 1);
  EXPECT_EQ(text.back(), '\0');
  text.pop_back();
  return text;
}

TEST(CSpec, AllFormsAreReadAndWrittenAsInCpp) {
  const std::string text = "rope(theta=500000, schedule=linear(factor=4)) + alibi";
  const Spec expected = parse_spec(text);
  const SpecHandle from_text = make_spec(text);
  posenc_spec* json = nullptr;
  ASSERT_TRUE(ok(posenc_spec_from_json(to_json(expected).c_str(), &json)));
  const SpecHandle from_json(json);
  posenc_spec* yaml = nullptr;
  ASSERT_TRUE(ok(posenc_spec_from_yaml(to_yaml(expected).c_str(), &yaml)));
  const SpecHandle from_yaml(yaml);
  for (const posenc_spec* spec : {from_text.get(), from_json.get(), from_yaml.get()}) {
    EXPECT_EQ(written(posenc_spec_to_text, spec), to_text(expected));
    EXPECT_EQ(written(posenc_spec_to_json, spec), to_json(expected));
    EXPECT_EQ(written(posenc_spec_to_yaml, spec), to_yaml(expected));
    EXPECT_EQ(written(posenc_spec_hash, spec), hash(expected));
  }
}

TEST(CSpec, TextIsCutToTheBuffer) {
  const SpecHandle spec = make_spec("rope + alibi");
  std::array<char, 6> buffer;
  buffer.fill('?');
  EXPECT_EQ(posenc_spec_to_text(spec.get(), buffer.data(), 5), 12);
  EXPECT_STREQ(buffer.data(), "rope");
  EXPECT_EQ(buffer[5], '?');
  EXPECT_EQ(posenc_spec_to_text(spec.get(), buffer.data(), 1), 12);
  EXPECT_STREQ(buffer.data(), "");
}

// Bindings decode messages as UTF-8: a character that is cut in two would cost the whole message.
TEST(CSpec, MessagesQuoteWholeCharacters) {
  posenc_spec* spec = nullptr;
  EXPECT_TRUE(fails(posenc_spec_from_text("rop\u00e9", &spec), POSENC_BAD_SPEC,
                    "needs '+' or the end at column 4 but got '\u00e9'"));
  EXPECT_TRUE(fails(posenc_spec_from_text("rope(\u4f4d=1)", &spec), POSENC_BAD_SPEC,
                    "needs a name at column 6 but got '\u4f4d'"));
  EXPECT_TRUE(fails(posenc_spec_from_text("rope(\xff=1)", &spec), POSENC_BAD_SPEC, "but got '?'"));
  // Long enough to be cut at the end of the buffer, at every place within a character.
  for (std::size_t before = 0; before < 4; ++before) {
    std::string key(before, 'a');
    for (int i = 0; i < 400; ++i) key += "\U0001f600";
    EXPECT_NE(posenc_spec_from_json(("{\"" + key + "\": {}}").c_str(), &spec), POSENC_OK);
    EXPECT_TRUE(is_utf8(posenc_last_error())) << before;
  }
}

TEST(CSpec, MistakesHaveACodeAndTheMessageOfCpp) {
  posenc_spec* spec = nullptr;
  EXPECT_TRUE(fails(posenc_spec_from_text("rope(thta=1)", &spec), POSENC_BAD_SPEC,
                    "[rope] thta is not a known key"));
  EXPECT_TRUE(fails(posenc_spec_from_json("[", &spec), POSENC_BAD_SPEC, "[spec]"));
  EXPECT_TRUE(fails(posenc_spec_from_yaml("rope: {theta: x}", &spec), POSENC_BAD_SPEC, "theta"));
  EXPECT_TRUE(fails(posenc_spec_from_text("rope(theta=-1)", &spec), POSENC_OUT_OF_RANGE,
                    "[rope] theta must be"));
  EXPECT_EQ(spec, nullptr);
}

TEST(CSpec, StatusesHaveNames) {
  EXPECT_STREQ(posenc_status_name(POSENC_OK), "ok");
  EXPECT_STREQ(posenc_status_name(POSENC_BAD_SPEC), "bad_spec");
  EXPECT_STREQ(posenc_status_name(1), "unknown");
}

TEST(CSpec, LastErrorBelongsToTheThread) {
  ASSERT_NE(posenc_spec_from_text("nonsense", nullptr), POSENC_OK);
  const std::string mine = posenc_last_error();
  ASSERT_NE(mine, "");
  std::string before = "?";
  std::string after;
  std::thread other([&] {
    before = posenc_last_error();
    posenc_spec_from_text(nullptr, nullptr);
    after = posenc_last_error();
  });
  other.join();
  EXPECT_EQ(before, "");
  EXPECT_EQ(after, "[spec_from_text] text must not be null");
  EXPECT_EQ(posenc_last_error(), mine);
  make_spec("rope");
  EXPECT_EQ(posenc_last_error(), mine);
}

TEST(CSpec, AMessageIsNotCutWhereTheKernelsCut) {
  const std::string key(300, 'x');
  posenc_spec* spec = nullptr;
  EXPECT_TRUE(
      fails(posenc_spec_from_text(("rope(" + key + "=1)").c_str(), &spec), POSENC_BAD_SPEC, key));
}

TEST(CSpec, VersionAndThreads) {
  EXPECT_STREQ(posenc_version(), POSENC_VERSION_STRING);
  EXPECT_EQ(posenc_abi_version(), static_cast<uint32_t>(POSENC_ABI_VERSION));
  const int32_t before = posenc_num_threads();
  EXPECT_TRUE(ok(posenc_set_num_threads(3)));
  EXPECT_EQ(posenc_num_threads(), 3);
  EXPECT_TRUE(fails(posenc_set_num_threads(5000), POSENC_OUT_OF_RANGE, "threads"));
  EXPECT_EQ(posenc_num_threads(), 3);
  EXPECT_TRUE(ok(posenc_set_num_threads(0)));
  EXPECT_GE(posenc_num_threads(), 1);
  EXPECT_TRUE(ok(posenc_set_num_threads(before)));
}

TEST(CSpec, SlopesAndBucketsAreThoseOfCpp) {
  const SpecHandle alibi = make_spec("rope + alibi(slopes=mpt)");
  std::array<double, 6> slopes{};
  ASSERT_TRUE(ok(posenc_alibi_slopes(alibi.get(), 6, slopes.data(), slopes.size())));
  const auto expected = alibi_slopes(Alibi{.slopes = Alibi::Slopes::kMpt}, 6);
  EXPECT_TRUE(std::equal(slopes.begin(), slopes.end(), expected.begin(), expected.end()));
  EXPECT_TRUE(fails(posenc_alibi_slopes(alibi.get(), 6, slopes.data(), 5), POSENC_INVALID_ARGUMENT,
                    "slopes must have 6 entries but got 5"));
  EXPECT_TRUE(fails(posenc_alibi_slopes(alibi.get(), -1, slopes.data(), 0), POSENC_OUT_OF_RANGE,
                    "heads must be >= 1"));

  const SpecHandle t5 = make_spec("t5(bidirectional=true)");
  for (const std::int64_t relative : {-1000, -20, -1, 0, 1, 7, 127, 128}) {
    EXPECT_EQ(posenc_t5_bucket(t5.get(), relative), t5_bucket(T5{.bidirectional = true}, relative));
  }
  EXPECT_TRUE(fails(posenc_t5_bucket(t5.get(), INT64_MIN), POSENC_OUT_OF_RANGE, "relative"));
  EXPECT_TRUE(fails(posenc_t5_bucket(alibi.get(), 1), POSENC_INVALID_ARGUMENT,
                    "spec must have an encoding t5"));
  EXPECT_TRUE(fails(posenc_alibi_slopes(t5.get(), 6, slopes.data(), 6), POSENC_INVALID_ARGUMENT,
                    "spec must have an encoding alibi"));
  const SpecHandle few = make_spec("t5(num_buckets=2, bidirectional=true)");
  EXPECT_TRUE(fails(posenc_t5_bucket(few.get(), 3), POSENC_OUT_OF_RANGE, "num_buckets"));
}

}  // namespace
}  // namespace posenc
