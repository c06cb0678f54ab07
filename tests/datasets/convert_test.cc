// Packages made into plain files.
#include "datasets/convert.h"

#include <gtest/gtest.h>

#include "core/value.h"
#include "posenc/core/error.h"
#include "support/temporary_folder.h"

namespace posenc::datasets {
namespace {

using testing::TemporaryFolder;
using testing::write_content;

TEST(Verses, MakeAFilePerBookWithoutMarks) {
  const auto books = books_of_verses(R"({"Genesis 1:1": "In the beginning [was] light.",
    "Genesis 1:2": "# And a paragraph.", "1 John 1:1": "That which was"})");
  ASSERT_EQ(books.size(), 2U);
  EXPECT_EQ(books[0].first, "genesis.txt");
  EXPECT_EQ(books[0].second, "In the beginning was light.\nAnd a paragraph.\n");
  EXPECT_EQ(books[1].first, "1_john.txt");
  EXPECT_THROW(books_of_verses("{\"Genesis 1:1\": "), Error);
  EXPECT_THROW(books_of_verses("1e999"), Error);  // no double
}

TEST(Files, AreTakenBySuffixWithoutLinksAndWhatIsLeftOut) {
  const TemporaryFolder folder;
  for (const char* dir : {"in/root/sub", "in/root/tests", "out"}) {
    std::filesystem::create_directories(folder / dir);
  }
  write_content(folder / "in/root/a.py", "a");
  write_content(folder / "in/root/sub/b.py", "b");
  write_content(folder / "in/root/sub/empty.py", "");
  write_content(folder / "in/root/sub/c.txt", "c");
  write_content(folder / "in/root/tests/d.py", "d");
  write_content(folder / "in/root/skip.py", "e");
  write_content(folder / "in/outside.py", "f");
  std::filesystem::create_symlink("../outside.py", folder / "in/root/link.py");
  const Corpus corpus{.name = "x", .root = "root", .suffix = ".py", .without = "tests,skip.py"};
  const std::atomic<bool> stop = true;
  EXPECT_THROW(convert(corpus, folder / "in", folder / "out", &stop), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "out"));
  convert(corpus, folder / "in", folder / "out", nullptr);
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "out")) {
    if (entry.is_regular_file()) found.push_back(entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<std::string>{"a.py", "b.py"}));
  EXPECT_EQ(read_file(folder / "out/sub/b.py"), "b");
  const Corpus elsewhere{.name = "x", .root = "nowhere"};
  EXPECT_THROW(convert(elsewhere, folder / "in", folder / "out", nullptr), Error);
}

}  // namespace
}  // namespace posenc::datasets
