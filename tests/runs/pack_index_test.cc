#include "runs/pack_index.h"

#include <gtest/gtest.h>

#include "runs/run_case.h"
#include "system/sha256.h"

namespace posenc::runs {
namespace {

using posenc::testing::error_of;

ManifestFile file(const std::string& name, std::int64_t size = 3) {
  return {name, size, sha256_hex(name)};
}

std::string refusal(const PackIndex& index, std::int64_t most = kLargestPack) {
  return error_of([&] { (void)parse_pack_index(pack_index_text(index), "p.tar", most); });
}

TEST(PackIndex, IsReadBackAsWritten) {
  const PackIndex index{{file("a/b/config.yaml"), file("a/b/status.json"), file("c/status.json")}};
  EXPECT_EQ(parse_pack_index(pack_index_text(index), "p").files, index.files);
  EXPECT_EQ(run_names(index), (std::vector<std::string>{"a/b", "c"}));
}

TEST(PackIndex, PlainPathsStayBelowTheirFolder) {
  for (const char* good : {"a", "a/b.c", "..a/b..", "a b", "ä/.lock"}) {
    EXPECT_TRUE(is_plain_path(good)) << good;
  }
  for (const char* bad :
       {"", "/a", "a//b", "a/", "..", "a/../b", "../a", ".", "./a", "a\\b", "a\nb", "a\x7f"}) {
    EXPECT_FALSE(is_plain_path(bad)) << bad;
  }
}

TEST(PackIndex, RefusesWhatNoPackHas) {
  const auto refused = [](std::vector<ManifestFile> files, const std::string& why) {
    const std::string said = refusal({std::move(files)});
    EXPECT_NE(said.find(why), std::string::npos) << said;
  };
  refused({file("../status.json")}, "not a plain path");
  refused({file("/etc/status.json")}, "not a plain path");
  refused({file("a/status.json", -1)}, "-1 bytes");
  refused({{"a/status.json", 3, "abc"}}, "no SHA-256");
  refused({file("a/status.json"), file("a/status.json")}, "twice or out of order");
  refused({file("b/status.json"), file("a/status.json")}, "twice or out of order");
  refused({file("a/status.json"), file("b/x")}, "in no run");
  refused({file("a/b/status.json"), file("a/status.json")}, "in a run inside another");
  refused({file("status.json")}, "lists no runs");
  refused({}, "lists no runs");
}

TEST(PackIndex, LimitsTheBytesWithoutOverflow) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(refusal({{file("a/status.json", 60), file("a/x", 40)}}, 100), "");
  EXPECT_NE(
      refusal({{file("a/status.json", 60), file("a/x", 41)}}, 100).find("more than 100 bytes"),
      std::string::npos);
  EXPECT_NE(refusal({{file("a/status.json", huge), file("a/x", huge)}}).find("more than"),
            std::string::npos);
}

TEST(PackIndex, RefusesAlteredTextAndOtherFormats) {
  std::string text = pack_index_text({{file("a/status.json")}});
  text[text.find("status")] = 'S';
  EXPECT_NE(error_of([&] { (void)parse_pack_index(text, "p"); }).find("altered"),
            std::string::npos);
  const std::string newer =
      signed_json({{"format", testing::whole(2)}, {"files", files_value({file("a/status.json")})}});
  const std::string said = error_of([&] { (void)parse_pack_index(newer, "p.tar"); });
  EXPECT_EQ(said,
            "[p.tar] format must be 1 but got 2; unpack it with the version of posenc that "
            "wrote it");
}

}  // namespace
}  // namespace posenc::runs
