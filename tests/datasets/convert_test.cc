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

std::string word(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xffU);
  return bytes;
}

// zlib's form without compression: one stored block.
std::string stored(const std::string& data) {
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (const char c : data) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  const auto size = static_cast<std::uint32_t>(data.size());
  std::string block = "\x78\x01\x01";
  for (const std::uint32_t half : {size, ~size}) {
    block += static_cast<char>(half & 0xffU);
    block += static_cast<char>(half >> 8U & 0xffU);
  }
  return block + data + word(b << 16U | a);
}

std::string r_strings(const std::vector<std::string>& strings, std::uint32_t version = 3) {
  std::string object = "X\n" + word(version) + word(0x040201) + word(0x030500);
  if (version == 3) object += word(5) + "UTF-8";
  object += word(16) + word(static_cast<std::uint32_t>(strings.size()));
  for (const std::string& s : strings) {
    object += word(0x00040009) + word(static_cast<std::uint32_t>(s.size())) + s;
  }
  return object;
}

std::string record(const std::string& object) {
  return word(static_cast<std::uint32_t>(object.size())) + stored(object);
}

TEST(RDatabase, HoldsATextPerVector) {
  const auto texts = texts_of_r_database(record(r_strings({"PRIDE AND PREJUDICE", "", "It is a"})) +
                                         record(r_strings({"Emma", "FINIS"}, 2)));
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0].first, "pride_and_prejudice.txt");
  EXPECT_EQ(texts[0].second, "PRIDE AND PREJUDICE\n\nIt is a\n");
  EXPECT_EQ(texts[1].first, "emma.txt");
  EXPECT_EQ(texts[1].second, "Emma\nFINIS\n");
}

TEST(RDatabase, DamageIsAnErrorAtEveryLength) {
  const std::string good = record(r_strings({"Emma", "FINIS"}));
  for (std::size_t length = 1; length < good.size(); ++length) {
    EXPECT_THROW(texts_of_r_database(good.substr(0, length)), Error) << length;
  }
  for (const std::size_t place :
       {std::size_t{0}, std::size_t{4}, std::size_t{12}, good.size() - 1}) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 0x55);
    EXPECT_THROW(texts_of_r_database(bad), Error) << place;
  }
  EXPECT_THROW(texts_of_r_database(record(r_strings({"Emma"}, 4))), Error) << "unknown version";
  EXPECT_THROW(texts_of_r_database(record(r_strings({}))), Error) << "nothing to name it by";
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
