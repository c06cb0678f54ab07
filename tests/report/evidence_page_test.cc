// The generated blocks of a page.
#include "report/evidence_page.h"

#include <gtest/gtest.h>

#include "support/message_of.h"

namespace posenc::report {
namespace {

using testing::message_of;

constexpr const char* kPage =
    "# Title\n\n"
    "<!-- generated: results main -->\n"
    "old\nlines\n"
    "<!-- end generated -->\n"
    "text\n"
    "<!-- generated: picture main -->\n"
    "<!-- end generated -->";

std::string new_text(const PageBlock& block) { return block.kind + " of " + block.part + "\n"; }

TEST(EvidencePage, BlocksAreFoundWithTheirLines) {
  const auto blocks = find_blocks(kPage, "p.md");
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].kind, "results");
  EXPECT_EQ(blocks[0].part, "main");
  EXPECT_EQ(blocks[0].line, 3);
  const std::string page = kPage;
  EXPECT_EQ(page.substr(blocks[0].begin, blocks[0].end - blocks[0].begin), "old\nlines\n");
  EXPECT_EQ(blocks[1].kind, "picture");
  EXPECT_EQ(blocks[1].begin, blocks[1].end);
}

TEST(EvidencePage, OnlyBlocksAreReplaced) {
  EXPECT_EQ(with_blocks(kPage, "p.md", new_text),
            "# Title\n\n"
            "<!-- generated: results main -->\n"
            "results of main\n"
            "<!-- end generated -->\n"
            "text\n"
            "<!-- generated: picture main -->\n"
            "picture of main\n"
            "<!-- end generated -->");
}

TEST(EvidencePage, ReplacedTwiceIsReplacedOnce) {
  const std::string once = with_blocks(kPage, "p.md", new_text);
  EXPECT_EQ(with_blocks(once, "p.md", new_text), once);
  EXPECT_TRUE(block_differences(once, "p.md", new_text).empty());
}

TEST(EvidencePage, DifferencesNameBlockAndFirstLine) {
  const auto text_of = [](const PageBlock& block) {
    return std::string(block.kind == "results" ? "old\nfigures\n" : "");
  };
  EXPECT_EQ(block_differences(kPage, "p.md", text_of),
            std::vector<std::string>{
                "p.md: block results main: line 5 has 'lines' but the runs give 'figures'"});
  const auto longer = [](const PageBlock& block) {
    return std::string(block.kind == "results" ? "old\nlines\nmore\n" : "");
  };
  EXPECT_EQ(block_differences(kPage, "p.md", longer),
            std::vector<std::string>{
                "p.md: block results main: line 6 has nothing but the runs give 'more'"});
}

TEST(EvidencePage, BrokenMarkersNameTheirLine) {
  const std::string open = "<!-- generated: results main -->\n";
  const std::string end = "<!-- end generated -->\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {open, "line 1 starts a block that has no end"},
      {"a\n" + end, "line 2 ends a block that has no start"},
      {open + open + end, "line 2 starts a block within another"},
      {open + end + open + end, "line 3 has a block that is there twice but got results main"},
      {"<!-- generated: resluts main -->\n" + end, "line 1 is not a marker of a block"},
      {"<!-- generated: results -->\n" + end, "line 1 is not a marker of a block"},
      {"<!-- generated: results main\n" + end, "line 1 is not a marker of a block"},
  };
  for (const auto& [page, said] : cases) {
    const std::string message = message_of([text = page] { find_blocks(text, "p.md"); });
    EXPECT_NE(message.find(said), std::string::npos) << page << message;
    EXPECT_EQ(message.rfind("[p.md]", 0), 0U) << message;
  }
}

}  // namespace
}  // namespace posenc::report
