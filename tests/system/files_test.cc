// Atomic writing: what is not a regular file is refused, and outputs go through symbolic links.
#include "system/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using testing::file_content;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_content;
using Names = std::vector<std::string>;

TEST(AtomicWrite, RefusesAFifoAndLeavesIt) {
  const TemporaryFolder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string refusal =
      "[" + fifo + "] is a FIFO, not a regular file; give the path of a regular file";
  EXPECT_EQ(message_of([&] { atomic_write(fifo, "text"); }), refusal);
  EXPECT_EQ(message_of([&] { write_output(fifo, "text"); }), refusal);
  EXPECT_EQ(message_of([&] { AtomicFile(fifo, true); }), refusal);
  EXPECT_TRUE(fs::is_fifo(fifo));
  EXPECT_EQ(folder.files(), Names({"fifo"}));
}

TEST(AtomicWrite, ReplacesALinkUnlessItIsAnOutput) {
  const TemporaryFolder folder;
  write_content(folder / "target", "old");
  fs::create_symlink("target", folder / "link");
  write_output(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(file_content(folder / "target"), "new");
  atomic_write(folder / "link", "own");
  EXPECT_FALSE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(file_content(folder / "target"), "new") << "a link in a run may be hostile";
}

TEST(OutputTarget, FollowsLinksToTheLastEvenWhereItDoesNotExist) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "below");
  fs::create_symlink("below/second", folder / "first");
  fs::create_symlink("file", folder / "below/second");
  EXPECT_EQ(output_target(folder / "first"), folder / "below/file");
  write_output(folder / "first", "text");
  EXPECT_EQ(file_content(folder / "below/file"), "text");
  EXPECT_TRUE(fs::is_symlink(folder / "first"));
  EXPECT_EQ(folder.files(), Names({"below", "first"})) << "the temporary lay next to the target";
  EXPECT_EQ(output_target(folder / "absent"), folder / "absent");
}

TEST(OutputTarget, RefusesLinksToSpecialFilesAndCircles) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  fs::create_symlink("fifo", folder / "link");
  EXPECT_NE(message_of([&] { (void)output_target(folder / "link"); }).find("link] is a FIFO, not"),
            std::string::npos);
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  EXPECT_NE(message_of([&] { write_output(folder / "a", "text"); }).find("cannot be written"),
            std::string::npos);
  EXPECT_TRUE(fs::is_symlink(folder / "a"));
}

}  // namespace
}  // namespace posenc
