#include "runs/tar_entries.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runs/run_case.h"

namespace posenc::runs {
namespace {

using posenc::testing::error_of;
using posenc::testing::file_content;
using posenc::testing::TemporaryFolder;
using posenc::testing::write_content;

// The header of a file, with its checksum.
std::string header(const std::string& name, std::size_t size, char kind = '0') {
  std::string block(kTarBlock, '\0');
  block.replace(0, name.size(), name);
  block.replace(100, 7, "0000644");
  block.replace(124, 11, fmt::format("{:011o}", size));
  block[156] = kind;
  block.replace(257, 8,
                std::string("ustar\0"
                            "00",
                            8));
  block.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  block.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return block;
}

std::string refusal(const std::string& content) {
  const TemporaryFolder folder;
  write_content(folder / "x.tar", content);
  return error_of([&] { (void)list_tar(folder / "x.tar", "x.tar"); });
}

TEST(TarEntries, AreThoseThatTarWrote) {
  const TemporaryFolder folder;
  const std::string deep(90, 'd');
  ASSERT_EQ(
      std::system(("cd " + folder.path() + " && mkdir -p a/" + deep + " && echo hello > a/" + deep +
                   "/file-with-a-name && : > empty && tar --format=ustar -cf x.tar a empty")
                      .c_str()),
      0);
  const auto entries = list_tar(folder / "x.tar", "x.tar");
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_TRUE(entries[0].folder && entries[1].folder);
  EXPECT_EQ(entries[2].name, "a/" + deep + "/file-with-a-name");
  EXPECT_EQ(entries[2].size, 6);
  EXPECT_EQ(file_content(folder / "x.tar").substr(static_cast<std::size_t>(entries[2].offset), 6),
            "hello\n");
  EXPECT_EQ(entries[3], (TarEntry{"empty", 0, entries[2].offset + 1024, false}));
}

TEST(TarEntries, RefusesEverythingButPlainFilesAndFolders) {
  const std::string end(2 * kTarBlock, '\0');
  EXPECT_EQ(refusal(header("a", 0) + end), "");
  for (const char kind : {'1', '2', '3', '4', '6', '7', 'x', 'g', 'L', 'K', 'S', 'D', 'V', 'M'}) {
    EXPECT_NE(refusal(header("a", 0, kind) + end).find("neither a regular file nor a folder"),
              std::string::npos)
        << kind;
  }
  for (const char* name : {"/etc/passwd", "../a", "a/../../b", "./a"}) {
    EXPECT_NE(refusal(header(name, 0) + end).find("not a plain path"), std::string::npos) << name;
  }
  EXPECT_NE(refusal(header("a", 9, '5') + end).find("folder 'a' with content"), std::string::npos);
}

TEST(TarEntries, RefusesDamage) {
  const std::string data(kTarBlock, 'x');
  const std::string end(2 * kTarBlock, '\0');
  const std::string whole = header("a", 5) + data + end;
  EXPECT_EQ(refusal(whole), "");
  for (std::size_t size = 0; size < whole.size(); size += kTarBlock / 2) {
    EXPECT_NE(refusal(whole.substr(0, size)).find("is cut off"), std::string::npos) << size;
  }
  std::string altered = whole;
  altered[3] = 'b';
  EXPECT_NE(refusal(altered).find("not of a ustar archive"), std::string::npos);
  EXPECT_NE(refusal(whole + data).find("data after its end"), std::string::npos);
}

TEST(TarEntries, KnowsWhichNamesFit) {
  const std::string hundred(100, 'a');
  EXPECT_TRUE(fits_tar(hundred));
  EXPECT_FALSE(fits_tar(hundred + "a"));
  EXPECT_TRUE(fits_tar("p/" + hundred));
  EXPECT_TRUE(fits_tar(std::string(155, 'p') + "/" + hundred));
  EXPECT_FALSE(fits_tar(std::string(156, 'p') + "/" + hundred));
}

}  // namespace
}  // namespace posenc::runs
